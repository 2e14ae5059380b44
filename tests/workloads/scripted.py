# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A short program with a known list of operators, for `record` and for exact expectations.

Prints `ready`, waits for the file named on the command line (none: goes on at once), runs, `done`.
"""

import os
import sys
import time

import torch
from torch.autograd.profiler import record_function

print("ready", flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)

x = torch.ones(3, 3)
with record_function("first part"):
    for _ in range(100):
        torch.neg(x)
with record_function("ünïcode \"quoted\" back\\slash"):
    y = torch.mm(x, x)
for _ in range(7):
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError:
        pass
w = torch.ones(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
for _ in range(4):
    opt.zero_grad()
    (w * 2).sum().backward()
    opt.step()
with record_function("last part"):
    torch.abs(y)
print("done", flush=True)
