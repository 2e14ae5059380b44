# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory snapshots: events and what is left of them as the Chrome trace of the same capture has them, and torch's own readers of snapshots, torch/cuda/_memory_viz.py,
over them (where there is an environment with torch). The opcodes are those that the page memory_viz reads."""

import glob
import importlib.util
import os
import pickle
import pickletools

import pytest

from support import case_captures, check, load_trace, main_python, run_ptbpf

# Of torch/utils/viz/MemoryViz.js, function unpickle(); its memo has the places of BINPUT.
OPCODES = {"PROTO", "APPEND", "APPENDS", "LIST", "TUPLE", "NEWFALSE", "NEWTRUE", "NONE", "BINGET", "BININT", "BININT1", "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME",
           "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "SETITEMS", "SETITEM", "DICT", "SHORT_BINUNICODE", "BINUNICODE", "STOP", "EMPTY_TUPLE",
           "TUPLE1", "TUPLE2", "TUPLE3", "BINFLOAT"}
BATCH = 1000  # arguments of a call in JavaScript, far below what any browser allows


def torch_viz():
    """The module without torch around it: it needs none."""
    paths = glob.glob(os.path.join(os.path.dirname(os.path.dirname(main_python())), "lib", "python3*", "site-packages", "torch", "cuda", "_memory_viz.py"))
    if not paths:
        return None
    spec = importlib.util.spec_from_file_location("_memory_viz", paths[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_snapshot(capture, path):
    run_ptbpf("export", capture, "--format", "memory-snapshot", "-o", path, expect=(0, 3))
    with open(path, "rb") as f:
        data = f.read()
    values = [0]  # since each mark
    for op, _, _ in pickletools.genops(data):
        check(op.name in OPCODES, f"{op.name} is not known to MemoryViz.js")
        if op.name == "MARK":
            values.append(0)
        elif op.name in ("APPENDS", "SETITEMS"):
            check(values.pop() <= BATCH, "too much is appended at once")
        elif op.name not in ("PROTO", "STOP", "BINPUT", "LONG_BINPUT"):
            values[-1] += -1 if op.name == "TUPLE2" else 1
    return pickle.loads(data)


def replay(snapshot, trace):
    """As MemoryViz.js does it: blocks at the end, then back to the begin; each lies in a segment, and none is taken away that was not there."""
    segments = [s for s in snapshot["segments"] if s["device"] == trace]
    for s in segments:
        at = s["address"]
        for b in s["blocks"]:
            check(b["address"] == at and b["size"] > 0, f"{b} is not where the one in front of it ends, {at}")
            at += b["size"]
        check(at == s["address"] + s["total_size"], f"blocks do not fill {s['address']}")
        check(s["active_size"] == sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated"), f"active size of {s['address']}")
    blocks = {b["address"]: b["size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated"}
    at_end = sum(blocks.values())
    for e in reversed(snapshot["device_traces"][trace]):
        if e["action"] == "alloc":
            check(blocks.pop(e["addr"], None) == e["size"], f"{e} is nowhere")
        elif e["action"] == "free_requested":
            check(e["addr"] not in blocks, f"{e} is still there")
            blocks[e["addr"]] = e["size"]
            check(any(s["address"] <= e["addr"] and e["addr"] + e["size"] <= s["address"] + s["total_size"] for s in segments), f"{e} is in no segment")
    return sum(blocks.values()), at_end


@pytest.mark.parametrize("name", ("memory", "everything", "gpu_everything", "exact_memory"))
def test_against_trace(ws, golden, name):
    snapshot = read_snapshot(golden(name), ws + "/s.pickle")
    run_ptbpf("export", golden(name), "--format", "chrome", "-o", ws + "/t.json", expect=(0, 3))
    wanted = [e["args"] for e in load_trace(ws + "/t.json")["traceEvents"] if e["name"] == "[memory]"]
    found = [e for e in snapshot["device_traces"][-1] if e["action"] != "free_completed"]
    check(len(wanted) > 100 and [(a["Addr"], a["Bytes"]) for a in wanted] == [(e["addr"], e["size"] if e["action"] == "alloc" else -e["size"]) for e in found], "events")
    check(all(e["frames"] for e in found), "an event without frames")
    check(any(f["filename"].endswith(".py") and f["line"] for e in found for f in e["frames"]) == (name in ("everything", "gpu_everything")), "frames of Python")
    before, after = replay(snapshot, len(snapshot["device_traces"]) - 1)
    check(after - before == sum(a["Bytes"] for a in wanted) and before == 0, f"{before} bytes, then {after}")


def read_by_torch(viz, snapshot):
    allocated = sum(s["active_size"] for s in snapshot["segments"])
    check(f"total_allocated: {viz.Bytes(allocated)}\n" in viz.segsum(snapshot), "segsum()")
    lines = viz.memory(snapshot, format_flamegraph=str).splitlines()
    check(sum(int(line.rsplit(" ", 1)[1]) for line in lines if ";active_allocated;" in line) == allocated, f"memory(): {lines}")
    check(viz.segments(snapshot, format_flamegraph=str).count("\n") == len(lines), "segments()")
    text = viz.trace(snapshot)
    events = sum(map(len, snapshot["device_traces"]))
    check(sum(int(line.split()[0]) for line in text.splitlines() if line.endswith(" entries")) == events, "trace()")
    check("snapshot.pickle" in viz.trace_plot(snapshot) and "snapshot.pickle" in viz.segment_plot(snapshot), "pages")
    left = viz.filter_alloc_free_pairs(snapshot)["device_traces"]
    check(not any(e["action"] == "free_completed" for events in left for e in events), f"frees that nobody requested: {left}")


def test_torch_reads_it(ws, golden):
    viz = torch_viz()
    if not viz:
        pytest.skip("no environment with torch: tools/setup.sh makes it")
    read_by_torch(viz, read_snapshot(golden("everything"), ws + "/s.pickle"))
    case_captures(ws, "memory/snapshot")  # of GPUs, with what was there before the window
    read_by_torch(viz, read_snapshot(ws + "/a.ptb", ws + "/a.pickle"))


def test_before_the_window(ws):
    """What the allocator says of its total is what the snapshot adds up to, from the begin to the end."""
    case_captures(ws, "memory/snapshot")
    snapshot = read_snapshot(ws + "/a.ptb", ws + "/a.pickle")
    check(replay(snapshot, 0) == (5000, 4152), str(replay(snapshot, 0)))
    check(replay(snapshot, 2) == (0, 256) and replay(snapshot, 3) == (0, 100), "the others")
    unknown, = (b for s in snapshot["segments"] for b in s["blocks"] if not s["address"])
    check(unknown["size"] == 3000 and unknown["frames"][0]["name"] == "(allocated before the recording, addresses not known)", str(unknown))
