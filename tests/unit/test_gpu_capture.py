# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A capture of a generated training loop on two GPUs through the command line: each document is valid and has the GPU work of
the loop."""

import collections
import json
import os
import subprocess
import sys

from support import BUILD, ENVS, PTBPF, ROOT, Failure

MAKER = os.path.join(BUILD, "tests", "fake_gpu_capture")
VALIDATOR = os.path.join(ROOT, "tools", "validate_trace.py")
CONSUMERS = os.path.join(ENVS, "consumers", "bin", "python")
STEPS = 8
# per step: kernels by name begin, and operator that launched them
KERNELS = {"sm90_xmma_gemm_f32f32_tf32f32_f32_tn": "aten::addmm", "void at::native::vectorized_elementwise": "aten::addmm",
           "triton_poi": "triton_poi_fused_relu_0", "sm90_xmma_gemm_f32f32_tf32f32_f32_nt": "aten::mm",
           "ncclDevKernel": "record_param_comms", "adam_update": None}


def run(*command):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode:
        raise Failure(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def same(what, got, want):
    if got != want:
        raise Failure(f"{what}: {got}, not {want}")


def check_trace(doc):
    by_cat = collections.defaultdict(list)
    for e in doc["traceEvents"]:
        if e["ph"] == "X":
            by_cat[e["cat"]].append(e)
    names = {e["args"]["External id"]: e["name"] for e in by_cat["cpu_op"] + by_cat["user_annotation"]}
    for begin, op in KERNELS.items():
        found = [e for e in by_cat["kernel"] if e["name"].startswith(begin)]
        same(f"operators of {begin}", {names.get(e["args"].get("External id")) for e in found}, {op})
    same("kernels", len(by_cat["kernel"]), 8 * STEPS)
    same("copies, fills", (len(by_cat["gpu_memcpy"]), len(by_cat["gpu_memset"])), (2 * STEPS, STEPS))
    same("synchronisation", collections.Counter(e["name"] for e in by_cat["cuda_sync"]),
         {"Stream Wait Event": STEPS, "Stream Sync": STEPS, "Context Sync": STEPS})
    same("annotations on the GPU", {e["name"].split("#")[0] for e in by_cat["gpu_user_annotation"]} >=
         {"forward", "Optimizer.step"}, True)
    flows = collections.Counter(e["ph"] for e in doc["traceEvents"] if e.get("cat") == "ac2g")
    same("flows", flows, {"s": 10 * STEPS, "f": 11 * STEPS})  # two nodes of a graph have one launch
    same("devices", [d["name"] for d in doc["deviceProperties"]], ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"])
    same("clocks", doc["ptbpf"]["cuda"]["clock_error_ns"] in range(400, 1000), True)
    same("not in the window, early, unlinked", [doc["ptbpf_totals"]["totals"][k] for k in
                                                ("gpu_outside", "gpu_before_launch", "gpu_unlinked")], [0, 0, 0])


def check_report(doc, text):
    same("activities", (doc["activities"], doc["work_count"]), (True, 11 * STEPS))
    kernels = {k["name"][:13]: k for k in doc["kernels"]}
    same("NCCL", (kernels["ncclDevKernel"]["count"], kernels["ncclDevKernel"]["ns"]), (2 * STEPS, 2 * STEPS * 595000))
    busy = STEPS * (660 + 95 + 98 + 790 + 595 + 180) * 1000
    same("busy", abs(doc["gpus"][0]["kernel_busy_ns"] - busy) < 1000, True)
    same("text", "no launch: Python" in text and "NVIDIA H100" in text, True)


def test_documents(ws, detail):
    python = CONSUMERS if os.path.exists(CONSUMERS) else sys.executable
    capture, trace, report = (os.path.join(ws, n) for n in ("c.ptb", "t.json", "r.json"))
    run(MAKER, capture)
    run(PTBPF, "export", capture, "--format", "chrome", "-o", trace)
    with open(report, "w", encoding="utf-8") as f:
        f.write(run(PTBPF, "report", capture, "--gpu", "--json", "--row-limit", "1000"))
    detail(run(python, VALIDATOR, trace, report))
    with open(trace, encoding="utf-8") as f:
        check_trace(json.load(f))
    with open(report, encoding="utf-8") as f:
        check_report(json.load(f), run(PTBPF, "report", capture, "--gpu"))
