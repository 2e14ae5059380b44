# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares two Execution Traces: nodes are matched by thread and order of their begin, and compared field by field and value by
value.

Ids, thread numbers and record function ids are equal up to renaming; ids of tensors and storages refine torch's if both traces
recorded the same run. Known differences are rows of DIFFERENCES, as in compare_args.py."""

import re

import compare
from compare_args import DIFFERENCES as IN_BOTH, NO_TRUTH, ArgsVerdict, Site
from et_truth import KINDS

DIFFERENCES = list(IN_BOTH)


def known(title, no_truth=False):
    def register(test):
        DIFFERENCES.append((title, test))
        NO_TRUTH.update([title] if no_truth else [])
        return test

    return register


@known("the observer's stack after an operator raised", no_truth=True)
def lost_place(site, ctx):
    """The observer removes ids from its stack only at ends that have results; the nodes of the other ids are never written."""
    return site.kind == "ctrl_deps" and ctx["raised"]


@known("long lists in Execution Traces")
def long_list(site, ctx):
    """The list of a value ends with a mark; the lists of its shapes and types have the same length."""
    want, got = site.want, site.got
    if site.index is None or len(site.got_node.inputs["values"]) <= site.index and site.kind.startswith("inputs"):
        return False
    value = getattr(site.got_node, site.kind.split()[0])["values"][site.index]
    if not isinstance(value, list) or not value or value[-1] != "<Cut>":
        return False
    if site.kind.endswith((" shape", " stride")):
        return want[:len(got) - 1] == got[:-1]
    return len(want) > len(got)


@known("long texts in Execution Traces")
def long_string(site, ctx):
    if not site.kind.endswith(" value") or not isinstance(site.want, str) or not isinstance(site.got, str):
        return False
    short, long = sorted((site.want, site.got.removesuffix("<Cut>")), key=len)
    return len(short) >= 2048 and long.startswith(short)


def repaired(text):
    """torch escapes each byte beyond ASCII as a negative 32-bit number."""
    text = re.sub("\uffffff([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), text)
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


@known("texts beyond ASCII in torch's Execution Traces", no_truth=True)
def not_ascii(site, ctx):
    return isinstance(site.want, str) and "\uffffff" in site.want and repaired(site.want) == site.got


@known("results in floating-point registers")
def float_result(site, ctx):
    return (site.kind in ("outputs value", "outputs type") and site.got in ("<Unknown>", "Unknown")
            and site.want_node.outputs["types"][site.index] == "Double")


@known("a fake tensor's device")
def fake_device(site, ctx):
    return site.kind.endswith(" device") and ctx["payload"] in ("fake_tensors", "symbolic_sizes") and site.got == "meta"


class Renaming:
    """A mapping in both directions: a name of one side always corresponds to the same name of the other."""

    def __init__(self):
        self.to, self.back = {}, {}

    def same(self, want, got):
        return self.to.setdefault(want, got) == got and self.back.setdefault(got, want) == want


class Refinement:
    """A mapping in one direction: torch gives a later object at the same address the same id, ptbpf does not. Each id of ptbpf
    always corresponds to the same id of torch; test_dataflow.py checks the other direction, where no address is reused."""

    def __init__(self):
        self.back = {}

    def same(self, want, got):
        return self.back.setdefault(got, want) == want


class Names:
    """Ids that differ between two traces of one run; kept over all payloads of the recording."""

    def __init__(self):
        self.thread, self.rf = Renaming(), Renaming()
        self.tensor, self.storage = Refinement(), Refinement()
        self.node = {}  # torch's node id -> ptbpf's


def is_tensor(value):
    return (isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)
            and all(isinstance(v, int) and not isinstance(v, bool) for v in value[:5]))


class EtComparison:
    def __init__(self, ctx, names):
        self.ctx, self.names, self.v = ctx, names, ArgsVerdict()

    def value(self, kind, want_node, got_node, index, want, got, same=None):
        same = (want == got and type(want) is type(got)) if same is None else same
        if same:
            self.v.count(kind, 1)
            return
        self.v.value(DIFFERENCES, Site(kind, want_node, got_node, index, want, got), self.ctx, same)

    def tensor(self, end, a, b, i, want, got):
        if self.ctx["same_run"]:
            self.value(f"{end} tensor id", a, b, i, want, got, self.names.tensor.same(want[0], got[0]))
            self.value(f"{end} storage id", a, b, i, want, got, self.names.storage.same(want[1], got[1]))
        for k, field in ((2, "offset"), (3, "numel"), (4, "itemsize"), (5, "device")):
            self.value(f"{end} {field}", a, b, i, want[k], got[k])

    def tree(self, kind, end, a, b, i, want, got):
        """Values nest in lists and tuples; yields each leaf as one value."""
        if is_tensor(want) and is_tensor(got):
            self.tensor(end, a, b, i, want, got)
        elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got) and want and kind == f"{end} value":
            for x, y in zip(want, got):
                self.tree(kind, end, a, b, i, x, y)
        else:
            self.value(kind, a, b, i, want, got)

    def end(self, end, a, b):
        want, got = getattr(a, end), getattr(b, end)
        for kind in KINDS:
            x, y = want.get(kind), got.get(kind)
            if x is None:  # schema 1.0.1 has no strides
                continue
            if x == y and kind != "values":
                self.v.count(f"{end} {kind[:-1]}", len(x))
                continue
            if len(x) != len(y):
                self.value(f"{end} {kind}", a, b, None, x, y, False)
                continue
            for i, (p, q) in enumerate(zip(x, y)):
                self.tree(f"{end} {kind[:-1]}", end, a, b, i, p, q)

    def renamed(self, kind, a, b, renaming, zero=0):
        want, got = a.attrs[kind], b.attrs[kind]
        same = want == got if zero in (want, got) else renaming.same(want, got)
        self.value(kind, a, b, None, want, got, same)

    def attributes(self, a, b, shift):
        for kind in ("scope", "op_schema", "kernel_backend", "kernel_file"):
            if kind in a.attrs:
                self.value(kind, a, b, None, a.attrs[kind], b.attrs.get(kind))
        want, got = a.attrs["seq_id"], b.attrs["seq_id"]
        self.value("seq_id", a, b, None, want, got, want == (got + shift if got >= 0 else got))
        self.renamed("tid", a, b, self.names.thread)
        self.renamed("fw_tid", a, b, self.names.thread)
        self.value("rf_id", a, b, None, a.attrs["rf_id"], b.attrs["rf_id"],
                   self.names.rf.same(a.attrs["rf_id"], b.attrs["rf_id"]))

    def parent(self, node, side):
        parent, dropped = node.parent, self.ctx["dropped", side]
        while parent in dropped:
            parent = dropped[parent]
        return parent

    def links(self, a, b):
        """Parents: the parent of a node corresponds to the parent of its partner. The nodes of threads are partners if their
        threads are."""
        want, got = self.parent(a, "torch"), self.parent(b, "ptbpf")
        self.value("ctrl_deps", a, b, None, want, got, self.names.node.get(want) == got)
        want, got = a.attrs["fw_parent"], b.attrs["fw_parent"]
        self.value("fw_parent", a, b, None, want, got, (self.names.node.get(want) if want else 0) == got)


def aligned(want, got):
    a, b = ([compare.spelled(n.name) for n in side] for side in (want, got))
    if a == b:
        return list(zip(want, got)), None
    return ([(want[i], got[j]) for i, j in compare.align(a, b)],
            f"nodes differ ({len(a)} and {len(b)})\n{compare.unlike(a, b)}")


def only_ours(n, side, ctx):
    """torch writes no node for a call that should have results and raised, and derives no steps."""
    if "derived" in n.attrs.get("ptbpf.note", "").split(","):
        return "derived steps"
    schema = n.attrs["op_schema"]
    raised = side == "ptbpf" and n.attrs["rf_id"] in ctx["unwound"] or (ctx.get("agent") and not n.outputs["values"])  # its end had none
    if raised and schema and not schema.endswith("-> ()"):
        return "operators that raised"
    return None


def kept(nodes, side, ctx, counts):
    """Without the nodes that only one side has, among them those of compare.DIFFERENCES."""
    out = []
    for n in nodes:
        title = only_ours(n, side, ctx) if side == "ptbpf" or ctx.get("between") else None
        if title:
            counts[title] += 1
            ctx["dropped", side][n.id] = n.parent
            continue
        row = next((d for d in compare.DIFFERENCES if d.side == side and d.payloads is None and d.test(n, None, ctx)), None)
        if row:
            counts[row.title] += 1
            ctx["dropped", side][n.id] = n.parent
        else:
            out.append(n)
    return out


def thread_pairs(want, got, ctx):
    """Pairs of threads of a payload: its own one, the others by content."""
    yield want.threads.get(want.main, []), got.threads.get(got.main, [])
    others = [sorted((t for tid, t in p.threads.items() if tid != p.main), key=lambda t: ([n.name for n in t], t[0].id))
              for p in (want, got)]
    for k in range(max(map(len, others))):
        yield tuple(side[k] if k < len(side) else [] for side in others)


def inside(both, payload):
    """Without what follows the payload's annotation: 1.13 creates the handle of the next one by operators."""
    ids = {payload.root.id}
    for n in payload.threads.get(payload.main, []):
        if n.parent in ids:
            ids.add(n.id)
    return [(a, b) for a, b in both if b.id in ids]


