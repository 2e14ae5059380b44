# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The measured process: obeys one-line commands on stdin, answers one line of JSON each.

  time WORK MS       ns per unit of WORK, and of processor time, repeated for about MS milliseconds
  profile WORK CNT   the same CNT units under torch.profiler: in-window, and what stop and export add
  shapes WORK CNT    the same with record_shapes
  memory WORK CNT    the same with profile_memory
  stacks WORK CNT    the same with with_stack
  observe WORK CNT   the same under ExecutionTraceObserver
  empty WORK MS      as time, with a RecordFunction callback that does nothing: what torch itself takes for any
  empty_inputs WORK MS  the same where it asks for inputs
  stall WORK MS      the longest that one unit takes within MS milliseconds, and the median: what stands still when
                     a tracer leaves; longest processor time of one, too, for a machine that is busy with other things
  gap KIND MS        the longest time between two reads of the clock beyond a sleep of 0.1 ms, within MS milliseconds. KIND clock:
                     the thread does nothing else; memory: it maps memory, writes to it and unmaps it
"""

import ctypes
import json
import mmap
import os
import sys
import tempfile
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.ones(4, 4)


def neg(cnt):
    for _ in range(cnt):
        torch.neg(x)


def training(model, inputs):
    """Steps of it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def work(cnt):
        for _ in range(cnt):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    return work


transformer = training(torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), torch.randn(4, 16, 64))
step = training(torch.nn.Linear(16, 16), torch.randn(8, 16))  # does little: what each step costs by itself is a large part of it


def pair(cnt):
    """One block allocated and freed."""
    for _ in range(cnt):
        torch.empty(64)


def pages(cnt):
    """64 MiB mapped, written page by page, given back."""
    for _ in range(cnt):
        torch.empty(16 << 20).fill_(1.0)


def deep(depth, cnt):
    """neg() with so many Python frames on the stack."""
    return neg(cnt) if depth <= 0 else deep(depth - 1, cnt)


def at_depth(depth):
    def work(cnt):
        frame, above = sys._getframe(), 0
        while frame:
            frame, above = frame.f_back, above + 1
        deep(depth - above - 2, cnt)
    return work


WORK = {"neg": (neg, 2000), "transformer": (transformer, 2), "step": (step, 50), "pair": (pair, 2000), "pages": (pages, 1),
        **{f"deep{n}": (at_depth(n), 2000) for n in (8, 13, 30)}}


