# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""switch_storm.py LIBRARY: prints "ready". A line "PAIRS MS [CHILDREN THREADS]" lets so many pairs of threads wake each other for that time; meanwhile
other threads call operators, start so many programs, and so many threads that end at once. Answers with what happened, as JSON."""

import ctypes
import json
import subprocess
import sys
import threading

import torch

from measured import facts

torch.set_num_threads(1)
library = ctypes.CDLL(sys.argv[1])
library.switches.restype = ctypes.c_long
x = torch.ones(4)
raised = 0


def operators(over):
    global raised
    while not over.is_set():
        torch.neg(x)
        try:
            torch.mm(x, x)
        except RuntimeError:
            raised += 1


def children(cnt):
    for _ in range(cnt):
        subprocess.run(["true"], check=True)


def threads(cnt):
    for _ in range(cnt):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()


print("ready", flush=True)
for line in sys.stdin:
    pairs, ms, *counts = map(int, line.split())
    over, before = threading.Event(), facts()
    others = [threading.Thread(target=t, args=(a,)) for t, a in zip((children, threads, operators), counts and [*counts, over])]
    for other in others:
        other.start()
    cnt = library.switches(pairs, ms)
    over.set()
    for other in others:
        other.join()
    print(json.dumps({"switches": cnt, "raised": raised, "begin": before, "end": facts()}), flush=True)
