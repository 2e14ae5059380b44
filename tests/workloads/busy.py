# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target that computes, raises, starts threads and forks, and keeps a digest of all its results.

  busy.py [STEPS[,STEPS]... [REST]]     STEPS 0: until SIGTERM; REST: seconds of sleep after each step.
                                        Prints `ready`, then after each number of steps `final STEPS DIGEST`.

Two runs must print the same digest for the same number of steps whatever happens around them.
"""

import hashlib
import os
import signal
import sys
import threading
import time

import torch
from torch.autograd.profiler import record_function


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def train(k, w):
    x = torch.full((4, 4), 1.0 + k % 7)
    w.grad = None
    loss = torch.tanh(x @ w).sum() + Square.apply(w).sum()
    loss.backward()
    return [loss.detach(), w.grad]


def raise_and_catch(k):
    caught = 0
    for _ in range(3):
        try:
            with record_function(f"will fail {k % 5}"):
                torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        except RuntimeError:
            caught += 1
    try:
        torch.ops.aten.view(torch.ones(4), [3])
    except RuntimeError:
        caught += 1
    return [torch.tensor(caught)]


def in_thread(k):
    out = []
    t = threading.Thread(target=lambda: out.append(torch.arange(5.0).mul(k).cumsum(0)))
    t.start()
    t.join()
    return out


def in_child(k):
    """A child that runs operators and reports through a pipe."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        value = int(torch.arange(k % 11 + 1).sum().item())
        try:
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        except RuntimeError:
            value += 1000
        os.write(w, str(value).encode())
        os._exit(0)
    os.close(w)
    text = b""
    while chunk := os.read(r, 64):
        text += chunk
    os.close(r)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"child of step {k} ended with {status}")
    return [torch.tensor(int(text))]


def main():
    ends = sorted(set(map(int, sys.argv[1].split(",")))) if len(sys.argv) > 1 else [0]
    rest = float(sys.argv[2]) if len(sys.argv) > 2 else 0
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    torch.set_num_threads(1)
    torch.manual_seed(3)
    w = torch.randn(4, 4, requires_grad=True)
    h = hashlib.sha256()
    k = 0
    print("ready", flush=True)
    while not stop and (ends == [0] or k < ends[-1]):
        values = train(k, w) + raise_and_catch(k)
        if k % 5 == 0:
            values += in_thread(k)
        if k % 50 == 0:
            values += in_child(k)
        values.append(torch.rand(3))
        for v in values:
            h.update(v.numpy().tobytes())
        k += 1
        if k in ends:
            print(f"final {k} {h.hexdigest()}", flush=True)
        if rest:
            time.sleep(rest)
    if k not in ends:
        print(f"final {k} {h.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
