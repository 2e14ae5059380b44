#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CUDA from Python with the mock libraries, by ctypes: threads with streams launch named kernels, copy, fill and
synchronise. Needs no torch. Prints one JSON object: what it did, so that a test can compare.

  cuda_work.py [--mock FOLDER] [--threads N] [--steps N] [--seconds S] [--graph] [--cupti FILE] [--wait]

--wait: a line on stdin begins the work. --seconds: works so long instead of --steps; SIGTERM ends it sooner."""
import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Cuda:
    """The libraries, two kernels and their names on the device."""

    KERNELS = ["_Z3addPfS_i", "_Z4gemmILi4EEvPKfS1_Pf"]

    def __init__(self, folder):
        where = folder + "/" if folder else ""
        self.driver = ctypes.CDLL(where + "libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        self.runtime = ctypes.CDLL(where + "libcudart.so.12")
        self.stubs = (ctypes.c_int * len(self.KERNELS))()
        self.runtime.cudaLaunchKernel.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t,
                                                  ctypes.c_void_p]
        self.must(self.driver.cuInit(0), "cuInit")
        none = [None] * 5
        for i, name in enumerate(self.KERNELS):
            self.runtime.__getattr__("__cudaRegisterFunction")(
                None, ctypes.c_void_p(self.host(i)), None, ctypes.c_char_p(name.encode()), -1, *none)

    def host(self, i):
        return ctypes.addressof(self.stubs) + i * ctypes.sizeof(ctypes.c_int)

    @staticmethod
    def must(result, what):
        if result:
            sys.exit(f"cuda_work.py: {what}: {result}")

    def call(self, name, *args):
        self.must(getattr(self.runtime, name)(*args), name)


class Worker(threading.Thread):
    def __init__(self, cuda, opts, stop):
        super().__init__(name="cuda worker")
        self.cuda, self.opts, self.stop = cuda, opts, stop
        self.done = dict.fromkeys(["launches", "kernels", "copies", "fills", "bytes", "syncs", "graph_launches"], 0)

    def launch(self, which, stream):
        self.cuda.must(self.cuda.runtime.cudaLaunchKernel(self.cuda.host(which), Dim3(2, 3, 1), Dim3(32, 4, 1), None,
                                                          128, stream), "cudaLaunchKernel")
        self.done["launches"] += 1

    def capture(self, stream):
        graph, execute = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.call("cudaStreamBeginCapture", stream, 0)
        self.launch(0, stream)
        self.launch(1, stream)
        self.cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
        self.cuda.call("cudaGraphInstantiate", ctypes.byref(execute), graph, ctypes.c_ulonglong(0))
        return execute

    def step(self, stream, device, host, graph):
        size = len(host)
        self.cuda.call("cudaMemcpyAsync", device, host, ctypes.c_size_t(size), 1, stream)
        for which in range(2):
            self.launch(which, stream)
        self.cuda.call("cudaMemsetAsync", device, 1, ctypes.c_size_t(64), stream)
        if graph:
            self.cuda.call("cudaGraphLaunch", graph, stream)
            self.done["graph_launches"] += 1
        self.cuda.call("cudaMemcpy", host, device, ctypes.c_size_t(size), 2)
        self.cuda.call("cudaStreamSynchronize", stream)
        for key, add in (("kernels", 4 if graph else 2), ("copies", 2), ("fills", 1), ("bytes", 2 * size),
                         ("syncs", 1)):
            self.done[key] += add

    def run(self):
        stream, device, host = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_char * 2048)()
        self.tid = threading.get_native_id()
        self.cuda.call("cudaStreamCreate", ctypes.byref(stream))
        self.cuda.call("cudaMalloc", ctypes.byref(device), ctypes.c_size_t(len(host)))
        graph = self.capture(stream) if self.opts.graph else None
        steps = 0
        while not self.stop.is_set() and (self.opts.seconds or steps < self.opts.steps):
            self.step(stream, device, host, graph)
            steps += 1
        self.cuda.call("cudaFree", device)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mock", default="", help="folder of the libraries; else the loader's path")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--cupti", default="")
    parser.add_argument("--wait", action="store_true")
    opts = parser.parse_args()
    cuda = Cuda(opts.mock)
    if opts.cupti:
        ctypes.CDLL(opts.cupti)
    if opts.wait:
        print(json.dumps({"pid": os.getpid()}), flush=True)
        sys.stdin.readline()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    workers = [Worker(cuda, opts, stop) for _ in range(opts.threads)]
    for worker in workers:
        worker.start()
    until = time.monotonic() + opts.seconds
    while opts.seconds and time.monotonic() < until and not stop.is_set():
        time.sleep(0.01)
    if opts.seconds:
        stop.set()
    for worker in workers:
        worker.join()
    cuda.call("cudaDeviceSynchronize")
    total = {key: sum(w.done[key] for w in workers) for key in workers[0].done}
    print(json.dumps({"pid": os.getpid(), "tids": [w.tid for w in workers], **total}), flush=True)


if __name__ == "__main__":
    main()
