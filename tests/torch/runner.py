# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The traced process: runs payloads, alone or under torch's own observers.

  runner.py --dir DIR --group GROUP --mode truth     the runs of WINDOWS, then (for `names`) ExecutionTraceObserver alone
  runner.py --dir DIR --group GROUP --mode target    the runs of WINDOWS, each window behind a gate
  --windows: only these, of the others the payloads alone
  --brief: payloads with very many operators in fewer windows

It communicates with the driver by files in DIR only: `ready` (it waits), per window `go.NAME` (begin)
and `done.NAME` (its runs are over), `leave` (end). result.json holds a digest of every payload's values for
each run, and what each run's tool could record.
"""

import argparse
import gc
import hashlib
import inspect
import json
import os
import sys
import time
import traceback

import torch
from torch.autograd.profiler import record_function

import payloads
from runner_windows import MEMORY, WINDOWS

DEADLINE = 1200


def digest(value, h):
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.layout is not torch.strided:
            value = value.to_dense()
        h.update(f"{value.dtype} {tuple(value.shape)}".encode())
        h.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
                 if value.numel() and value.dtype is not torch.bool else str(value.tolist()).encode())
    elif isinstance(value, (list, tuple)):
        for v in value:
            digest(v, h)
    else:
        h.update(repr(value).encode())


def digest_of(value):
    h = hashlib.sha256()
    digest(value, h)
    return h.hexdigest()[:16]


class Gate:
    def __init__(self, folder):
        self.folder = folder

    def write(self, name, text=""):
        path = os.path.join(self.folder, name)
        with open(path + ".tmp", "w") as f:
            f.write(text)
        os.rename(path + ".tmp", path)

    def wait(self, name):
        end = time.monotonic() + DEADLINE
        while not os.path.exists(os.path.join(self.folder, name)):
            if time.monotonic() > end:
                sys.exit(f"runner: no file {name} within {DEADLINE} s")
            time.sleep(0.02)


def prepare(group, only):
    """Prepares and warms up; returns {name: run} and {name: reason why there is none}."""
    runs, skipped = {}, {}
    for name, p in payloads.load_all().items():
        if p.group != group or (only and name not in only):
            continue
        try:
            payloads.seed()
            run = p.prepare()
            payloads.seed()
            run()  # what happens only the first time does not belong to the payload
            runs[name] = run
        except payloads.Skip as why:
            skipped[name] = str(why)
        except Exception:
            skipped[name] = "BROKEN " + traceback.format_exc(limit=-3)
    return runs, skipped


def chosen(window, runs, brief):
    """Payloads of a window."""
    def runs_in(p):
        windows = p.brief if brief else p.windows
        return windows is None or window in windows

    return {name: run for name, run in runs.items() if runs_in(payloads.REGISTRY[name])}


def run_all(runs, prefix):
    values = {}
    for name, run in runs.items():
        payloads.seed()
        with record_function(f"## {prefix} {name} ##"):
            values[name] = run()
    with record_function(f"## {prefix} end ##"):  # the operators of digests belong to no payload
        pass
    return {name: digest_of(value) for name, value in values.items()}


def profiler_config():
    """(keyword arguments, whether it records threads that are started inside)"""
    try:
        from torch._C._profiler import _ExperimentalConfig
        return {"experimental_config": _ExperimentalConfig(profile_all_threads=True)}, True
    except (ImportError, TypeError):
        return {}, False


def under_profiler(runs, prefix, path, shapes=False):
    """Digests, and whether threads that are started inside are recorded."""
    if not torch.profiler.kineto_available():
        return under_legacy_profiler(runs, prefix, path, shapes), False
    config, all_threads = profiler_config()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes,
                                with_flops=shapes, **config) as prof:
        out = run_all(runs, prefix)
    prof.export_chrome_trace(path)
    return out, all_threads


def under_memory_profiler(runs, prefix, path):
    """Memory is recorded on the threads on which the profiler was started and on no others; with
    profile_all_threads on none at all."""
    if not torch.profiler.kineto_available():
        return under_legacy_profiler(runs, prefix, path + ".json", memory=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        out = run_all(runs, prefix)
    prof.export_chrome_trace(path + ".json")
    rows = [[r.key, r.count, r.cpu_memory_usage, r.self_cpu_memory_usage] for r in prof.key_averages()]
    with open(path + ".table.json", "w") as f:
        json.dump(rows, f)
    return out


def table_rounds_times():
    """Whether its tables compare times as microseconds since 1970 in doubles, which are 256 ns apart."""
    records = getattr(torch.autograd.profiler_util, "MemRecordsAcc", None)
    return records is not None and "start_us" in inspect.signature(records.in_interval).parameters


def under_legacy_profiler(runs, prefix, path, shapes=False, memory=False):
    """A torch without Kineto has the older profiler: pushes and pops of this thread in exact order. Written as a trace whose
    clock counts them."""
    from torch.autograd import ProfilerConfig, ProfilerState
    from torch._C._profiler import _ExperimentalConfig
    torch.autograd._enable_profiler_legacy(
        ProfilerConfig(ProfilerState.CPU, shapes, memory, False, False, False, _ExperimentalConfig()))
    out = run_all(runs, prefix)
    events = []
    for tid, records in enumerate(torch.autograd._disable_profiler_legacy()):
        is_open = {}
        for clock, r in enumerate(records):
            if r.kind() == "push":
                is_open[r.handle()] = event = {
                    "ph": "X", "name": r.name(), "pid": os.getpid(), "tid": tid, "ts": clock,
                    "cat": "user_annotation" if r.scope() == 7 else "cpu_op", "args": {"External id": clock + 1}}
                if r.sequence_nr() >= 0:
                    event["args"].update({"Sequence number": r.sequence_nr(), "Fwd thread id": r.fwd_thread_id()})
                if shapes and r.shapes():
                    event["args"]["Input Dims"] = r.shapes()
                events.append(event)
            elif r.kind() == "pop" and r.handle() in is_open:
                event = is_open.pop(r.handle())
                event["dur"] = clock - event["ts"]
            elif r.kind() == "memory_alloc":
                events.append({"ph": "i", "name": "[memory]", "pid": os.getpid(), "tid": tid, "ts": clock,
                               "args": {"Bytes": r.cpu_memory_usage(), "Device Type": 0, "Device Id": -1}})
        for event in is_open.values():
            event["dur"] = len(records) - event["ts"]
    with open(path, "w") as f:
        json.dump({"legacy": True, "traceEvents": events}, f)
    return out


def under_observer(runs, prefix, path):
    kind = getattr(torch.profiler, "ExecutionTraceObserver", None)
    if kind is None:
        kind = torch.profiler.ExecutionGraphObserver
    observer = kind()
    observer.register_callback(path)
    observer.start()
    out = run_all(runs, prefix)
    observer.stop()
    observer.unregister_callback()
    return out


def under_both(runs, prefix, path):
    """The observer inside the profiler, so that both name each call by the same number."""
    if not torch.profiler.kineto_available():
        return under_observer(runs, prefix, path + ".et.json"), False
    config, all_threads = profiler_config()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, **config) as prof:
        out = under_observer(runs, prefix, path + ".et.json")
    prof.export_chrome_trace(path + ".json")
    return out, all_threads


def memory_runs(runs):
    return {name: run for name, run in runs.items() if payloads.REGISTRY[name].ordered and not payloads.REGISTRY[name].threads}


def run_memory(window, runs, path, result):
    """The cycle collector would free tensors at different points in each run."""
    runs = memory_runs(runs)
    gc.collect()
    gc.disable()
    if window == "memory":
        result["counted"] = run_all(runs, "counted")
    else:
        result["held"] = under_memory_profiler(runs, "held", path)
    gc.enable()


def run_alone(window, runs, result):
    """As often as run_window() runs the payloads: their state is then the same."""
    if window in MEMORY:
        runs = memory_runs(runs)
    else:
        runs = {name: run for name, run in runs.items() if payloads.REGISTRY[name].only is None}
    for run in WINDOWS[window]:
        if run:
            result[run] = run_all(watched_runs(window, runs) if run == WINDOWS[window][1] else runs, run)


def watched_runs(window, runs):
    """The runs that torch's own tool of that window can record."""
    if window in ("shapes", "full"):
        runs = {name: run for name, run in runs.items() if payloads.REGISTRY[name].readable}
    if window == "full":  # forked processes would write into the observer's file
        runs = {name: run for name, run in runs.items() if payloads.REGISTRY[name].ordered and payloads.REGISTRY[name].readable is True}
    return runs


