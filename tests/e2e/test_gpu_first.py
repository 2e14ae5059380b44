# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The first work of a program on the GPU: CUDA's driver calls the agent within cuInit(), so nothing is missed, and the agent
and the program never wait for each other."""

import json
import os

from support import PYTHON, WORKLOADS, check, run_ptbpf
from gpu_target import MOCK, GpuTrace, need


def recorded(ws, *options, env=None):
    done = run_ptbpf("record", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", *options, "--", PYTHON,
                     os.path.join(WORKLOADS, "gpu_first.py"), MOCK, "-", expect=(0,), env=env)
    did = json.loads(next(line for line in done.out if line.startswith("{")))
    return GpuTrace(ws + "/r.json"), did


def same(trace, did):
    kernels = [e for e in trace.work() if e["cat"] == "kernel"]
    check(len(kernels) == len(did["did"]), f"{len(kernels)} of {len(did['did'])} kernels")
    calls = {e["args"]["correlation"]: e for e in trace.calls()}
    check(all(e["args"]["correlation"] in calls for e in kernels), "a kernel without its launch")
    check([e["name"] for e in trace.calls() if e["name"] == "cudaMalloc"] == ["cudaMalloc"], "the calls before the first kernel")
    check(trace.trace["deviceProperties"], "no device properties")


def test_first_kernels(ws):
    """Kernels that are launched within microseconds after cuInit(), and the calls before them."""
    need()
    for _ in range(3):
        same(*recorded(ws))


def test_slow_init(ws, detail):
    """A slow cuInit(), while the agent's thread asks the driver whether it is in use and must wait for the answer."""
    need()
    trace, did = recorded(ws, env={"MOCK_CUDA_INIT_MS": "600"})
    same(trace, did)
    check(0.6 <= did["init_s"] < 30, f"cuInit() took {did['init_s']:.2f} s")
    detail(f"cuInit() of 0.6 s took {did['init_s']:.2f} s")


def test_too_early(ws):
    """A CUPTI that refuses calls until cuInit() has returned: the agent's thread starts it later."""
    need()
    trace, did = recorded(ws, env={"MOCK_CUPTI_EARLY": "0", "GPU_FIRST_PAUSE": "1"})
    kernels = [e for e in trace.work() if e["cat"] == "kernel"]
    check(len(kernels) == len(did["did"]), f"{len(kernels)} of {len(did['did'])} kernels")
    check([a["gpu"] for a in trace.agents()] == [True], f"agents {trace.agents()}")
