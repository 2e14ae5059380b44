# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Collects garbage by itself only where it is asked: prints "ready" and how often each generation was collected, then collects until it is killed."""

import gc
import json
import sys

held = [[i] for i in range(200000)]
gc.disable()
for generation, times in enumerate((5, 3, 2)):
    for _ in range(times):
        gc.collect(generation)
print("ready", json.dumps([s["collections"] for s in gc.get_stats()]), flush=True)
sys.stdin.readline()
while True:
    gc.collect()
