# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Fills memory of the mock GPU of tests/mock_cuda, the k-th time k + 1 bytes, with libraries that are loaded and unloaded.

  cuda_late.py DIR GO MODE     DIR: the mock libraries

Prints `ready`, waits for the file GO (a dash: goes on at once), loads according to MODE, and fills, `round N` after each
hundred, until the file GO.stop is there (a dash: 300 times). Prints one line of JSON with the sides used, by k.

  late    libcuda and libcudart when GO is there
  two     beside one that is loaded at once a copy of libcudart, under another name, when GO is there; by turns
  many    beside one that is loaded at once 70 copies, when GO is there; in turn
  yield   at once; another profiler registers itself after 100 times
  early   at once, and nothing else
  storm   four threads that fill, throw, fork, and load and unload a copy of libcudart all the time
"""

import ctypes
import json
import os
import shutil
import sys
import threading
import time

DIR, GO, MODE = sys.argv[1:4]
SIDES, KEPT = [], []


def load(name):
    return ctypes.CDLL(os.path.join(DIR, name))


def runtime(name="libcudart.so.12"):
    lib, at = load(name), ctypes.c_void_p()
    if lib.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(1 << 20)):
        sys.exit("cudaMalloc failed")
    lib.at = at
    return lib


def copy_of(name):
    path = GO + "." + name
    shutil.copy(os.path.join(DIR, "libcudart.so.12"), path)
    return path


def fill(lib, k, side=0):
    if lib.cudaMemsetAsync(lib.at, 0, ctypes.c_size_t(k + 1), None):
        sys.exit("cudaMemsetAsync failed")
    SIDES.append(side)


def another_profiler():
    """Like torch's: its own pair of callbacks, and enabled kinds."""
    cupti = load("libcupti.so.12")
    buffers = []

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
    def request(buffer, size, records):
        buffers.append(ctypes.create_string_buffer(1 << 20))
        buffer[0], size[0], records[0] = ctypes.addressof(buffers[-1]), 1 << 20, 0

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    def complete(context, stream, buffer, size, valid):
        pass

    if cupti.cuptiActivityRegisterCallbacks(request, complete) or cupti.cuptiActivityEnable(3):
        sys.exit("the other profiler cannot begin")
    return request, complete, buffers


def storm(lib):
    path, stop = copy_of("libcudart.so.99"), threading.Event()
    dlclose = ctypes.CDLL(None).dlclose
    dlclose.argtypes = [ctypes.c_void_p]

    def throws():
        while not stop.is_set():
            try:
                torch.add(torch.ones(2), torch.ones(3))
            except RuntimeError:
                pass

    def forks():
        while not stop.is_set():
            pid = os.fork()
            if not pid:
                os._exit(0 if lib.cudaGetLastError() >= 0 else 1)
            if os.waitpid(pid, 0)[1]:
                os._exit(9)

    def loads():
        while not stop.is_set():
            other = runtime(path)
            other.cudaMemsetAsync(other.at, 0, ctypes.c_size_t(1 << 19), None)
            other.cudaFree(other.at)
            dlclose(other._handle)

    threads = [threading.Thread(target=f) for f in (throws, forks, loads)]
    for t in threads:
        t.start()
    rounds([lib])
    stop.set()
    for t in threads:
        t.join()


def rounds(libs):
    k = 0
    while k < 300 if GO == "-" else not os.path.exists(GO + ".stop"):
        fill(libs[k % len(libs)], k, k % len(libs))
        k += 1
        if k % 100 == 0:
            print("round", k, flush=True)
        if k == 100 and MODE == "yield":
            KEPT.append(another_profiler())
        time.sleep(0.005)


load("libcupti.so.12")  # before torch, which loads a real one
import torch  # noqa: E402

driver = load("libcuda.so.1") if MODE != "late" else None
LIBS = [runtime()] if MODE != "late" else []
torch.ones(2).neg()
print("ready", flush=True)
while GO != "-" and not os.path.exists(GO):
    time.sleep(0.02)
if MODE == "late":
    driver = load("libcuda.so.1")
    LIBS = [runtime()]
elif MODE == "two":
    LIBS.append(runtime(copy_of("libcudart-copy.so.12")))
elif MODE == "many":
    LIBS += [runtime(copy_of(f"libcudart-{i}.so.12")) for i in range(70)]
if MODE == "storm":
    storm(LIBS[0])
else:
    rounds(LIBS)
print(json.dumps({"sides": SIDES}), flush=True)
