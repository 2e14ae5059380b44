# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""many_workers.py COUNT: forks COUNT ranks of one job, which share the memory of PyTorch; each runs a few operators, rests, and begins
again. Prints `ready` when all are there. They end with their parent."""

import ctypes
import os
import signal
import sys
import time

import torch

PR_SET_PDEATHSIG = 1


def work(parent):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    x = torch.ones(4)
    os.write(to_parent, b".")
    while os.getppid() == parent:
        for _ in range(20):
            torch.neg(x)
        time.sleep(0.2)
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.neg(torch.ones(4))
    from_child, to_parent = os.pipe()
    count, me = int(sys.argv[1]), os.getpid()
    for _ in range(count):
        if not os.fork():
            work(me)
    while count:
        count -= len(os.read(from_child, count))
    print("ready", flush=True)
    signal.pause()