def run_window(window, runs, folder, result):
    alone, watched = WINDOWS[window]
    path = os.path.join(folder, watched or alone)
    if window in MEMORY:
        run_memory(window, runs, path, result)
        return
    runs = {name: run for name, run in runs.items() if payloads.REGISTRY[name].only is None}
    result[alone] = run_all(runs, alone)
    runs = watched_runs(window, runs)
    if window == "full":
        result[watched], result["all_threads"] = under_both(runs, watched, path)
    else:
        result[watched], result["all_threads"] = under_profiler(runs, watched, path + ".json", window == "shapes")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dir", required=True)
    ap.add_argument("--group", required=True)
    ap.add_argument("--mode", choices=("truth", "target"), required=True)
    ap.add_argument("--payload", action="append")
    ap.add_argument("--brief", action="store_true")
    ap.add_argument("--windows", type=lambda text: text.split(","), default=list(WINDOWS))
    args = ap.parse_args()
    gate = Gate(args.dir)
    runs, skipped = prepare(args.group, args.payload)
    result = {"torch": torch.__version__, "python": sys.version.split()[0], "skipped": skipped, "pid": os.getpid(),
              "rounds": table_rounds_times(),
              "unordered": [name for name in runs if not payloads.REGISTRY[name].ordered],
              "unsteady": [name for name in runs if not payloads.REGISTRY[name].steady]}
    if args.mode == "truth":
        for window in WINDOWS:
            if window in args.windows:
                run_window(window, chosen(window, runs, args.brief), args.dir, result)
            else:
                run_alone(window, chosen(window, runs, args.brief), result)
        if "names" in args.windows:
            observed = {name: run for name, run in runs.items() if payloads.REGISTRY[name].observe}
            result["observed"] = under_observer(observed, "observed", os.path.join(args.dir, "observed.json"))
    else:
        gate.write("ready", str(os.getpid()))
        for window in WINDOWS:
            if window not in args.windows:
                run_alone(window, chosen(window, runs, args.brief), result)
                continue
            gate.write("at." + window)
            gate.wait("go." + window)
            run_window(window, chosen(window, runs, args.brief), args.dir, result)
            gate.write("done." + window)
        gate.wait("leave")
        result["after"] = run_all(runs, "after")
    gate.write("result.json", json.dumps(result))


if __name__ == "__main__":
    main()
