# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Reads traces into trees: Chrome traces (torch.profiler's and ptbpf's) and Execution Traces.

The result has the same form for all: per payload, a tree of the main thread below the payload's annotation and a list of trees
of other threads. Known differences are the subject of compare.py."""

import bisect
import gzip
import json
import re

PAYLOAD = re.compile(r"## ([a-z]+) (\w+) ##$")


class Node:
    __slots__ = ("name", "cat", "begin", "end", "key", "seq", "fwd", "children", "args")

    def __init__(self, name, cat, begin=0, end=0, key=0, seq=-1, fwd=0, args=None):
        self.name, self.cat, self.begin, self.end, self.key = name, cat, begin, end, key
        self.seq, self.fwd, self.args = seq, fwd, args or {}
        self.children = []

    def walk(self):
        todo = [(0, self)]
        while todo:
            depth, node = todo.pop()
            yield depth, node
            todo += [(depth + 1, c) for c in reversed(node.children)]


class Payload:
    """One payload in one trace."""

    def __init__(self, root):
        self.root = root
        self.thread = None  # (process, thread) of the root
        self.others = []  # one node per other thread, its children are the thread's outermost slices
        self.flows = []   # (forward name, backward name, sequence number, on the main thread)


class Trace:
    def __init__(self, document, sequences, flows):
        self.document = document
        self.payloads = {}  # (prefix, name) -> Payload
        self.has_sequences, self.has_flows = sequences, flows
        self.legacy = False


def read_json(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return json.load(f)


def read_profiled(path):
    """torch's own Chrome trace; older versions do not escape names, so that is done first."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    try:
        return json.loads(text)
    except ValueError:
        text = re.sub(r'"name": "(.*)", "pid":', lambda m: f'"name": {json.dumps(m[1])}, "pid":', text)
        return json.loads(text)


def read_observer(path):
    """An Execution Trace; torch does not escape names, so that is done first."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    text = re.sub(r'"name": "(.*?)", ("ctrl_deps"|"id")', lambda m: f'"name": {json.dumps(m[1])}, {m[2]}', text)
    return json.loads(text, strict=False)


def ns(value):
    """Nanoseconds of microseconds with three decimals, which a float represents exactly enough."""
    return round(value * 1000)


def nest(slices):
    """Outermost nodes of one thread's slices. An overlap without nesting is a child as well."""
    slices.sort(key=lambda n: (n.begin, n.key))
    roots, stack = [], []
    for n in slices:
        while stack and stack[-1].end <= n.begin:
            stack.pop()
        (stack[-1].children if stack else roots).append(n)
        stack.append(n)
    return roots


def chrome_nodes(events):
    """{tid: [Node]}"""
    threads = {}
    for i, e in enumerate(events):
        if e.get("ph") != "X" or e.get("cat") not in ("cpu_op", "user_annotation"):
            continue
        args = e.get("args", {})
        begin = ns(e["ts"])
        threads.setdefault((e["pid"], e["tid"]), []).append(
            Node(e["name"], e["cat"], begin, begin + ns(e["dur"]), args.get("External id", i),
                 args.get("Sequence number", -1), args.get("Fwd thread id", 0), args))
    return threads


def chrome_flows(events, threads):
    """[(forward node, backward node, thread of the latter)] of the fwdbwd arrows."""
    by_start = {}
    for tid, nodes in threads.items():
        for n in nodes:
            if n.seq >= 0:
                by_start.setdefault((tid, n.begin), []).append(n)
    ends = {}
    for e in events:
        if e.get("cat") == "fwdbwd" and e.get("ph") in "sf":
            ends.setdefault(e["id"], {})[e["ph"]] = ((e["pid"], e["tid"]), ns(e["ts"]))
    pairs = []
    for flow, both in ends.items():
        if set(both) != {"s", "f"}:
            raise ValueError(f"fwdbwd arrow {flow} has only {sorted(both)}")
        fwd = [n for n in by_start.get(both["s"], ()) if n.fwd == 0]
        bwd = [n for n in by_start.get(both["f"], ()) if n.fwd > 0]
        if not fwd or not bwd:
            raise ValueError(f"fwdbwd arrow {flow} does not begin and end on slices with sequence numbers: {both}")
        pairs.append((fwd[-1], bwd[-1], both["f"][0]))
    return pairs


