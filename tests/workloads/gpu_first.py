# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Puts work on the mock GPU of tests/mock_cuda directly after its cuInit(), and ends as soon as that is done:

  gpu_first.py DIR - [notorch]     as gpu_work.py

GPU_FIRST_PAUSE=1: after a second instead. Prints one line of JSON with what it did.
"""

import json
import os
import time

import gpu_work

begin = time.monotonic()
gpu = gpu_work.Gpu()  # the first call of CUDA, which calls cuInit()
took = time.monotonic() - begin
time.sleep(float(os.environ.get("GPU_FIRST_PAUSE", "0")))
for _ in range(5):
    gpu.launch("plain")
gpu.wait()
print(json.dumps({"did": gpu.did, "init_s": took}), flush=True)
