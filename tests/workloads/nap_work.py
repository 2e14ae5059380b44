# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Operators, and time outside of them at known lines, at each line on stdin; prints how many seconds each took:
"done {"nap": ..., "loop": ..., "operators": ...}"."""

import json
import sys
import time

import torch


def nap(seconds):
    time.sleep(seconds)  # LINE OF THE NAP


def loop(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:  # LINE OF THE LOOP
        pass


def operators(x):
    for _ in range(100):
        (x @ x).relu_()


torch.set_num_threads(1)
x = torch.randn(160, 160)
operators(x)
print("ready", flush=True)
for _ in sys.stdin:
    took = dict.fromkeys(("nap", "loop", "operators"), 0.0)
    for _ in range(5):
        for f, arg in ((nap, 0.4), (operators, x), (loop, 0.1)):
            begin = time.monotonic()
            f(arg)
            took[f.__name__] += time.monotonic() - begin
    print("done", json.dumps(took), flush=True)