def node_of_thread(et, tid):
    return next((n.id for n in et.specials.values() if n.attrs["tid"] == tid), None)


def compare_payload(want_et, got_et, want_key, got_key, names, ctx):
    """Verdict on one payload of two recordings."""
    ctx = dict(ctx)
    # excluded nodes and their parents; derived steps may span payloads
    ctx["dropped", "torch"], ctx["dropped", "ptbpf"] = {}, dict(got_et.derived)
    c = EtComparison(ctx, names)
    want, got = want_et.payloads.get(want_key), got_et.payloads.get(got_key)
    if want is None or got is None:
        c.v.problems.append(f"{'torch' if want is None else 'ptbpf'} has no annotation of {want_key[1]}")
        return c.v
    names.node[want.root.id] = got.root.id
    ctx["raised"] = any(n.parent not in want_et.nodes and n.parent not in want_et.specials
                        for t in want.threads.values() for n in t)
    couples = []
    for a, b in thread_pairs(want, got, ctx):
        a, b = kept(a, "torch", ctx, c.v.known), kept(b, "ptbpf", ctx, c.v.known)
        both, problem = aligned(a, b)
        if problem:
            c.v.problems.append(problem)
        if both:
            x, y = both[0]
            names.node[node_of_thread(want_et, x.attrs["tid"])] = node_of_thread(got_et, y.attrs["tid"])
        names.node.update((x.id, y.id) for x, y in both)
        couples.append(inside(both, got) if not couples else both)
    for both in couples:
        shift = 0
        if not ctx["same_run"]:
            shift = next((x.attrs["seq_id"] - y.attrs["seq_id"] for x, y in both
                          if x.attrs["seq_id"] >= 0 and y.attrs["seq_id"] >= 0), 0)
        c.v.pairs += len(both)
        for a, b in both:
            c.end("inputs", a, b)
            c.end("outputs", a, b)
            c.attributes(a, b, shift)
            c.links(a, b)
    return c.v
