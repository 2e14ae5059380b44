# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Short-lived operators: each in a Library of its own, registered, unused for a while, called, and removed at once.

  brief_ops.py GO CNT      GO: waited for, a dash: goes on at once

Prints `ready`; then one line of JSON with their names.
"""

import gc
import json
import os
import sys
import time

import torch

GO, CNT = sys.argv[1], int(sys.argv[2])
NAMES = []


def once(k):
    lib = torch.library.Library(f"brief{k}", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x + x, "CPU")
    NAMES.append(f"brief{k}::twice")
    time.sleep(0.3)
    getattr(torch.ops, f"brief{k}").twice(torch.ones(2))
    lib._destroy()


torch.ones(2).neg()
print("ready", flush=True)
while GO != "-" and not os.path.exists(GO):
    time.sleep(0.02)
for n in range(CNT):
    once(n)
    gc.collect()
print(json.dumps({"names": NAMES}), flush=True)
