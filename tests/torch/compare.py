# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares two traces, payload by payload: names, categories and nesting of every slice on every thread, sequence numbers of
backward slices, forward-backward arrows.

Every known difference is a row of DIFFERENCES with the same title as in differences.md; a row removes slices from one side
before the comparison (their children move up). Any other difference fails."""

import collections
import copy
import difflib
import re


class Difference:
    def __init__(self, title, side, test, payloads=None):
        self.title, self.side, self.test, self.payloads = title, side, test, payloads


# side: "torch" (only torch's own trace has it) or "ptbpf". ctx: what is known of the run.
DIFFERENCES = []


def known(title, side, payloads=None):
    def register(test):
        DIFFERENCES.append(Difference(title, side, test, payloads))
        return test

    return register


ONLY_PROFILED = re.compile(r".*\(dynamo_timed\)|AOTDispatcher Runtime Wrapper Prologue|Pregraph bytecode|"
                           r"## Call CompiledFxGraph \w+ ##|PythonSubclass")
FOR_ANY_OBSERVER = ("PythonSubclass",)  # created for any observer, so also for the agent


@known("scopes that exist only while a profiler runs", "torch")
def only_profiled(n, parent, ctx):
    received = ctx.get("agent") and not ctx.get("between") and n.name in FOR_ANY_OBSERVER
    return not ctx["target_profiled"] and not received and ONLY_PROFILED.fullmatch(n.name)


@known("calls for which no kernel exists", "ptbpf", payloads=("broad_ops",))
def no_kernel(n, parent, ctx):
    return (ctx["torch"].startswith("1.") and n.name in ("aten::indices", "aten::values")
            and parent.name == n.name + "_copy" and n.args.get("ptbpf.unwound"))


def pruned(node, rows, ctx, counts):
    """The tree without its known differences, or the tree itself if it has none. Trees are never changed: other comparisons use
    them, too."""
    kept, same = [], True
    for c in node.children:
        row = next((d for d in rows if d.test(c, node, ctx)), None)
        rest = pruned(c, rows, ctx, counts)
        same &= rest is c and not row
        if row:
            counts[row.title] += 1
            kept += rest.children
        else:
            kept.append(rest)
    if same:
        return node
    node = copy.copy(node)
    node.children = kept
    return node


def pruned_payload(payload, side, ctx, counts):
    rows = [d for d in DIFFERENCES if d.side == side and (d.payloads is None or ctx["payload"] in d.payloads)]
    if not rows:
        return payload
    out = copy.copy(payload)
    out.root = pruned(payload.root, rows, ctx, counts)
    out.others = [pruned(node, rows, ctx, counts) for node in payload.others]
    return out


def spelled(name):
    """The spelling of a name that every side can write: torch writes "unknown" for names that are not ASCII (older versions do
    not) and a slash for a backslash; another test checks that ptbpf writes the original text."""
    if name == "unknown" or not (name.isascii() and (name.isprintable() or not name)):
        return "<a name that is not printable ASCII>"
    return name.replace("\\", "/").replace("\"", "'")[:256]


def lines(node):
    """The tree as comparable lines."""
    return ["  " * (d - 1) + spelled(n.name) + (" [note]" if n.cat == "user_annotation" else "")
            for d, n in node.walk() if d]


def backward_numbers(nodes, legacy):
    """(name, sequence number relative to the payload's first) of backward slices in order. The older profiler gives no number
    to the slice of the engine around a node."""
    found = [(n.name, n.seq) for node in nodes for _, n in node.walk() if n.fwd > 0 and n.seq >= 0
             and not (legacy and n.name.startswith("autograd::engine::"))]
    low = min((s for _, s in found), default=0)
    return [(name, s - low) for name, s in found]


def flow_set(flows, all_threads):
    flows = [f for f in flows if all_threads or f[3]]
    low = min((s for _, _, s, _ in flows), default=0)
    return collections.Counter((f, b, s - low) for f, b, s, _ in flows)


def align(want, got, reach=400, sure=4):
    """Pairs of positions with equal entries, in order; in linear time, which difflib does not guarantee. Where the lists
    differ, it continues at the nearest position where `sure` entries in a row are equal again."""
    i = j = 0
    while i < len(want) and j < len(got):
        if want[i] == got[j]:
            yield i, j
            i, j = i + 1, j + 1
            continue
        i, j = next(((i + k, j + n - k) for n in range(1, reach) for k in range(n + 1)
                     if want[i + k:i + k + sure] == got[j + n - k:j + n - k + sure] and want[i + k:i + k + 1]), (i + 1, j + 1))


def unlike(want, got, limit=30):
    """A readable difference of two lists of lines, from their first difference on."""
    first = max(next((k for k, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got))) - 4, 0)
    diff = list(difflib.unified_diff(want[first:first + 300], got[first:first + 300], "torch", "ptbpf", lineterm="", n=4))
    more = len(diff) - limit
    return "\n".join(diff[:limit] + ([f"... {more} more lines"] if more > 0 else []))


class Verdict:
    def __init__(self):
        self.ops = self.equal = self.flows = self.numbers = self.threads = 0
        self.problems = []
        self.known = collections.Counter()
        self.sides = None  # of compare(): both payloads without their known differences

    def add(self, other):
        for k in ("ops", "equal", "flows", "numbers", "threads"):
            setattr(self, k, getattr(self, k) + getattr(other, k))
        self.problems += other.problems
        self.known += other.known

    def same_lines(self, where, want, got):
        self.ops += len(want)
        if want == got:
            self.equal += len(want)
            return
        self.equal += sum((collections.Counter(want) & collections.Counter(got)).values())
        self.problems.append(f"{where}: slices differ ({len(want)} and {len(got)})\n{unlike(want, got)}")


def pair_threads(want, got):
    """Pairs of threads by content: equal ones first, the rest in order."""
    want, got = sorted(want), sorted(got)
    rest = collections.Counter(map(tuple, want)) & collections.Counter(map(tuple, got))
    pairs = [(list(k), list(k)) for k, c in rest.items() for _ in range(c)]

    def left(side):
        budget, out = collections.Counter(rest), []
        for s in side:
            if budget[tuple(s)] > 0:
                budget[tuple(s)] -= 1
            else:
                out.append(s)
        return out

    a, b = left(want), left(got)
    while a or b:
        pairs.append((a.pop(0) if a else [], b.pop(0) if b else []))
    return pairs


def compare(truth, seen, prefix_truth, prefix_seen, name, ctx):
    """Verdict on one payload. truth, seen: Trace of truth.py. ctx: target_profiled, all_threads."""
    v = Verdict()
    ctx = dict(ctx, payload=name)
    want, got = truth.payloads.get((prefix_truth, name)), seen.payloads.get((prefix_seen, name))
    if want is None or got is None:
        side = "torch's trace" if want is None else "ptbpf's trace"
        v.problems.append(f"{name}: {side} has no annotation of it")
        return v
    want, got = v.sides = pruned_payload(want, "torch", ctx, v.known), pruned_payload(got, "ptbpf", ctx, v.known)
    order = list if name not in ctx.get("unordered", ()) else (lambda tree: sorted(l.strip() for l in tree))
    v.same_lines(f"{name}, main thread", order(lines(want.root)), order(lines(got.root)))
    if ctx["all_threads"]:
        others = [t for t in map(lines, want.others) if t], [t for t in map(lines, got.others) if t]
        for k, (a, b) in enumerate(pair_threads(*others)):
            v.same_lines(f"{name}, thread {k + 1}", a, b)
            v.threads += 1
    nodes = (lambda p: [p.root, *p.others]) if ctx["all_threads"] else (lambda p: [p.root])
    if truth.has_sequences and seen.has_sequences:
        a, b = (sorted(backward_numbers(nodes(p), truth.legacy)) for p in (want, got))
        v.numbers += len(a)
        if a != b and collections.Counter(a) < collections.Counter(b):
            more = collections.Counter(b) - collections.Counter(a)
            if all(n.startswith("autograd::engine::evaluate_function: ") for n, _ in more):
                v.known["evaluate_function without a number in torch"] += sum(more.values())
                b = a
        if a != b:
            v.problems.append(f"{name}: backward sequence numbers differ\n"
                              + unlike([f"{s} {n}" for n, s in a], [f"{s} {n}" for n, s in b], 20))
    if truth.has_flows and seen.has_flows:
        a, b = (flow_set(p.flows, ctx["all_threads"]) for p in (want, got))
        v.flows += sum(a.values())
        if a != b:
            v.problems.append(f"{name}: arrows differ; only torch: {sorted((a - b).items())[:6]}; "
                              f"only ptbpf: {sorted((b - a).items())[:6]}")
    return v
