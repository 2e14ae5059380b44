# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Performs one memory operation inside annotations and prints the kernel's counters.

  memory_work.py GO faults|threads|old_blocks
  memory_work.py GO reclaim FILE MIB     sums a file of so many MiB, mapped, again and again
  memory_work.py GO exhaust MIB          allocates and writes so many MiB, piece by piece
  memory_work.py GO cuda DIR             calls of the CUDA libraries in DIR

Prints `ready`, waits for the file GO, works, prints one line of JSON per `mark`, then `done`. Huge pages are off.
"""

import ctypes
import json
import os
import resource
import sys
import threading
import time

import torch
from torch.autograd.profiler import record_function

MIB = 1 << 20
PR_SET_THP_DISABLE = 41


def status():
    fields = {}
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("VmSize", "VmRSS", "RssAnon", "RssFile", "RssShmem", "VmSwap")):
                key, value = line.split(":")
                fields[key] = int(value.split()[0]) * 1024
    return fields


def usage(who):
    u = resource.getrusage(who)
    return [u.ru_minflt, u.ru_majflt]


def mark(name, **what):
    print(json.dumps({"mark": name, "unix_ns": time.time_ns(), **what}), flush=True)


def mapping(address):
    """[begin, end) of the line of /proc/self/maps that has it."""
    with open("/proc/self/maps") as f:
        for line in f:
            begin, end = (int(n, 16) for n in line.split()[0].split("-"))
            if begin <= address < end:
                return [begin, end]
    return None


def quiet(seconds=0.4):
    """Long enough for a sample of /proc before and after."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.neg(torch.ones(2))
        time.sleep(0.02)


def faults():
    kept = []
    for k in range(4):
        before, virtual = usage(resource.RUSAGE_THREAD), status()["VmSize"]
        with record_function(f"touch {k}"):
            inside = usage(resource.RUSAGE_THREAD)
            x = torch.empty(16 * MIB)
            grown = status()["VmRSS"]
            x.fill_(1.0)
            grown = status()["VmRSS"] - grown
            inside = [a - b for a, b in zip(usage(resource.RUSAGE_THREAD), inside)]
        mark("touch", k=k, faults=inside, virtual=status()["VmSize"] - virtual, before=before, mapping=mapping(x.data_ptr()),
             bytes=x.numel() * 4, grown=grown)
        kept.append(x)
        quiet()
        mark("rss", **status())
        quiet()
        if k % 2:
            kept.pop(0)
        del x
    quiet()
    mark("rss", **status())
    quiet()


def threads():
    """Blocks that one thread allocates and another frees, in both directions; one thread after the other."""
    box = {}

    def take():
        with record_function("frees the other's"):
            del box["x"]
        with record_function("makes one"):
            box["y"] = torch.full((1031,), 2.0)

    with record_function("makes for the thread"):
        box["x"] = torch.ones(1021)
    t = threading.Thread(target=take)
    t.start()
    t.join()
    with record_function("frees the thread's"):
        del box["y"]


OLD = [torch.ones(2003), torch.ones(2011)]


def old_blocks():
    with record_function("frees old ones"):
        torch.ones(7)
        OLD.clear()
    torch.ones(9)


def reclaim(path, mib):
    x = torch.from_file(path, shared=True, size=int(mib) * MIB, dtype=torch.uint8)
    for k in range(4):
        with record_function(f"pass {k}"):
            for part in x.split(8 * MIB):
                part.max()
        mark("pass", k=k)


def exhaust(mib):
    kept = []
    with record_function("takes all there is"):
        for _ in range(0, int(mib), 16):
            kept.append(torch.ones(16 * MIB, dtype=torch.uint8))
            time.sleep(0.001)
    mark("survived", **status())


class Cuda:
    """CUDA through ctypes, as in a program without torch."""

    def __init__(self, folder):
        self.driver = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
        self.runtime = ctypes.CDLL(os.path.join(folder, "libcudart.so.12"))
        self.calls = []

    def call(self, name, *args):
        lib = self.driver if name.startswith("cuM") else self.runtime
        result = getattr(lib, name)(*args)
        self.calls.append({"name": name, "result": result})
        return self.calls[-1]

    def take(self, name, size, *more):
        out = ctypes.c_void_p()
        call = self.call(name, ctypes.byref(out), ctypes.c_size_t(size), *more)
        call.update(bytes=size, addr=0 if call["result"] else out.value or 0)
        return out

    def give(self, name, pointer, *more):
        self.call(name, pointer, *more).update(addr=pointer.value)


def cuda(folder):
    c = Cuda(folder)
    none = ctypes.c_void_p()
    with record_function("cuda calls"):
        c.give("cudaFree", c.take("cudaMalloc", 3001))
        c.give("cudaFreeAsync", c.take("cudaMallocAsync", 3007, none), none)
        c.give("cudaFreeHost", c.take("cudaHostAlloc", 3011, 0))
        c.take("cudaMalloc", 1 << 40)
        c.driver.mock_cuda_fail(b"cudaMalloc", 2, 1)
        c.take("cudaMalloc", 3019)
        c.driver.mock_cuda_fail(b"cuMemAlloc_v2", 2, 1)
        c.take("cudaMalloc", 3023)
        c.give("cuMemFree_v2", c.take("cuMemAlloc_v2", 3037))
        size = ctypes.c_size_t(2 * MIB)
        handle, address = ctypes.c_void_p(), ctypes.c_void_p()
        c.call("cuMemCreate", ctypes.byref(handle), size, none, ctypes.c_ulonglong(0)).update(bytes=2 * MIB, addr=handle.value)
        c.call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), none, ctypes.c_ulonglong(0)).update(bytes=2 * MIB)
        c.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0)).update(bytes=2 * MIB, addr=address.value)
        c.call("cuMemUnmap", address, size).update(bytes=2 * MIB, addr=address.value)
        c.give("cuMemRelease", handle)
        c.take("cuMemAlloc_v2", 1 << 41)
    mark("cuda", calls=c.calls)


def main():
    go, mode, *args = sys.argv[1:]
    torch.set_num_threads(1)
    if ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
        sys.exit("cannot switch huge pages off")
    if mode == "cuda":  # mapped before the tracer attaches, as with torch
        Cuda(args[0]).give("cudaFree", ctypes.c_void_p())
    quiet(0.1)
    print("ready", flush=True)
    while not os.path.exists(go):
        time.sleep(0.02)
    globals()[mode](*args)
    print("done", flush=True)
    while not os.path.exists(go + ".leave"):
        time.sleep(0.02)


if __name__ == "__main__":
    main()
