# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Puts work on the mock GPU of tests/mock_cuda from inside operators and annotations of torch, through ctypes.

  gpu_work.py DIR GO [threads|fork|many N|notorch|captured]     DIR: the mock libraries

Prints `ready`, waits for the file GO (a dash: goes on at once), works, prints one line of JSON with what it did, in
order, and `done`; then waits for GO.leave.
"""

import ctypes
import json
import os
import sys
import threading
import time

# torch's wheels have their own CUPTI and runtime. The agent uses the CUPTI that was loaded first, kernel probes the
# runtime with the lowest address: one is loaded before torch, the other after it.
DIR, GO, *MODE = sys.argv[1:]
DRIVER = ctypes.CDLL(os.path.join(DIR, "libcuda.so.1"))
if os.environ.get("GPU_WORK_CUPTI", "1") != "0":
    CUPTI = ctypes.CDLL(os.environ.get("GPU_WORK_CUPTI_PATH") or os.path.join(DIR, "libcupti.so.12"))

if "notorch" not in MODE:
    import torch
    from torch.autograd.profiler import record_function
else:
    import contextlib

    def record_function(_):
        return contextlib.nullcontext()

RUNTIME = ctypes.CDLL(os.path.join(DIR, "libcudart.so.12"))
KERNELS = {"axpy": "_Z11axpy_kernelPffi", "reduce": "_ZN2at6native13reduce_kernelILi512ELi1EEEvPKfPf", "plain": "plain_kernel"}
H2D, D2H, D2D = 1, 2, 3


class Dim3(ctypes.Structure):
    _fields_ = [(k, ctypes.c_uint) for k in "xyz"]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("attrs", ctypes.c_void_p),
                ("cnt", ctypes.c_uint)]


class Gpu:
    def __init__(self):
        self.did, self.kept = [], []
        self.call("cudaFree", None)
        self.stubs = {name: self.register(mangled) for name, mangled in KERNELS.items()}
        self.device, self.host = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)
        self.call("cudaMalloc", ctypes.byref(self.device), ctypes.c_size_t(1 << 20))
        self.side, self.event = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cudaStreamCreate", ctypes.byref(self.side))
        self.call("cudaEventCreate", ctypes.byref(self.event))
        self.did.clear()

    def register(self, mangled):
        stub, name = ctypes.create_string_buffer(16), ctypes.create_string_buffer(mangled.encode())
        self.kept += [stub, name]
        RUNTIME.__getattr__("__cudaRegisterFunction")(None, stub, name, name, -1, None, None, None, None, None)
        return stub

    def call(self, name, *args):
        error = getattr(RUNTIME, name)(*args)
        if error:
            sys.exit(f"{name} returned {error}")

    def note(self, kind, name, call, stream, nbytes=0, op=None):
        self.did.append({"kind": kind, "name": name, "call": call, "side": stream is self.side, "bytes": nbytes, "op": op,
                         "tid": threading.get_native_id()})

    def launch(self, name, stream=None, op=None, extended=False):
        grid, block = Dim3(7, 2, 1), Dim3(64, 1, 1)
        if extended:
            config = LaunchConfig(grid, block, 0, stream.value if stream else None, None, 0)
            self.call("cudaLaunchKernelExC", ctypes.byref(config), self.stubs[name], None)
        else:
            self.call("cudaLaunchKernel", self.stubs[name], grid, block, None, ctypes.c_size_t(128), stream)
        self.note("kernel", KERNELS[name], "cudaLaunchKernelExC" if extended else "cudaLaunchKernel", stream, 0, op)

    def copy(self, kind, nbytes, stream=None, wait=False, op=None):
        dst, src = (self.device, self.host) if kind == H2D else (self.host, self.device) if kind == D2H else (self.device, self.device)
        if wait:
            self.call("cudaMemcpy", dst, src, ctypes.c_size_t(nbytes), kind)
        else:
            self.call("cudaMemcpyAsync", dst, src, ctypes.c_size_t(nbytes), kind, stream)
        self.note("memcpy", {H2D: "HtoD", D2H: "DtoH", D2D: "DtoD"}[kind], "cudaMemcpy" if wait else "cudaMemcpyAsync", stream, nbytes, op)

    def fill(self, nbytes, stream=None, op=None):
        self.call("cudaMemsetAsync", self.device, 0, ctypes.c_size_t(nbytes), stream)
        self.note("memset", "", "cudaMemsetAsync", stream, nbytes, op)

    def capture(self):
        graph, self.exec = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cudaStreamBeginCapture", self.side, 0)
        self.launch("axpy", self.side)
        self.fill(640, self.side)
        self.launch("reduce", self.side)
        self.call("cudaStreamEndCapture", self.side, ctypes.byref(graph))
        self.call("cudaGraphInstantiate", ctypes.byref(self.exec), graph, ctypes.c_ulonglong(0))
        self.did = self.did[:-3]  # captured, not run

    def capture_operators(self):
        """The same work once eagerly, and as a graph: one kernel is from no operator, and one from another thread's."""
        graph, self.exec = ctypes.c_void_p(), ctypes.c_void_p()

        def layer():
            with record_function("layer"):
                torch.ops.mockgpu.both(torch.ones(2))
                self.launch("plain", self.side)
            thread = threading.Thread(target=lambda: torch.ops.mockgpu.both(torch.ones(2)))
            thread.start()
            thread.join()

        with record_function("eager"):
            layer()
            self.launch("axpy", self.side)
        did = len(self.did)
        self.call("cudaStreamBeginCapture", self.side, 0)
        with record_function("captured"):
            layer()
        self.launch("axpy", self.side)
        self.call("cudaStreamEndCapture", self.side, ctypes.byref(graph))
        self.call("cudaGraphInstantiate", ctypes.byref(self.exec), graph, ctypes.c_ulonglong(0))
        self.call("cudaGraphDestroy", graph)
        captured, self.did = self.did[did:], self.did[:did]
        return captured

    def replay_operators(self, captured):
        with record_function("replay"):
            self.call("cudaGraphLaunch", self.exec, self.side)
        self.did += [dict(d, call="cudaGraphLaunch", op=None, tid=threading.get_native_id()) for d in captured]

    def replay(self):
        self.call("cudaGraphLaunch", self.exec, self.side)
        for kind, name, nbytes in (("kernel", KERNELS["axpy"], 0), ("memset", "", 640), ("kernel", KERNELS["reduce"], 0)):
            self.note(kind, name, "cudaGraphLaunch", self.side, nbytes)

    def wait(self):
        self.call("cudaDeviceSynchronize")


