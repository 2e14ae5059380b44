# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The program of test_memory_truth.py: obeys one-line commands on stdin and answers one line of JSON.

  do NAME           one of the functions below
  torch NAME PATH   the same under torch.profiler with profile_memory; its Chrome trace goes to PATH; answers its table
"""

import ctypes
import gc
import json
import os
import sys
import threading

import torch
from torch.autograd.profiler import record_function

MIB = 1 << 20


class Device(ctypes.Structure):  # pytorch c10/core/Device.h
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


CUDA, CUDA1, CPU = Device(1, 0), Device(1, 1), Device(0, -1)
c10 = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
report_usage = c10._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
report_usage.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, Device]
report_oom = c10._ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
report_oom.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, Device]


class Caching:
    """What the CUDA caching allocator reports: rounded sizes, totals after each event."""

    def __init__(self):
        self.allocated, self.reserved, self.next, self.blocks = {}, {}, 0x7F0000000000, {}

    def take(self, size, device=CUDA):
        size = (size + 511) & ~511
        at = self.next
        self.next += size
        self.blocks[at] = size, device
        self.report(at, size, device)
        return at

    def give(self, at):
        size, device = self.blocks.pop(at)
        self.report(at, -size, device)

    def report(self, at, size, device):
        k = device.index
        self.allocated[k] = self.allocated.get(k, 0) + size
        self.reserved[k] = max(self.reserved.get(k, 0), -(-self.allocated[k] // (2 * MIB)) * 2 * MIB)
        report_usage(at, size, self.allocated[k], self.reserved[k], device)

    def refuse(self, size, device=CUDA):
        report_oom(size, self.allocated.get(device.index, 0), self.reserved.get(device.index, 0), device)


cuda = Caching()
older = cuda.take(7 * 512)
library = torch.library.Library("ptbpf_test", "DEF")
library.define("take(Tensor x, int size) -> Tensor")


def take_kernel(x, size):
    cuda.take(size)
    return x + 1


library.impl("take", take_kernel, "CPU")


def device():
    """Allocations in operators, in annotations and outside, on two devices, some refused."""
    x = torch.ones(3)
    with record_function("outer"):
        torch.ops.ptbpf_test.take(x, 1000)
        a = cuda.take(3 * MIB)
        with record_function("inner"):
            b = cuda.take(5000, CUDA1)
            cuda.refuse(1 << 40)
            torch.ops.ptbpf_test.take(x, 70000)
        cuda.give(a)
        torch.neg(x)
    cuda.give(b)
    for at in [at for at in cuda.blocks if at != older]:
        cuda.give(at)


def user_scopes():
    with record_function("test_user_scope_alloc"):
        x = torch.rand(10, 10)
    with record_function("test_user_scope_dealloc"):
        del x
    y = torch.rand(10, 10)
    del y
    gc.collect()


def out_of_memory():
    with record_function("asks for too much"):
        try:
            torch.empty(1 << 60)
        except RuntimeError:
            pass


def threads():
    """Blocks that one thread allocates and another frees, in both directions; one thread after the other."""
    box = {}

    def other():
        with record_function("other thread"):
            del box["x"]
            box["y"] = torch.full((1031,), 2.0)

    with record_function("makes for the thread"):
        box["x"] = torch.ones(1021)
    t = threading.Thread(target=other)
    t.start()
    t.join()
    with record_function("frees the thread's"):
        del box["y"]
        torch.ones(7)


def training():
    torch.manual_seed(0)
    model = torch.nn.Linear(17, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(3, 17)).square().mean().backward()
        optimizer.step()


WORK = {fn.__name__: fn for fn in (device, user_scopes, out_of_memory, threads, training)}


def number(row, *names):
    return next((getattr(row, n) for n in names if hasattr(row, n)), 0)


def under_profiler(fn, path):
    gc.collect()
    gc.disable()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as p:
        fn()
    gc.enable()
    p.export_chrome_trace(path)
    return [[r.key, r.count, r.cpu_memory_usage, r.self_cpu_memory_usage,
             number(r, "device_memory_usage", "cuda_memory_usage"),
             number(r, "self_device_memory_usage", "self_cuda_memory_usage")] for r in p.key_averages()]


def main():
    for fn in WORK.values():
        fn()
    print("ready " + json.dumps({"torch": torch.__version__, "kineto": torch.profiler.kineto_available()}), flush=True)
    for line in sys.stdin:
        verb, name, *words = line.split()
        answer = WORK[name]() if verb == "do" else under_profiler(WORK[name], *words)
        print("answer " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
