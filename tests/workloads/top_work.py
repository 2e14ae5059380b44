# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Steps that compute for about half of their time and sleep for the other half. It does not ask for its processor time meanwhile: the kernel ends
a turn that is over when it is asked, so that turns beside other work would begin at ticks and end before the next one.

Prints `ready`, then after each step `step WALL CPU`: seconds since it began, and processor time of the main thread meanwhile."""

import threading
import time

import torch
from torch.profiler import record_function

HALF = 0.02
x = torch.ones(64, 64)


def compute(count):
    for _ in range(count):
        torch.mm(x, x) # LINE THAT COMPUTES


def products_of_half():
    """So many take that long."""
    count, begin = 0, time.thread_time()
    while time.thread_time() < begin + HALF:
        compute(1)
        count += 1
    return count


def rest():
    time.sleep(HALF) # LINE THAT SLEEPS


def beside():
    while True:
        time.sleep(1000)


def main():
    torch.set_num_threads(1)
    threading.Thread(target=beside, name="beside", daemon=True).start()
    count = max(products_of_half() for _ in range(5))
    print("ready", flush=True)
    wall, cpu = time.monotonic(), time.thread_time()
    while True:
        compute(count)
        rest()
        with record_function("Optimizer.step#None.step"):
            pass
        print(f"step {time.monotonic() - wall:.6f} {time.thread_time() - cpu:.6f}", flush=True)


if __name__ == "__main__":
    main()