def load_chrome(path, own=False, pid=None):
    """own: written by torch."""
    document = read_profiled(path) if own else read_json(path)
    events = document["traceEvents"]
    threads = {k: v for k, v in chrome_nodes(events).items() if pid is None or k[0] == pid}
    legacy = document.get("legacy", False)  # runner.py made it from the older profiler's events
    trace = Trace(document, True, not legacy)
    trace.legacy = legacy
    roots = {tid: nest(nodes) for tid, nodes in threads.items()}
    spans = []  # (begin, end, Payload)
    for tid, tops in roots.items():
        for top in tops:
            for _, n in top.walk():
                m = PAYLOAD.match(n.name)
                if m and n.cat == "user_annotation":
                    p = trace.payloads[m.groups()] = Payload(n)
                    p.thread = tid
                    spans.append((n.begin, n.end, p, tid))
    spans.sort(key=lambda s: s[0])
    starts = [s[0] for s in spans]

    def payload_at(t):
        i = bisect.bisect_right(starts, t) - 1
        return spans[i] if i >= 0 and t < spans[i][1] else None

    for tid, tops in roots.items():
        holders = {}
        for top in tops:
            span = payload_at(top.begin)
            if span and span[3] != tid:
                holder = holders.setdefault(id(span[2]), Node("thread", "thread"))
                if not holder.children:
                    span[2].others.append(holder)
                holder.children.append(top)
    for fwd, bwd, tid in chrome_flows(events, threads):
        span = payload_at(bwd.begin)
        if span:
            span[2].flows.append((fwd.name, bwd.name, bwd.seq, tid == span[3]))
    return trace


def flat_attrs(node):
    if "attrs" in node:
        return {a["name"]: a["value"] for a in node["attrs"]}, node["ctrl_deps"]
    return node, node["parent"]  # schema 1.0.1


def load_observer(path):
    """An Execution Trace: ids are assigned on entry, so their order is the order of begins."""
    nodes, parents, special = {}, {}, {}
    for raw in read_observer(path)["nodes"]:
        attrs, parent = flat_attrs(raw)
        if raw["name"].startswith("[pytorch|profiler|execution_"):
            special[raw["id"]] = raw["name"]
            continue
        cat = "user_annotation" if attrs["scope"] == 7 else "cpu_op"
        nodes[raw["id"]] = Node(raw["name"], cat, raw["id"], 0, raw["id"], attrs["seq_id"], attrs["fw_tid"],
                                {"tid": attrs["tid"], "schema": attrs["op_schema"]})
        parents[raw["id"]] = parent
    trace = Trace(None, False, False)
    starts = []
    for i in sorted(nodes):
        if parents[i] in nodes:
            nodes[parents[i]].children.append(nodes[i])
        m = PAYLOAD.match(nodes[i].name)
        if m:
            p = trace.payloads[m.groups()] = Payload(nodes[i])
            starts.append((i, p, nodes[i].args["tid"]))
    firsts = [s[0] for s in starts]
    holders = {}
    for i in sorted(nodes):
        at = bisect.bisect_right(firsts, i) - 1
        if parents[i] in nodes or at < 0 or nodes[i].args["tid"] == starts[at][2]:
            continue
        holder = holders.get((at, nodes[i].args["tid"]))
        if holder is None:
            holder = holders[at, nodes[i].args["tid"]] = Node("thread", "thread")
            starts[at][1].others.append(holder)
        holder.children.append(nodes[i])
    return trace
