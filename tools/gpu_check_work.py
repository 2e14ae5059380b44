# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The program that tools/gpu_check.py traces: training steps with streams, copies, fills, events and a CUDA graph.

  gpu_check_work.py once N     prepares, runs N steps, ends
  gpu_check_work.py serve      executes commands from stdin, one a line; answers `answer JSON`
"""

import ctypes
import json
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function


class Work:
    def __init__(self):
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = False
        self.model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 900, 64),
                                         torch.nn.GELU(), torch.nn.Linear(64, 10)).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.host = torch.randn(16, 3, 32, 32).pin_memory()
        self.pageable = torch.randn(1 << 16)
        self.labels = torch.randint(0, 10, (16,)).cuda()
        self.side, self.scratch = torch.cuda.Stream(), torch.empty(1 << 20, device="cuda")
        self.one = torch.ones(1, device="cuda")
        for _ in range(3):
            self.step()
        self.graph = self.capture()
        for _ in range(2):
            self.step()
        torch.cuda.synchronize()

    def capture(self):
        self.static = torch.randn(256, 256, device="cuda")
        with torch.cuda.stream(self.side):
            (self.static @ self.static).relu().sum()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.result = (self.static @ self.static).relu().sum()
        return graph

    def step(self):
        with record_function("load"):
            with torch.cuda.stream(self.side):
                x = self.host.to("cuda", non_blocking=True)
                event = torch.cuda.Event()
                event.record()
            torch.cuda.current_stream().wait_event(event)
            x.record_stream(torch.cuda.current_stream())
            self.scratch[:1 << 16].copy_(self.pageable)
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(self.model(x), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scratch.zero_()
        if getattr(self, "graph", None):
            with record_function("graph"):
                self.graph.replay()
        return loss.item()

    def graphs(self, cnt):
        """The same operators once eagerly, and captured into a graph that is replayed so many times."""
        def layer():
            return (self.static @ self.static).relu().sum()

        with record_function("eager"):
            layer()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), record_function("captured"):
            result = layer()
        for _ in range(int(cnt)):
            with record_function("replayed"):
                graph.replay()
        torch.cuda.synchronize()
        return result.item()

    def steps(self, cnt):
        last = 0.0
        for k in range(int(cnt)):
            with record_function(f"step {k}"):
                last = self.step()
        torch.cuda.synchronize()
        return last

    def profiled(self, path, cnt):
        """The same steps under torch.profiler."""
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            last = self.steps(cnt)
        prof.export_chrome_trace(path)
        return last

    def profile_start(self):
        self.prof = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
        self.prof.start()

    def profile_stop(self, path):
        self.prof.stop()
        self.prof.export_chrome_trace(path)

    def launches(self, cnt):
        """Host ns per launch of a trivial kernel; in batches that fit into the queue."""
        samples = []
        for _ in range(max(5, int(cnt) // 200)):
            begin = time.perf_counter_ns()
            for _ in range(200):
                self.one.add_(1)
            samples.append((time.perf_counter_ns() - begin) / 200)
            torch.cuda.synchronize()
        samples.sort()
        return samples[len(samples) // 2]

    def rate(self, ms):
        """Steps per second."""
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < float(ms) / 1e3:
            self.step()
            done += 1
        torch.cuda.synchronize()
        return done / (time.perf_counter() - begin)

    def under_cuda_profiler(self, verb, number):
        """launches or rate under torch.profiler(activities=[CUDA]), without its stop."""
        prof = profile(activities=[ProfilerActivity.CUDA])
        prof.start()
        result = getattr(self, verb)(number)
        begin = time.perf_counter()
        prof.stop()
        return {"result": result, "stop_s": time.perf_counter() - begin}

    def dump_begin(self, lib, path, requests, limit="5"):
        """Receives the agent's chunks inside the process; returns the agent's state."""
        self.dump = ctypes.CDLL(lib)
        self.dump.agent_dump_why.restype = ctypes.c_char_p
        if self.dump.agent_dump_begin(path.encode(), int(requests)):
            return {"why": self.dump.agent_dump_why().decode()}
        end = time.monotonic() + float(limit)
        while not self.dump.agent_dump_state() & 0x10 and time.monotonic() < end:
            self.one.add_(1)
            time.sleep(0.01)
        torch.cuda.synchronize()
        return {"state": self.dump.agent_dump_state(), "whys": self.whys()}

    def dump_end(self):
        failed = self.dump.agent_dump_end(3000)
        return {"why": self.dump.agent_dump_why().decode() if failed else "", "state": self.dump.agent_dump_state()}

    def whys(self):
        """ops_why, gpu_why, CUptiResult, cuptiGetVersion() of the agent's control block."""
        try:
            block = (ctypes.c_uint32 * 10).in_dll(ctypes.CDLL(None), "ptbpf_agent_ctl")
        except ValueError:
            return None
        return list(block[6:10])

    def facts(self):
        p = torch.cuda.get_device_properties(0)
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "device": p.name, "sms": p.multi_processor_count,
                "memory": p.total_memory, "capability": [p.major, p.minor]}


def main():
    work = Work()
    if sys.argv[1] == "once":
        print(f"done {work.steps(sys.argv[2])}", flush=True)
        return
    print("answer " + json.dumps(work.facts()), flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        print("answer " + json.dumps(getattr(work, verb)(*words)), flush=True)


if __name__ == "__main__":
    main()
