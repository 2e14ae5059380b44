# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The program of the golden captures: a small training step and what else operators can do, by commands from stdin, one a line.

Answers each with `answer`, and prints `answer` when it is ready. GOLDEN_MOCK names the folder of the mock CUDA libraries.
"""

import os
import signal
import sys
import threading
import time

MOCK = os.environ.get("GOLDEN_MOCK")
if MOCK:
    # The module loads the libraries that its argument names: a CUPTI before torch does, the runtime after it.
    sys.argv[1:] = [MOCK, "-"]
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workloads"))
    import gpu_work

import torch
from torch.autograd.profiler import record_function

torch.set_num_threads(1)
torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.lin = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.nn.functional.gelu(self.lin(self.norm(x)))


class Work:
    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.Conv1d(2, 2, 3, padding=1), Block(), Block())
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.data = torch.utils.data.DataLoader(torch.randn(64, 2, 8), batch_size=4)
        self.batches, self.kept = iter(self.data), []
        if MOCK:
            self.mock = gpu_work.Gpu()
            self.library = gpu_work.operators(self.mock)

    def train(self, cnt="2"):
        """Steps of training; each leaves a tensor behind."""
        for _ in range(int(cnt)):
            x = next(self.batches, None)
            if x is None:
                self.batches = iter(self.data)
                x = next(self.batches)
            with record_function("forward"):
                loss = self.model(x).square().mean()
            loss.backward()
            self.opt.step()
            self.opt.zero_grad()
            self.kept.append(loss.detach().clone())

    def odd(self):
        """Exceptions within annotations, threads, a text as an argument, lists of tensors, complex numbers, large shapes."""
        for _ in range(2):
            try:
                with record_function('outer "ünïcode" \\'), record_function("inner"):
                    torch.mm(torch.ones(2, 3), torch.ones(2, 3))
            except RuntimeError:
                pass
        threads = [threading.Thread(target=lambda k=k: torch.cat([torch.ones(k + 1), torch.zeros(2)]).sum()) for k in range(3)]
        for t in threads:
            t.start()
            t.join()
        torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))
        torch.stft(torch.ones(64), 16, window=torch.ones(16), return_complex=True)
        torch.utils.checkpoint.checkpoint(torch.exp, torch.ones(3, requires_grad=True), use_reentrant=False).sum().backward()
        torch.empty(1 << 20).fill_(1.5)

    def nap(self, ms="50"):
        time.sleep(int(ms) / 1000)

    def spin(self, ms="300"):
        """Steps until the time is over: for samples."""
        until = time.monotonic() + int(ms) / 1000
        while time.monotonic() < until:
            self.train("1")

    def flood(self, cnt="20000"):
        x = torch.ones(2)
        for _ in range(int(cnt)):
            x.neg()

    def fork(self):
        pid = os.fork()
        if not pid:
            time.sleep(1)  # until it has probes
            with record_function("in the child"):
                torch.neg(torch.ones(3))
            os._exit(0)
        os.waitpid(pid, 0)

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def gpu(self, *mode):
        """What tests/workloads/gpu_work.py does in that mode."""
        gpu_work.MODE = list(mode)
        gpu_work.work(self.mock)


def main():
    work = Work()
    work.train()
    work.odd()
    print("answer", flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        getattr(work, name)(*words)
        print("answer", flush=True)


if __name__ == "__main__":
    main()
