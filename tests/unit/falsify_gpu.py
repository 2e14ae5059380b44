# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/validate_trace.py with GPUs: accepts ptbpf's output, and refuses each of many small falsifications of it.

  falsify_gpu.py tests/cases/run.py     (test_validators.py)
"""

import copy
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from falsify import Us, main, us  # noqa: E402


def cat(doc, name, nr=0):
    return [e for e in doc["traceEvents"] if e.get("cat") == name][nr]


def named(doc, name, nr=0):
    return [e for e in doc["traceEvents"] if e["name"] == name and e["ph"] == "X"][nr]


def flow(doc, ph, nr=0):
    return [e for e in doc["traceEvents"] if e["ph"] == ph and e.get("cat") == "ac2g"][nr]


def meta(doc, name, pid):
    return [e for e in doc["traceEvents"] if e["name"] == name and e["ph"] == "M" and e["pid"] == pid][0]


def add(doc, e): doc["traceEvents"].insert(0, e)
def remove(doc, e): doc["traceEvents"].remove(e)
def ns(text): return int(text[1:].replace(".", ""))


# changes of a valid trace
def text_stream(d): cat(d, "kernel")["args"]["stream"] = "7"
def no_grid(d): del cat(d, "kernel")["args"]["grid"]
def unknown_arg(d): cat(d, "kernel")["args"]["speed"] = 1
def odd_limit(d): cat(d, "kernel", 3)["args"]["occupancy"]["limitingFactors"] = "REGS"
def more_blocks(d): cat(d, "kernel", 3)["args"]["occupancy"]["activeBlocksPerMultiprocessor"] += 1
def no_bytes(d): del cat(d, "gpu_memcpy")["args"]["bytes"]
def no_correlation(d): del cat(d, "cuda_runtime")["args"]["correlation"]
def stream_of_call(d): cat(d, "cuda_runtime")["args"]["stream"] = 7
def odd_sync(d): cat(d, "cuda_sync")["args"]["cuda_sync_kind"] = "Sync"
def half_wait(d): del named(d, "Stream Wait Event")["args"]["wait_on_cuda_event_id"]
def overhead_pid(d): cat(d, "overhead")["pid"] = 0
def no_binding(d): del flow(d, "f")["bp"]
def unknown_device_key(d): d["deviceProperties"][0]["cores"] = 1
def no_pairs(d): del d["ptbpf"]["cuda"]["clock_pairs"]
def half_graph(d): del [e for e in d["traceEvents"] if "graph id" in e.get("args", {})][0]["args"]["graph node id"]
def two_launches(d):
    e = copy.deepcopy(named(d, "cudaLaunchKernel"))
    e["cat"], e["name"] = "cuda_driver", "cuLaunchKernel"
    e["ts"] = us(ns(e["ts"]) + 1000)
    e["dur"] = us(ns(e["dur"]) - 2000)
    add(d, e)
def never_call(d): named(d, "cudaDeviceSynchronize")["name"] = "cudaGetDevice"
def versioned(d): named(d, "cudaLaunchKernel")["name"] = "cudaLaunchKernel_v7000"
def other_row(d): cat(d, "kernel")["tid"] = 8
def other_device(d): cat(d, "kernel")["pid"] = 1
def sync_on_stream(d): named(d, "Stream Sync")["tid"] = 7
def stream_zero(d): cat(d, "kernel")["args"]["stream"] = cat(d, "kernel")["tid"] = 0
def before_launch(d): [e for e in d["traceEvents"] if e.get("cat") == "kernel" and e["name"].startswith("triton")][0]["ts"] = us(ns(named(d, "cuLaunchKernelEx")["ts"]) - 501)
def unmarked(d): del [e for e in d["traceEvents"] if "ptbpf.before_launch" in e.get("args", {})][0]["args"]["ptbpf.before_launch"]
def other_id(d): named(d, "cudaLaunchKernelExC")["args"]["External id"] = 3
def bandwidth(d): cat(d, "gpu_memcpy")["args"]["memory bandwidth (GB/s)"] = Us("1.5")
def flow_begin_lost(d): remove(d, flow(d, "s"))
def flow_end_lost(d): remove(d, flow(d, "f"))
def flow_moved(d): flow(d, "s")["ts"] = us(ns(flow(d, "s")["ts"]) + 1)
def flow_end_moved(d): flow(d, "f")["tid"] = 8
def flow_twice(d): add(d, copy.deepcopy(flow(d, "s")))
def other_kind(d): named(d, "Stream Sync")["name"] = "Context Sync"
def recorded_later(d):
    named(d, "Stream Wait Event")["args"]["wait_on_cuda_event_record_corr_id"] = named(d, "cudaEventRecord", 1)["args"]["correlation"]
def no_stream_name(d): remove(d, [e for e in d["traceEvents"] if e["name"] == "thread_name" and e["pid"] == 0][0])
def no_label(d): remove(d, meta(d, "process_labels", 1))
def no_overhead_name(d): remove(d, meta(d, "process_name", -1))
def other_annotation(d): cat(d, "gpu_user_annotation")["args"]["External id"] += 1
def overlap(d):
    e = named(d, "cudaGraphLaunch")
    e["dur"] = us(ns(e["dur"]) + 100000)
def crossing(d):
    e = cat(d, "kernel")
    e["dur"] = us(ns(e["dur"]) + 10**9)
def needless(d):
    e = cat(d, "kernel")
    add(d, {**meta(d, "thread_name", e["pid"]), "tid": 10**9, "args": {"name": f"stream {e['args']['stream']} (overlap 2)"}})
    add(d, {**meta(d, "thread_sort_index", e["pid"]), "tid": 10**9})
    e["tid"] = 10**9
def kernel_less(d): remove(d, named(d, "adam_update"))
def call_less(d): remove(d, named(d, "cudaDeviceSynchronize"))
def sync_less(d): remove(d, named(d, "Context Sync"))
def clip_less(d): del [e for e in d["traceEvents"] if "ptbpf.clipped_us" in e.get("args", {})][0]["args"]["ptbpf.clipped_us"]
def hidden_less(d): d["ptbpf_totals"]["gpu"]["calls_not_shown"] -= 1
def no_totals(d): del d["ptbpf_totals"]["gpu"]


FALSE = [("schema", f) for f in (text_stream, no_grid, unknown_arg, no_bytes, no_correlation, stream_of_call, odd_sync,
                                 half_wait, overhead_pid, no_binding, unknown_device_key, no_pairs, half_graph)]
FALSE += [("gpu", f) for f in (odd_limit, more_blocks, two_launches, never_call, versioned, other_row, other_device, sync_on_stream, stream_zero,
                               before_launch, unmarked, other_id, bandwidth, flow_begin_lost, flow_end_lost, flow_moved,
                               flow_end_moved, flow_twice, other_kind, recorded_later, no_stream_name, no_label, no_overhead_name,
                               other_annotation, no_totals, crossing, needless)]
FALSE += [("nesting", overlap)]
FALSE += [("account", f) for f in (kernel_less, call_less, sync_less, clip_less, hidden_less)]

# of a trace without an agent
def host_number_twice(d): named(d, "cudaLaunchKernel", 1)["args"]["correlation"] = 1
def host_stream(d): named(d, "cudaLaunchKernel")["args"]["stream"] = 7
def host_no_number(d): del named(d, "cudaLaunchKernel")["args"]["correlation"]
def host_handle(d): named(d, "cudaLaunchKernel")["args"]["ptbpf.stream"] = 4096


FALSE_HOST = [("gpu", host_number_twice)] + [("schema", f) for f in (host_stream, host_no_number, host_handle)]

# of the report
def report_busy(d): d["gpus"][0]["kernel_busy_ns"] += 1
def report_causes(d): d["gpus"][0]["causes"][0]["ns"] += 1
def report_order(d): d["kernels"].reverse()
def report_reason(d): d["reasons"][-1]["ns"] -= 1
def report_kernels(d): d["kernel_ns"] += 1
def report_latency(d): d["gpus"][0]["latency"]["median_ns"] += 10**10
def report_cause(d): d["gaps"][0]["cause"] = "lazy"
def report_key(d): d["gpus"][0]["idle"] = 1


FALSE_REPORT = [("rows", f) for f in (report_busy, report_causes, report_order, report_reason, report_kernels, report_latency)]
FALSE_REPORT += [("schema", f) for f in (report_cause, report_key)]


def run(f):
    f.capture("report/gpu_training")
    trace, report = f.ptbpf("t.trace.json"), f.ptbpf("r.json", "report", "--gpu", "--json", "--row-limit", "-1")
    f.must_be_valid(trace, report)
    f.rows(trace, FALSE)
    f.rows(report, FALSE_REPORT, float)
    f.capture("report/gpu_host")
    host = f.ptbpf("h.trace.json")
    f.must_be_valid(host, f.ptbpf("hr.json", "report", "--gpu", "--json", "--row-limit", "-1"))
    f.rows(host, FALSE_HOST)


if __name__ == "__main__":
    main(run)