def operators(gpu):
    """Operators of torch whose kernels put work on the GPU."""
    lib = torch.library.Library("mockgpu", "DEF")
    lib.define("scale(Tensor x) -> Tensor")
    lib.define("both(Tensor x) -> Tensor")

    def scale(x):
        gpu.launch("axpy", op="mockgpu::scale")
        return x.clone()

    def both(x):
        gpu.fill(4096, gpu.side, op="mockgpu::both")
        gpu.launch("reduce", gpu.side, op="mockgpu::both", extended=True)
        return x.clone()

    lib.impl("scale", scale, "CPU")
    lib.impl("both", both, "CPU")
    return lib


def step(gpu, k):
    x = torch.ones(4)
    with record_function(f"step {k}"):
        with record_function("load"):
            gpu.copy(H2D, 4096 + 16 * k, gpu.side)
        torch.ops.mockgpu.scale(x)
        gpu.call("cudaEventRecord", gpu.event, gpu.side)
        gpu.call("cudaStreamWaitEvent", None, gpu.event, 0)
        torch.ops.mockgpu.both(x)
        gpu.launch("plain")
        gpu.call("cudaStreamSynchronize", gpu.side)
        gpu.copy(D2H, 256, wait=True)


def work(gpu):
    if "notorch" in MODE:
        for k in range(50):
            gpu.launch("plain")
            gpu.copy(H2D, 1024 + k, gpu.side)
    elif MODE[:1] == ["many"]:
        with record_function("many"):
            for _ in range(int(MODE[1])):
                gpu.launch("axpy")
    elif MODE[:1] == ["threads"]:
        threads = [threading.Thread(target=lambda: [torch.ops.mockgpu.scale(torch.ones(2)) for _ in range(40)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    elif MODE[:1] == ["captured"]:
        captured = gpu.capture_operators()
        for _ in range(5):
            gpu.replay_operators(captured)
    elif MODE[:1] == ["fork"]:
        step(gpu, 0)
        pid = os.fork()
        if pid == 0:
            torch.ones(3).neg()
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            sys.exit("the child did not end well")
        step(gpu, 1)
    else:
        for k in range(3):
            step(gpu, k)
        gpu.capture()
        with record_function("graph"):
            gpu.replay()
            gpu.replay()
    gpu.wait()


def main():
    gpu = Gpu()
    kept = None if "notorch" in MODE else operators(gpu)
    if "notorch" not in MODE:
        torch.set_num_threads(1)
        torch.neg(torch.ones(2))
    if GO == "-":
        time.sleep(1)  # a tracer needs time to learn that CUDA is loaded; real programs load their data then
    print("ready", flush=True)
    while GO != "-" and not os.path.exists(GO):
        time.sleep(0.02)
    work(gpu)
    print(json.dumps({"did": gpu.did}), flush=True)
    print("done", flush=True)
    while GO != "-" and not os.path.exists(GO + ".leave"):
        time.sleep(0.02)
    del kept


if __name__ == "__main__":
    main()
