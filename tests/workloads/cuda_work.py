#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CUDA from Python with the mock libraries, by ctypes: threads with streams launch named kernels, copy, fill and
synchronise. Needs no torch. Prints "ready", works, and prints what it did as target_cuda.c does, and "ok".

  cuda_work.py [--mock FOLDER] [--threads N] [--steps N] [--cupti FILE] [--rest MS] [--wait FILE]

--rest: before the work and after it. --wait: the work begins when that file is there."""
import argparse
import ctypes
import os
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
        self.names = [ctypes.create_string_buffer(name.encode()) for name in self.KERNELS]  # the runtime keeps pointers
        self.must(self.driver.cuInit(0), "cuInit")
        none = [None] * 5
        for i, name in enumerate(self.names):
            self.runtime.__getattr__("__cudaRegisterFunction")(None, ctypes.c_void_p(self.host(i)), None, name, -1, *none)

    def host(self, i):
        return ctypes.addressof(self.stubs) + i * ctypes.sizeof(ctypes.c_int)

    @staticmethod
    def must(result, what):
        if result:
            sys.exit(f"cuda_work.py: {what}: {result}")

    def call(self, name, *args):
        self.must(getattr(self.runtime, name)(*args), name)


class Worker(threading.Thread):
    last_stream = 0

    def __init__(self, cuda, steps):
        super().__init__(name="cuda worker")
        self.cuda, self.steps, self.log = cuda, steps, []
        Worker.last_stream += 1
        self.stream_nr = Worker.last_stream

    def add(self, name, stream="-", size=0, *work):
        self.log.append(f"call {threading.get_native_id()} {name} {stream} {size}")
        self.log += [f"work {w} {size}" for w in work]

    def launch(self, which, stream, ran=True):
        self.cuda.must(self.cuda.runtime.cudaLaunchKernel(self.cuda.host(which), Dim3(2, 3, 1), Dim3(32, 4, 1), None,
                                                          128, stream), "cudaLaunchKernel")
        self.add("cudaLaunchKernel", self.stream_nr, 0, *([f"kernel {self.cuda.KERNELS[which]}"] if ran else []))

    def capture(self, stream):
        graph, execute = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.call("cudaStreamBeginCapture", stream, 0)
        self.launch(0, stream, ran=False)
        self.launch(1, stream, ran=False)
        self.cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
        self.cuda.call("cudaGraphInstantiate", ctypes.byref(execute), graph, ctypes.c_ulonglong(0))
        return execute

    def step(self, stream, device, host, graph):
        size, nr = len(host), self.stream_nr
        self.cuda.call("cudaMemcpyAsync", device, host, ctypes.c_size_t(size), 1, stream)
        self.add("cudaMemcpyAsync", nr, size, "memcpy HtoD")
        for which in range(2):
            self.launch(which, stream)
        self.cuda.call("cudaMemsetAsync", device, 1, ctypes.c_size_t(64), stream)
        self.add("cudaMemsetAsync", nr, 64, "memset -")
        self.cuda.call("cudaGraphLaunch", graph, stream)
        self.add("cudaGraphLaunch", nr, 0, *(f"kernel {name}" for name in self.cuda.KERNELS))
        self.cuda.call("cudaMemcpy", host, device, ctypes.c_size_t(size), 2)
        self.add("cudaMemcpy", 0, size, "memcpy DtoH")
        self.cuda.call("cudaStreamSynchronize", stream)
        self.add("cudaStreamSynchronize", nr)

    def run(self):
        stream, device, host = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_char * 2048)()
        self.cuda.call("cudaStreamCreate", ctypes.byref(stream))
        self.cuda.call("cudaMalloc", ctypes.byref(device), ctypes.c_size_t(len(host)))
        graph = self.capture(stream)
        for _ in range(self.steps):
            self.step(stream, device, host, graph)
        self.cuda.call("cudaFree", device)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mock", default="", help="folder of the libraries; else the loader's path")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--cupti", default="")
    parser.add_argument("--rest", type=int, default=0)
    parser.add_argument("--wait", default="")
    opts = parser.parse_args()
    if opts.cupti:
        ctypes.CDLL(opts.cupti)
    cuda = Cuda(opts.mock)
    time.sleep(opts.rest / 1000)
    print("ready", flush=True)
    while opts.wait and not os.path.exists(opts.wait):
        time.sleep(0.01)
    workers = [Worker(cuda, opts.steps) for _ in range(opts.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    cuda.call("cudaDeviceSynchronize")
    workers[0].add("cudaDeviceSynchronize")
    print("\n".join(line for w in workers for line in w.log) + "\nok", flush=True)
    time.sleep(opts.rest / 1000)


if __name__ == "__main__":
    main()
