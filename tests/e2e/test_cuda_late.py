# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CUDA calls recorded by kernel probes: libraries that are loaded late, twice, or unloaded again, and agents that cannot record
the GPU, or stop doing so."""

import json
import os

from support import AGENT, PYTHON, WORKLOADS, Tracer, check, loss_counters, run_ptbpf, workload, workspace
from gpu_target import MOCK, GpuTrace, need

FILL = "cudaMemsetAsync"
OTHERS = 1 << 18  # sizes that only the other threads use


def did(lines):
    return json.loads(next(line for line in lines if line.startswith("{")))["sides"]


def fills(run):
    """Number of the fill -> its event."""
    seen = {}
    for e in run.calls("cuda_runtime", "cuda_driver"):
        if e["name"] == FILL and e["args"].get("ptbpf.bytes"):
            k = e["args"]["ptbpf.bytes"] - 1
            if k >= OTHERS:
                continue
            check(k not in seen, f"fill {k} is there twice")
            seen[k] = e
    return seen


def from_then_on(seen, sides, what):
    """All fills from the first recorded one to the last, and most of all."""
    check(seen, f"{what}: no call was seen")
    first = min(seen)
    gaps = [k for k in range(first, len(sides)) if k not in seen]
    check(len(gaps) <= 1 and first < len(sides) / 2, f"{what}: from {first} of {len(sides)} on {len(gaps)} are missing: {gaps[:5]}")
    return first


class Run:
    """cuda_late.py under ptbpf attach: `rounds` rounds after GO, and on until the tracer prints `until`."""

    def __init__(self, ws, mode, options=(), env=None, rounds=400, expect=(0,), until=None):
        go, path = ws + "/go", ws + "/a.json"
        with workload("cuda_late.py", MOCK, go, mode, env=env) as p:
            p.wait_line("ready")
            with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--trace", path, "--no-table", *options) as t:
                t.wait_attached()
                open(go, "w").close()
                p.wait_line(f"^round {rounds}$")
                if until:
                    t.wait_line(until, stream=t.err)
                self.code = t.stop(expect)
                self.err = t.err
            open(go + ".stop", "w").close()
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            self.sides = did(p.out)[:rounds]
        self.trace = GpuTrace(path)


def test_late(ws, detail):
    """libcuda and libcudart are loaded in the window, long after torch."""
    need(agent=False)
    for k, options in enumerate(((), ("--agent", "off"), ("--perf-uprobes",))):
        os.mkdir(f"{ws}/{k}")
        run = Run(f"{ws}/{k}", "late", options)
        seen = fills(run.trace)
        first = from_then_on(seen, run.sides, f"{options}")
        check(loss_counters(run.trace.trace).get("CUDA_LATE_NS"), "that something was missed is not counted")
    detail(f"from call {first} of {len(run.sides)} on")


def test_two(ws, detail):
    """Two libcudarts, the second one late: the calls of both are recorded once, the driver calls beneath them are not."""
    need(agent=False)
    run = Run(ws, "two")
    seen = fills(run.trace)
    one = {k // 2: e for k, e in seen.items() if k % 2 == 0}
    other = {k // 2: e for k, e in seen.items() if k % 2}
    half = [0] * (len(run.sides) // 2)
    check(from_then_on(one, half, "the first libcudart") == 0, "the first one's calls begin late")
    from_then_on(other, half, "the second libcudart")
    both = min(e["ts"] for e in other.values())  # until then calls of the second one are recorded where they reach the driver
    check(not [e for e in run.trace.calls("cuda_driver") if e["ts"] > both], "the driver's part of the calls is recorded beside them")
    detail(f"{len(one)} and {len(other)} calls")


def test_many(ws):
    """More libraries than are followed in one process: the calls of the first ones are recorded, and the excess is counted."""
    need(agent=False)
    run = Run(ws, "many", expect=(3,), until="more than 64 CUDA libraries")
    check(loss_counters(run.trace.trace).get("OVER_LIBS") == 1, f"not counted: {loss_counters(run.trace.trace)}")
    recorded = {run.sides[k] for k in fills(run.trace) if k < len(run.sides)}
    check(0 in recorded and len(recorded) < len(set(run.sides)), f"calls of {len(recorded)} libraries were recorded")


def test_recorded(ws):
    """ptbpf record --agent off: libraries that the program loads at any time."""
    need(agent=False)
    done = run_ptbpf("record", "--agent", "off", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", "--", PYTHON,
                     os.path.join(WORKLOADS, "cuda_late.py"), MOCK, "-", "late")
    from_then_on(fills(GpuTrace(ws + "/r.json")), did(done.out), "record")


def refused(env, why, mode="late", **kw):
    with workspace() as ws:
        run = Run(ws, mode, env=dict(env, LD_PRELOAD=AGENT), expect=(3,), **kw)
        first = from_then_on(fills(run.trace), run.sides, why)
        agents = run.trace.agents()
        check(len(agents) == 1 and why in agents[0]["gpu_why"] and agents[0]["host_calls"], f"{agents}")
        check(any("CUDA calls are recorded by uprobes" in line for line in run.err), f"no message: {run.err}")
        check(any("could not record" in line for line in run.err[-3:]), f"not in the last lines: {run.err[-3:]}")
        return run, first


def test_given_up(detail):
    """The agent is requested before CUDA is loaded, and then cannot record: CUPTI is too old, in use, fails, or is missing."""
    need()
    for env, why in (({"MOCK_CUPTI_VERSION": "14"}, "older"), ({"MOCK_CUPTI_FAIL": "cuptiSubscribe:39"}, "another tool"),
                     ({"MOCK_CUPTI_FAIL": "cuptiActivityEnable:999"}, "error")):
        run, first = refused(env, why)
        check(not run.trace.work(), "work of the GPU without CUPTI")
    detail(f"calls from {first} of {len(run.sides)} on")


def test_another_comes(detail):
    """CUPTI works until another profiler starts in the window: its activities until then, calls by probes from then on, none
    twice."""
    need()
    run, first = refused({}, "another tool", mode="yield", rounds=600)
    check(first >= 100 and run.trace.work(), f"host calls from {first} on, {len(run.trace.work())} pieces of work")
    by_cupti = [e for e in run.trace.calls() if e["name"] == FILL and not e["args"].get("ptbpf.host_only")]
    check(by_cupti and max(e["ts"] for e in by_cupti) < fills(run.trace)[first]["ts"], "calls by CUPTI and by probes at once")
    detail(f"{len(run.trace.work())} pieces of work, then calls from {first} of {len(run.sides)} on")


def test_storm(ws, detail):
    """Libraries are loaded and unloaded, threads throw, the process forks: its results are the same as without ptbpf."""
    need(agent=False)
    run = Run(ws, "storm", ("--children", "--profile-memory"), rounds=600, expect=(0, 3))
    check(len(fills(run.trace)) > len(run.sides) / 2, "most calls are missing")
    detail(f"{len(run.sides)} fills")
