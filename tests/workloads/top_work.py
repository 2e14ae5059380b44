# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Steps of known time: computes for half of each and sleeps for the other half.

Prints `ready`, then after each step `step WALL CPU`: seconds since it began, and processor time of the main thread meanwhile."""

import threading
import time

import torch
from torch.profiler import record_function

HALF = 0.02
x = torch.ones(64, 64)


def compute():
    end = time.thread_time() + HALF
    while time.thread_time() < end: # LINE THAT COMPUTES
        torch.mm(x, x)


def rest():
    time.sleep(HALF) # LINE THAT SLEEPS


def beside():
    while True:
        time.sleep(1000)


def main():
    torch.set_num_threads(1)
    threading.Thread(target=beside, name="beside", daemon=True).start()
    compute()
    print("ready", flush=True)
    wall, cpu = time.monotonic(), time.thread_time()
    while True:
        compute()
        rest()
        with record_function("Optimizer.step#None.step"):
            pass
        print(f"step {time.monotonic() - wall:.6f} {time.thread_time() - cpu:.6f}", flush=True)


if __name__ == "__main__":
    main()
