# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Prints `ready` without torch; loads torch when the file named on the command line appears; then
`loaded`, and `worked` after each round of operators."""

import os
import sys
import time

print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)

import torch  # noqa: E402

x = torch.ones(4)
print("loaded", flush=True)
while not os.path.exists(sys.argv[1] + ".stop"):
    with torch.autograd.profiler.record_function("late work"):
        for _ in range(100):
            torch.neg(x)
    print("worked", flush=True)
