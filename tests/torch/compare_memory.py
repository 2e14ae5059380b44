# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Holds the memory events of one Chrome trace against another's: on the payload's thread the same sequence of
(innermost slices, kind, bytes, device), the same running totals, in one run the same addresses; and the memory
columns of two tables, row by row.

Every known difference is a row of DIFFERENCES with the same title as in differences.md; it takes events out of one side
before the comparison and counts them. Whatever else differs fails.
"""

import collections

import compare

NAMES = ("[memory]", "[OutOfMemory]")
OLD_BLOCKS = "blocks from before torch's profiler began"
DIFFERENCES = (OLD_BLOCKS,)


class Event:
    __slots__ = ("name", "ts", "bytes", "addr", "device", "allocated", "reserved", "path", "before")

    def __init__(self, raw, ts):
        args = raw["args"]
        self.name, self.ts, self.bytes, self.addr = raw["name"], ts, args["Bytes"], args.get("Addr")
        self.device = args["Device Type"], args["Device Id"]
        self.allocated, self.reserved = args.get("Total Allocated"), args.get("Total Reserved")
        self.path = ""
        self.before = False  # frees a block that this tool saw allocated before the other began

    def key(self):
        return self.path, self.name, self.bytes, self.device

    def text(self):
        return f"{self.path} {self.name} {self.bytes:+d} on {self.device[0]}:{self.device[1]}"


def events_of(document):
    """{(process, thread): [Event in order of time]}"""
    threads = collections.defaultdict(list)
    for i, e in enumerate(document["traceEvents"]):
        if e.get("ph") == "i" and e.get("name") in NAMES:
            ts = round(e["ts"] * 1000)
            threads[e["pid"], e["tid"]].append((ts, i, Event(e, ts)))
    return {key: [e for _, _, e in sorted(found, key=lambda f: f[:2])] for key, found in threads.items()}


def place(root, events):
    """Gives each event the path of the slices that enclose it; the tree must be pruned and nested."""
    stack = []
    order = iter([n for _, n in root.walk()])
    coming = next(order, None)
    for e in events:
        while coming is not None and coming.begin <= e.ts:
            while stack and stack[-1][0].end <= coming.begin:
                stack.pop()
            name = compare.spelled(coming.name) if stack else ""
            stack.append((coming, (stack[-1][1] + "/" if stack else "") + name))
            coming = next(order, None)
        while stack and stack[-1][0].end <= e.ts:
            stack.pop()
        e.path = stack[-1][1] if stack else "outside"


class MemoryVerdict:
    def __init__(self):
        self.events = self.equal = self.totals = self.addresses = self.rows = 0
        self.problems = []
        self.known = collections.Counter()

    def add(self, other):
        for k in ("events", "equal", "totals", "addresses", "rows"):
            setattr(self, k, getattr(self, k) + getattr(other, k))
        self.problems += other.problems
        self.known += other.known

    def text(self):
        counts = [f"{self.equal} of {self.events} events equal"] * bool(self.events) + [f"{self.rows} rows"] * bool(self.rows)
        return ", ".join(counts + [f"{n} {what}" for n, what in ((self.totals, "totals"), (self.addresses, "addresses")) if n])


def mark_before(by_thread, trace):
    """Frees of CPU blocks whose allocation is not among the events since torch's profiler began, which is just before the
    first payload."""
    begin = min((p.root.begin for p in trace.payloads.values()), default=0)
    live = set()
    for e in sorted((e for events in by_thread.values() for e in events), key=lambda e: e.ts):
        if e.ts < begin or e.name != "[memory]" or e.device[0] != 0:
            continue
        if e.bytes > 0:
            live.add(e.addr)
        elif e.addr in live:
            live.discard(e.addr)
        else:
            e.before = True


def of_payload(by_thread, payload):
    return [e for e in by_thread.get(payload.thread, ()) if payload.root.begin <= e.ts < payload.root.end]


def without_old_blocks(v, events):
    """ptbpf's events without frees of what it saw allocated before torch's profiler began, which torch cannot know."""
    kept = [e for e in events if not e.before]
    if len(kept) < len(events):
        v.known[OLD_BLOCKS] += len(events) - len(kept)
    return kept


def compare_totals(v, name, want, got, skipped):
    """CPU totals run from where each tool began, so their steps are compared; those of other allocators as they are."""
    first = next(((w, g) for w, g in zip(want, got) if w.device[0] == 0 and w.reserved == 0), None)
    shift = first[1].allocated - first[0].allocated if first and first[0].allocated is not None else 0
    for w, g in zip(want, got):
        if w.allocated is None:
            continue
        v.totals += 1
        own = w.device[0] == 0 and w.reserved == 0 and w.key() == g.key() and not (w.allocated == g.allocated == 0)
        left = (w.allocated + (shift + skipped(g) if own else 0), w.reserved)
        if left != (g.allocated, g.reserved) and (w.allocated, w.reserved) != (g.allocated, g.reserved):
            v.problems.append(f"{name}: totals differ at {w.text()}: torch {w.allocated}/{w.reserved}, ptbpf {g.allocated}/"
                              f"{g.reserved}, {shift} apart at the payload's first")
            return


def compare_payload(theirs, mine, runs, name, ctx):
    """Verdict on one payload. theirs, mine: (Trace, events_of() of it). ctx: as of compare.compare()."""
    v = MemoryVerdict()
    ctx = dict(ctx, payload=name)
    sides = []
    for side, (trace, by_thread), run in (("torch", theirs, runs[0]), ("ptbpf", mine, runs[1])):
        payload = trace.payloads.get((run, name))
        if payload is None:
            v.problems.append(f"{name}: {side}'s trace has no annotation of it")
            return v
        compare.prune(payload.root, side, ctx, collections.Counter())
        events = of_payload(by_thread, payload)
        place(payload.root, events)
        sides.append(events)
    want, everything = sides
    got = without_old_blocks(v, everything)
    v.events = len(want)
    a, b = ([e.key() for e in side] for side in (want, got))
    v.equal = sum(1 for _ in compare.align(a, b)) if a != b else len(a)
    if a != b:
        v.problems.append(f"{name}: memory events differ ({len(a)} and {len(b)})\n"
                          + compare.unlike([e.text() for e in want], [e.text() for e in got], 20))
        return v
    freed, at = 0, {}
    for e in everything:
        freed += e.bytes if e.before else 0
        at[id(e)] = freed
    first = at[id(got[0])] if got else 0
    compare_totals(v, name, want, got, lambda e: at[id(e)] - first)
    if ctx["same_run"]:
        differ = [w for w, g in zip(want, got) if w.addr is not None and w.addr != g.addr]
        v.addresses = sum(w.addr is not None for w in want)
        if differ:
            v.problems.append(f"{name}: {len(differ)} addresses differ, first at {differ[0].text()}")
    return v


def compare_tables(theirs, mine, excused):
    """Rows [key, count, bytes, own bytes]; excused: keys whose memory no profiler could know."""
    v = MemoryVerdict()
    want, got = ({compare.spelled(r[0]): r[1:] for r in rows} for rows in (theirs, mine))
    for key in sorted(set(want) | set(got)):
        v.rows += 1
        if want.get(key) == got.get(key):
            continue
        if key in excused:
            v.known[excused[key]] += 1
        else:
            v.problems.append(f"{key}: torch {want.get(key)}, ptbpf {got.get(key)} (count, bytes, own bytes)")
    return v
