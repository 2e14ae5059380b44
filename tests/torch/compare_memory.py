# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares the memory events of two Chrome traces: on the payload's thread the same sequence of (innermost slices, kind, bytes,
device), the same running totals, in one run the same addresses; and the memory columns of two tables, row by row.

Every known difference is a row of DIFFERENCES with the same title as in differences.md; it removes events from one side before
the comparison and counts them. Any other difference fails."""

import bisect
import collections
import re

import compare

NAMES = ("[memory]", "[OutOfMemory]")
OLD_BLOCKS = "blocks from before torch's profiler began"
UNWINDING = "blocks that an exception frees on its way"
OTHER_THREADS = "blocks of threads that torch's profiler was not started on"
CROSSING = "the share of annotations that cross each other"
ROUNDED = "tables of torch that round times to 256 ns"
NO_FAILURES = "failed allocations in the older profiler"
DIFFERENCES = (OLD_BLOCKS, UNWINDING, OTHER_THREADS, CROSSING, ROUNDED, NO_FAILURES)
ROUNDING = 2  # ns: times are fractions of microseconds


PAYLOAD = re.compile(r"## [a-z]+ (\w+) ##$")


def row(name):
    """A slice's row in the table; the payload's own annotation has the same row in every run."""
    return PAYLOAD.sub(r"## \1 ##", compare.spelled(name))


class Event:
    __slots__ = ("name", "ts", "bytes", "addr", "device", "allocated", "reserved", "path", "dead",
                 "unseen", "apart")

    def __init__(self, raw, ts):
        args = raw["args"]
        self.name, self.ts, self.bytes, self.addr = raw["name"], ts, args["Bytes"], args.get("Addr")
        self.device = args["Device Type"], args["Device Id"]
        self.allocated, self.reserved = args.get("Total Allocated"), args.get("Total Reserved")
        self.path = ()
        self.dead = 0  # number of innermost slices that were left by an exception
        self.unseen, self.apart = None, 0  # see mark_unseen()

    def names(self):
        return [compare.spelled(n.name) for n in self.path[1:]]

    def key(self):
        return self.name, self.bytes, self.device

    def text(self):
        return f"{'/'.join(self.names())} {self.name} {self.bytes:+d} on {self.device[0]}:{self.device[1]}"


def events_of(document):
    """{(process, thread): [Event in order of time]}"""
    threads = collections.defaultdict(list)
    for i, e in enumerate(document["traceEvents"]):
        if e.get("ph") == "i" and e.get("name") in NAMES:
            ts = round(e["ts"] * 1000)
            threads[e["pid"], e["tid"]].append((ts, i, Event(e, ts)))
    return {key: [e for _, _, e in sorted(found, key=lambda f: f[:2])] for key, found in threads.items()}


def store_paths(root, events):
    """Stores in each event the path of the slices that enclose it; the tree must be pruned and nested."""
    stack = []  # (slice, path, number of innermost slices that an exception left)
    order = iter([n for _, n in root.walk()])
    coming = next(order, None)

    def leave(ts):  # the event at whose time an unwound slice ends belongs to it
        while stack and stack[-1][0].end - (ROUNDING if stack[-1][2] else 0) <= ts:
            stack.pop()

    for e in events:
        while coming is not None and coming.begin <= e.ts:
            leave(coming.begin)
            path, dead = stack[-1][1:] if stack else ((), 0)
            stack.append((coming, (*path, coming), dead + 1 if coming.args.get("ptbpf.unwound") else 0))
            coming = next(order, None)
        leave(e.ts)
        e.path, e.dead = stack[-1][1:] if stack else ((root,), 0)


class Moved:
    """Bytes (and calls) that ptbpf's table has in addition to torch's, by row, and rows that cannot be compared."""

    def __init__(self):
        self.bytes, self.calls, self.why, self.excused = collections.Counter(), collections.Counter(), {}, {}

    def add(self, other):
        self.bytes.update(other.bytes)
        self.calls.update(other.calls)
        self.why.update(other.why)
        self.excused.update(other.excused)

    def charge(self, path, title, bytes, own=True, beyond=0):
        """As the table does it: `own` for the innermost slice, all for each, but only once where a slice is folded into its
        parent."""
        for k, n in enumerate(path):
            folded = k and n.name == path[k - 1].name and len(path[k - 1].children) == 1
            if k >= beyond and not folded:
                self.bytes[row(n.name), "all"] += bytes
                self.why[row(n.name)] = title
        if own:
            self.bytes[row(path[-1].name), "own"] += bytes
            self.why[row(path[-1].name)] = title


class MemoryVerdict:
    def __init__(self):
        self.events = self.equal = self.totals = self.addresses = self.rows = 0
        self.problems = []
        self.known = collections.Counter()
        self.moved = Moved()

    def add(self, other):
        self.moved.add(other.moved)
        for k in ("events", "equal", "totals", "addresses", "rows"):
            setattr(self, k, getattr(self, k) + getattr(other, k))
        self.problems += other.problems
        self.known += other.known

    def text(self):
        counts = [f"{self.equal} of {self.events} events equal"] * bool(self.events) + [f"{self.rows} rows"] * bool(self.rows)
        return ", ".join(counts + [f"{n} {what}" for n, what in ((self.totals, "totals"), (self.addresses, "addresses")) if n])


def mark_unseen(by_thread, trace):
    """Removes ptbpf's events that torch's profiler cannot have: all of threads on which it was not started, and frees of CPU
    blocks that were not allocated on its thread since it began; between ptbpf's start and its start nothing is allocated.
    Stores in each event the sum of the removed ones so far, by which the totals of the two differ."""
    thread = next((p.thread for p in trace.payloads.values()), None)
    live, unseen = set(), 0
    everything = sorted(((e.ts, key == thread, e) for key, events in by_thread.items() for e in events), key=lambda f: f[:2])
    for _, own, e in everything:
        if e.device[0] == 0 and e.name == "[memory]":
            e.unseen = None if own else OTHER_THREADS
            if own and e.bytes > 0:
                live.add(e.addr)
            elif own and e.addr not in live:
                e.unseen = OLD_BLOCKS
            live.discard(e.addr if e.bytes < 0 else None)
            unseen += e.bytes if e.unseen else 0
        e.apart = unseen


def of_payload(by_thread, payload):
    return [e for e in by_thread.get(payload.thread, ()) if payload.root.begin <= e.ts < payload.root.end]


def compare_paths(v, payload, want, got):
    """Both events of each pair are in the same slices. An exception frees objects of its frames before it is caught; torch has
    ended the inner slices by then, ptbpf learns of the exception when it is caught, and marks them as unwound."""
    wrong = []
    for w, g in zip(want, got):
        theirs, mine = w.names(), g.names()
        if theirs == mine:
            v.equal += 1
        elif g.bytes < 0 and mine[:len(theirs)] == theirs and len(mine) - len(theirs) <= g.dead:
            v.known[UNWINDING] += 1
            v.moved.charge(g.path, UNWINDING, g.bytes, beyond=len(w.path))
            v.moved.charge(g.path[:len(w.path)], UNWINDING, -g.bytes, beyond=len(w.path))
        else:
            wrong.append(f"torch {w.text()}, ptbpf in {'/'.join(mine)}")
    if wrong:
        v.problems.append("\n".join([f"{payload}: {len(wrong)} events in other slices", *wrong[:12]]))


def compare_totals(v, name, want, got):
    """CPU totals are relative to the start of each tool, so their changes are compared; those of other allocators are compared
    directly."""
    shift = None
    for w, g in zip(want, got):
        if w.allocated is None:
            continue
        v.totals += 1
        if (w.allocated, w.reserved) == (g.allocated, g.reserved):
            continue
        apart = g.allocated - w.allocated - g.apart
        shift = apart if shift is None else shift
        if w.device[0] or w.reserved != g.reserved or w.reserved or apart != shift:
            v.problems.append(f"{name}: totals differ at {w.text()}: torch {w.allocated}/{w.reserved}, ptbpf {g.allocated}/"
                              f"{g.reserved}, {shift} apart before, {g.apart} not to be seen by torch")
            return


def other_threads(v, payload, by_thread):
    """Rows of ptbpf's table for other threads: their slices, and what is charged to slices of this thread while they
    allocate."""
    events = [e for key, found in by_thread.items() if key != payload.thread for e in found
              if payload.root.begin <= e.ts < payload.root.end]
    events.sort(key=lambda e: e.ts)
    if not events and not payload.others:
        return
    store_paths(payload.root, events)
    for e in events:
        v.moved.charge(e.path, OTHER_THREADS, e.bytes)
    everything = events + of_payload(by_thread, payload)
    for holder in payload.others:
        for _, n in holder.walk():
            if n is not holder:
                parts = [sum(e.bytes for e in everything if m.begin <= e.ts < m.end) for m in (n, *n.children)]
                key = row(n.name)
                v.moved.calls[key] += 1
                v.moved.bytes[key, "all"] += parts[0]
                v.moved.bytes[key, "own"] += parts[0] - sum(parts[1:])
                v.moved.why[key] = OTHER_THREADS


def identity(n):
    return n.key, n.begin, n.name


def pruned(v, side, payload, ctx):
    """compare.pruned_payload(); rows around slices that only torch has, and around annotations that do not nest, are
    excused."""
    counts = collections.Counter()
    out = compare.pruned_payload(payload, side, ctx, counts)
    if side != "torch":
        return out
    left = {identity(n) for _, n in out.root.walk()} if counts else None
    for _, n in payload.root.walk():
        crossing = [c for c in n.children if c.end > n.end]
        if crossing:
            v.moved.excused.update({row(m.name): CROSSING for m in (n, payload.root, *crossing)})
        for gone in (m for m in n.children if left and identity(m) not in left):  # the result of folding depends on it
            v.moved.excused.update({row(m.name): next(iter(counts)) for m in (n, *(k for _, k in gone.walk()))})
    return out


def excuse_rounded(v, root, events):
    """Excuses rows whose slices, or their children, begin or end where rounding may move an event to the other side."""
    times = [e.ts for e in events]

    def close(ts):
        return bisect.bisect_left(times, ts - 512) < bisect.bisect_right(times, ts + 512)

    for _, n in root.walk():
        if any(close(m.begin) or close(m.end) for m in (n, *n.children)):
            v.moved.excused.setdefault(row(n.name), ROUNDED)


def compare_payload(theirs, mine, runs, name, ctx):
    """Verdict on one payload. theirs, mine: (Trace, its events_of()). ctx: as for compare.compare()."""
    v = MemoryVerdict()
    ctx = dict(ctx, payload=name)
    sides = []
    for side, (trace, by_thread), run in (("torch", theirs, runs[0]), ("ptbpf", mine, runs[1])):
        payload = trace.payloads.get((run, name))
        if payload is None:
            v.problems.append(f"{name}: {side}'s trace has no annotation of it")
            return v
        payload = pruned(v, side, payload, ctx)
        events = of_payload(by_thread, payload)
        store_paths(payload.root, events)
        if side == "torch" and ctx.get("rounds"):
            excuse_rounded(v, payload.root, events)
        sides.append(events)
        if side == "ptbpf":
            other_threads(v, payload, by_thread)
    if theirs[0].legacy:
        for e in sides[1]:
            e.unseen = e.unseen or (NO_FAILURES if e.name == "[OutOfMemory]" else None)
    want, got = sides[0], [e for e in sides[1] if not e.unseen]
    v.known.update(e.unseen for e in sides[1] if e.unseen)
    v.events = len(want)
    a, b = ([e.key() for e in side] for side in (want, got))
    if a != b:
        v.equal = sum(1 for _ in compare.align(a, b))
        v.problems.append(f"{name}: memory events differ ({len(a)} and {len(b)})\n"
                          + compare.unlike([e.text() for e in want], [e.text() for e in got], 20))
        return v
    compare_paths(v, name, want, got)
    compare_totals(v, name, want, got)
    if ctx["same_run"]:
        differ = [w for w, g in zip(want, got) if w.addr is not None and w.addr != g.addr]
        v.addresses = sum(w.addr is not None for w in want)
        if differ:
            v.problems.append(f"{name}: {len(differ)} addresses differ, first at {differ[0].text()}")
    return v


def compare_tables(theirs, mine, moved):
    """Compares rows [key, count, bytes, own bytes], torch's corrected by the known differences."""
    v = MemoryVerdict()
    want, got = ({row(r[0]): r[1:] for r in rows} for rows in (theirs, mine))
    for key in sorted(set(want) | set(got)):
        v.rows += 1
        a, b = want.get(key), got.get(key)
        if key in moved.why and a:
            a = [a[0] + moved.calls[key], a[1] + moved.bytes[key, "all"], a[2] + moved.bytes[key, "own"]]
        if a == b:
            v.known.update([moved.why[key]] if key in moved.why else [])
        elif key in moved.excused:
            v.known[moved.excused[key]] += 1
        else:
            v.problems.append(f"{key}: torch {a}, ptbpf {b} (count, bytes, own bytes)")
    return v
