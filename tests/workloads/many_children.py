# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Starts many programs that wait, after a line on stdin, and ends them after another.

  many_children.py COUNT      prints `ready`, `started`, and `done`
"""

import os
import sys

import torch

torch.ones(2).neg()
print("ready", flush=True)
sys.stdin.readline()
hold, held = os.pipe()
actions = [(os.POSIX_SPAWN_DUP2, hold, 0), (os.POSIX_SPAWN_CLOSE, held)]
pids = [os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=actions) for _ in range(int(sys.argv[1]))]
print("started", flush=True)
sys.stdin.readline()
os.close(held)
print("done", sum(os.waitpid(pid, 0)[1] != 0 for pid in pids), flush=True)
