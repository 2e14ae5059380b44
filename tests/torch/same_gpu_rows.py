# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Sums by name with GPU work must be torch's: the same events through both.

  same_gpu_rows.py HELPER CAPTURE...     this interpreter's torch; test_functions.py runs it in each environment

The helper prints the events of a session for each and the rows of key_averages. The same events go
through torch's own code as if its profiler had recorded them: operators of kernels, the tree, folding, sums, rows and their
order. No GPU is needed.
"""

import json
import subprocess
import sys

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
NOTES = ("user_annotation", "gpu_user_annotation")


class Event:
    """The attributes of a recorded event that torch reads."""

    EMPTY = {"shapes": [], "concrete_inputs": [], "kwinputs": {}, "stack": [], "overload_name": "",
             "sequence_nr": -1, "is_async": False, "is_hidden_event": False, "is_python_function": False,
             "extra_meta": {}, "typed_metadata": {}, "dtypes": [], "structured_input_shapes": [],
             "structured_input_strides": [], "cuda_elapsed_us": -1, "privateuse1_elapsed_us": -1}

    def __init__(self, e):
        from torch.autograd import DeviceType
        on_device, frontend = e["cat"] in DEVICE, e["cat"] in ("cpu_op", "user_annotation")
        # calls without an operator have the number of the OS thread, operators have torch's own
        thread = 0 if on_device else e["tid"] if frontend or e["op"] else e["tid"] + 1000000
        self.values = dict(self.EMPTY, name=e["name"], start_ns=e["begin"], end_ns=e["end"],
                         duration_ns=e["end"] - e["begin"], correlation_id=e["id"],
                         external_id=e["id"] if frontend else e["op"],
                         linked_correlation_id=0 if frontend else e["op"], start_thread_id=thread,
                         end_thread_id=thread, is_user_annotation=e["cat"] in NOTES,
                         device_type=DeviceType.CUDA if on_device else DeviceType.CPU)

    def __getattr__(self, what):
        return lambda: self.values.get(what, 0)


class Result:
    def __init__(self, events):
        self.list = [Event(e) for e in events]

    def events(self):
        return self.list

    def trace_start_ns(self):
        return 0

    def trace_start_us(self):
        return 0


def frontend_numbers(events):
    """Older versions use the same kind of number for calls and operators, and confuse them."""
    return [dict(e, id=e["id"] + 10 ** 9) if e["cat"] not in ("cpu_op", "user_annotation") else e for e in events]


def theirs(events):
    from torch.autograd import DeviceType
    from torch.autograd.profiler import profile
    from torch.autograd.profiler_util import EventList
    prof = profile.__new__(profile)
    prof.use_device = "cuda"
    prof.profile_memory = False
    listed = EventList(prof._parse_kineto_results(Result(frontend_numbers(events))), use_device="cuda")
    listed._build_tree()
    rows = listed.key_averages()
    return [{"key": r.key, "annotation": int(r.is_user_annotation), "device": int(r.device_type == DeviceType.CUDA),
             "count": r.count, "self_cpu": round(r.self_cpu_time_total * 1000), "cpu": round(r.cpu_time_total * 1000),
             "self_device": round(r.self_device_time_total * 1000),
             "device_total": round(r.device_time_total * 1000)} for r in rows]


def check(helper, captures):
    out = subprocess.run([helper, *captures], stdout=subprocess.PIPE, check=True).stdout
    lines = [json.loads(line) for line in out.decode().splitlines()]
    assert len(lines) == len(captures), f"{len(lines)} of {len(captures)} programs"
    cats = {}
    for nr, line in enumerate(lines):
        want, mine = theirs(line["events"]), line["rows"]
        for e in line["events"]:
            cats[e["cat"]] = cats.get(e["cat"], 0) + 1
        if want == mine:
            continue
        for a in want:
            if a not in mine:
                print(f"torch: {a}")
        for a in mine:
            if a not in want:
                print(f"ptbpf: {a}")
        sys.exit(f"FAIL program {nr}: {len(want)} and {len(mine)} rows, or their order")
    rest = set(DEVICE + ("cpu_op", "user_annotation", "cuda_runtime")) - set(cats)
    assert not rest, f"no {rest} in any program"
    print(f"ok {len(lines)} programs, {cats}: the same rows")


if __name__ == "__main__":
    import torch
    print(f"torch {torch.__version__}")
    check(sys.argv[1], sys.argv[2:])
