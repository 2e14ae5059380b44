# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The Chrome trace of a program with known operators: exact names, counts, times, metadata; and what torch's own tests
(test/profiler) assert of a trace."""

import collections
import functools
import re

from support import Tracer, check, load_trace, require_root, slices, workload, workspace


def touch(path):
    with open(path, "w"):
        pass


def traced(ws, *options, script="scripted.py"):
    with workload(script, ws + "/go") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", *options) as t:
            t.wait_attached()
            touch(ws + "/go")
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            t.expect(0)
    return load_trace(ws + "/a.json")


@functools.lru_cache(maxsize=1)
def plain():
    """The trace without options, as a document and as its text, for all tests that only read it."""
    require_root()
    with workspace() as ws:
        doc = traced(ws)
        with open(ws + "/a.json", encoding="utf-8") as f:
            return doc, f.read()


def test_counts():
    doc, _ = plain()
    cnt = collections.Counter(e["name"] for e in slices(doc))
    want = {"aten::neg": 100, "aten::mm": 8, "aten::abs": 2, "first part": 1, "last part": 1,
            "ünïcode \"quoted\" back\\slash": 1, "Optimizer.step#SGD.step": 4, "Optimizer.zero_grad#SGD.zero_grad": 4,
            "autograd::engine::evaluate_function: MulBackward0": 4, "MulBackward0": 4}
    bad = [f"{name}: {cnt[name]} instead of {n}" for name, n in want.items() if cnt[name] != n]
    check(not bad, "\n".join(bad))


def test_shape_of_events():
    """Every event has the keys that viewers and analysis tools read."""
    doc, text = plain()
    events = doc["traceEvents"]
    check(all("name" in e for e in events), "an event has no name")
    ops = slices(doc)
    for e in ops:
        check({"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"} <= set(e), f"incomplete event {e}")
        check(e["args"].get("Record function id", -1) >= 0, f"no Record function id: {e}")
        check(isinstance(e["ts"], (int, float)) and e["dur"] >= 0, f"times are no numbers: {e}")
    ids = [e["args"]["External id"] for e in ops]
    check(len(ids) == len(set(ids)), "External ids are not unique")
    check(doc["schemaVersion"] == 1 and isinstance(doc["deviceProperties"], list), "no schemaVersion, deviceProperties")
    check("baseTimeNanoseconds" in doc and doc["baseTimeNanoseconds"] % 7889238 == 0, "wrong base time")
    check(re.search(r'"rank": \d', text), 'no "rank": with a blank: HolisticTraceAnalysis looks for it')
    check(text.index('"distributedInfo"') < text.index('"traceEvents"'), "metadata comes after the events")
    check(any(e["name"] == "Record Window End" for e in events), "no end of the window")
    kinds = {e["name"] for e in events if e["ph"] == "M"}
    check({"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"} <= kinds,
          f"names of processes and threads: {kinds}")


def test_strictly_nested():
    doc, _ = plain()
    threads = collections.defaultdict(list)
    for e in slices(doc):
        begin = round(e["ts"] * 1000)
        threads[e["pid"], e["tid"]].append((begin, -(begin + round(e["dur"] * 1000)), e["name"]))
    for spans in threads.values():
        stack = []
        for begin, end, name in sorted(spans):
            while stack and stack[-1] <= begin:
                stack.pop()
            check(not stack or -end <= stack[-1], f"{name} at {begin} ends after the slice around it")
            stack.append(-end)


def test_exceptions_close_operators():
    """An operator that raised is closed and marked; later slices are not nested in it."""
    doc, _ = plain()
    failed = [e for e in slices(doc, "aten::mm") if e["args"].get("ptbpf.unwound")]
    check(len(failed) == 7, f"{len(failed)} of 7 raising aten::mm are marked as unwound")


def test_arrows():
    doc, _ = plain()
    flows = collections.defaultdict(dict)
    for e in doc["traceEvents"]:
        if e.get("cat") == "fwdbwd":
            flows[e["id"]][e["ph"]] = e
    check(len(flows) == 8, f"{len(flows)} arrows instead of 8 (mul and sum, four times)")
    at = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in slices(doc) if e["name"].startswith("aten::")}
    for f in flows.values():
        check(set(f) == {"s", "f"}, f"half an arrow: {f}")
        check(f["f"].get("bp") == "e", "the end of an arrow needs bp e")
        name = at.get((f["s"]["pid"], f["s"]["tid"], f["s"]["ts"]))
        check(name in ("aten::mul", "aten::sum"), f"an arrow starts at {name}")


def test_steps(ws):
    """Optimizer.step defines the steps; --step-on selects another name; all are marked as derived."""
    doc, _ = plain()
    found = [e for e in slices(doc) if re.fullmatch(r"ProfilerStep#\d+", e["name"])]
    check(len(found) == 3, f"{len(found)} whole steps between 4 optimizer steps")
    check(all(e["args"].get("ptbpf.derived") for e in found), f"a derived step is not marked: {found[:1]}")
    doc = traced(ws, "--step-on", "aten::sum")
    found = [e for e in slices(doc) if re.fullmatch(r"ProfilerStep#\d+", e["name"])]
    check(len(found) == 3, f"{len(found)} whole steps between 4 aten::sum")
