# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Forks after a line on stdin; the forks call operators until its input ends.

  fork_many.py COUNT      prints `ready` and `started`
"""

import os
import sys
import time

import torch

torch.ones(2).neg()
print("ready", flush=True)
sys.stdin.readline()
pids = []
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        parent = os.getppid()
        while os.getppid() == parent:
            torch.ones(2).neg()
            time.sleep(0.05)
        os._exit(0)
    pids.append(pid)
print("started", flush=True)
sys.stdin.readline()