def sliced(fn, chunk, more):
    """Runs slices of `chunk` units while more(slices so far); their costs per unit: medians, and for processor time also the
    fastest tenth, which other work of the machine disturbs least."""
    wall, cpu = [], []
    while more(len(wall)):
        begin, spent = time.perf_counter_ns(), time.thread_time_ns()
        fn(chunk)
        wall.append((time.perf_counter_ns() - begin) / chunk)
        cpu.append((time.thread_time_ns() - spent) / chunk)
    wall.sort()
    cpu.sort()
    return {"ns": wall[len(wall) // 2], "cpu_ns": cpu[len(cpu) // 2], "fast_ns": cpu[len(cpu) // 10], "mean_cpu_ns": sum(cpu) / len(cpu),
            "mean_ns": sum(wall) / len(wall), "units": len(wall) * chunk}


def timed(name, ms):
    fn, chunk = WORK[name]
    fn(chunk)
    end = time.perf_counter() + ms / 1e3
    return sliced(fn, chunk, lambda n: n < 5 or time.perf_counter() < end)


class Callback(ctypes.Structure):
    """at::RecordFunctionCallback: start, end, sampling probability, scopes, needs."""
    _fields_ = [("start", ctypes.c_void_p), ("end", ctypes.c_void_p), ("sampling", ctypes.c_double),
                ("scopes", ctypes.c_bool * 10), ("inputs", ctypes.c_bool), ("outputs", ctypes.c_bool), ("ids", ctypes.c_bool)]


def empty(name, ms, inputs=False):
    lib = ctypes.CDLL(os.path.join(torch.__path__[0], "lib", "libtorch_cpu.so"))
    add, remove = lib._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE, lib._ZN2at14removeCallbackEm
    add.argtypes, add.restype, remove.argtypes = [Callback], ctypes.c_uint64, [ctypes.c_uint64]
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # start(std::unique_ptr<ObserverContext> *result, rf): movq $0, (%rdi); mov %rdi, %rax; ret. end(rf, context): ret
    code.write(bytes.fromhex("48c707000000004889f8c3" + "c3"))
    at = ctypes.addressof(ctypes.c_char.from_buffer(code))
    handle = add(Callback(at, at + 11, 1.0, (ctypes.c_bool * 10)(*[True] * 10), inputs, False, False))
    try:
        return timed(name, ms)
    finally:
        remove(handle)
        codes.append(code)  # another thread may still be in it


def stall(name, ms):
    fn, _ = WORK[name]
    samples, end = [], time.perf_counter_ns() + ms * 1000000
    now, spent = time.perf_counter_ns(), time.thread_time_ns()
    while now < end:
        fn(1)
        then, used = time.perf_counter_ns(), time.thread_time_ns()
        samples.append((then - now, used - spent))
        now, spent = then, used
    return {"longest_ns": max(s[0] for s in samples), "longest_cpu_ns": max(s[1] for s in samples),
            "median_ns": sorted(s[0] for s in samples)[len(samples) // 2]}


def gap(kind, ms):
    """At a real-time priority: what other programs of the machine do is not ptbpf's."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    longest, now = 0, time.monotonic_ns()
    end = now + ms * 1000000
    while now < end:
        if kind == "memory":
            with mmap.mmap(-1, 1 << 20) as memory:
                memory[0] = 1
        time.sleep(1e-4)
        then = time.monotonic_ns()
        longest, now = max(longest, then - now - 100000), then
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return {"longest_ns": longest}


def profiled(name, cnt, shapes=False, memory=False, stacks=False):
    fn, chunk = WORK[name]
    chunk = min(chunk, cnt)
    with tempfile.TemporaryDirectory() as folder:
        prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes,
                                      profile_memory=memory, with_stack=stacks)
        prof.start()
        fn(min(cnt, 100))
        costs = sliced(fn, chunk, lambda n: n < cnt // chunk)
        ran = time.perf_counter_ns()
        prof.stop()
        prof.export_chrome_trace(os.path.join(folder, "t.json"))
        done = time.perf_counter_ns()
        with open(os.path.join(folder, "t.json"), encoding="utf-8", errors="replace") as f:
            events = f.read().count('"cat": "cpu_op"')
    return {**costs, "stop_ns_per_op": (done - ran) / events, "ops_per_unit": events / (costs["units"] + min(cnt, 100))}


def observed(name, cnt):
    fn, chunk = WORK[name]
    chunk = min(chunk, cnt)
    with tempfile.TemporaryDirectory() as folder:
        observer = torch.profiler.ExecutionTraceObserver()
        observer.register_callback(os.path.join(folder, "t.json"))
        observer.start()
        fn(min(cnt, 100))
        costs = sliced(fn, chunk, lambda n: n < cnt // chunk)
        observer.stop()
        observer.unregister_callback()
    return costs


codes = []
VERBS = {"time": timed, "empty": empty, "empty_inputs": lambda name, ms: empty(name, ms, True), "stall": stall, "gap": gap, "profile": profiled, "shapes": lambda name, cnt: profiled(name, cnt, True), "observe": observed,
         "memory": lambda name, cnt: profiled(name, cnt, memory=True), "stacks": lambda name, cnt: profiled(name, cnt, stacks=True)}


def main():
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
    neg(5000)
    pages(3)
    transformer(5)
    step(5)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, name, number = line.split()
        print("answer " + json.dumps(VERBS[verb](name, int(number))), flush=True)


if __name__ == "__main__":
    main()
