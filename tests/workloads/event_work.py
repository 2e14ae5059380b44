# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A training loop with even steps, in which something happens on request: each line of stdin is for the next step.

  slow S          it takes S seconds; "slow SECONDS" is printed with what the step took, from the end of the last to its own
  grow MIB        it allocates so much, and touches it
  annotate NAME   it has an annotation of that name
  hang            it does not end until the next line comes
  sway            likewise, but it goes from one place where it sleeps to another one and back
  read FIFO       likewise, but inside an operator, until somebody writes into the FIFO
  oom BYTES       it asks for so much memory of the CPU, which is refused
  die BYTES       the same, and it ends of that
  report BYTES ALLOCATED RESERVED INDEX
                  it calls what the allocator of the GPU with that index calls when it has no memory

Each line is answered with a line "done WORDS".

Each step N has an annotation "step N" with N % 7 + 1 calls of torch.neg.

  event_work.py MS [NAME [FILE]]    MS: of each step; NAME: its own in /proc/PID/comm; FILE: gets a line for each step, "N BEGIN END" in
                                    Unix ns, around that annotation
"""

import ctypes
import os
import queue
import select
import sys
import threading
import time

import torch
from torch.profiler import record_function


def ask_for(size):
    try:
        torch.empty(size, dtype=torch.uint8)
    except RuntimeError as e:
        print("refused", str(e).split("\n", maxsplit=1)[0], flush=True)


def sleeps_here():
    time.sleep(0.66)


def waits_there():
    select.select([], [], [], 0.66)


def read_file(path):
    try:
        torch.from_file(path, size=4)
    except RuntimeError as e:
        print("refused", str(e).split("\n", maxsplit=1)[0], flush=True)


def report_oom(size, allocated, reserved, index):
    """c10::reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device); a Device is two bytes in one register: type, index."""
    c10 = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    c10._ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(  # pylint: disable=protected-access
        ctypes.c_int64(size), ctypes.c_size_t(allocated), ctypes.c_size_t(reserved), ctypes.c_uint64(index << 8 | 1))


def main():
    rest = float(sys.argv[1]) / 1000
    if len(sys.argv) > 2:
        with open("/proc/self/comm", "w", encoding="utf-8") as f:
            f.write(sys.argv[2])
    requests, held = queue.Queue(), []
    threading.Thread(target=lambda: [requests.put(line.split()) for line in sys.stdin], daemon=True).start()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 16)
    notes = open(sys.argv[3], "w", encoding="utf-8", buffering=1) if len(sys.argv) > 3 else None  # pylint: disable=consider-using-with
    last, n = time.monotonic(), 0
    while True:
        words = requests.get_nowait() if not requests.empty() else []
        optimizer.zero_grad()
        model(x).square().mean().backward()
        begin = time.time_ns()
        with record_function(f"step {n}"):
            for _ in range(n % 7 + 1):
                torch.neg(x)
        if notes:
            print(n, begin, time.time_ns(), file=notes)
        time.sleep(rest)
        if words[:1] == ["slow"]:
            time.sleep(float(words[1]))
        elif words[:1] == ["grow"]:
            held.append(torch.ones(int(words[1]) << 18))
        elif words[:1] == ["annotate"]:
            with record_function(words[1]):
                torch.abs(x)
        elif words[:1] == ["oom"]:
            ask_for(int(words[1]))
        elif words[:1] == ["die"]:
            torch.empty(int(words[1]), dtype=torch.uint8)
        elif words[:1] == ["report"]:
            report_oom(*map(int, words[1:]))
        elif words == ["hang"]:
            print("hangs", flush=True)
            requests.get()
        elif words == ["sway"]:
            print("hangs", flush=True)
            while requests.empty():
                sleeps_here()
                waits_there()
            requests.get()
        elif words[:1] == ["read"]:
            print("hangs", flush=True)
            read_file(words[1])
        optimizer.step()
        took, last, n = time.monotonic() - last, time.monotonic(), n + 1
        if words:
            print("done", *words, f"{took:.4f}", flush=True)
        if n % 10 == 0:
            print(f"step {n}", flush=True)


if __name__ == "__main__":
    main()
