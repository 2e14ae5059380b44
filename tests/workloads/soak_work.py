# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A job that ends and is started again, for ever: it trains, raises, forks workers, starts threads, and changes its speed tenfold.

  soak_work.py NAME FOLDER

NAME is that of its processes (/proc/PID/comm). Prints `job PID` when one begins to train. Each writes FOLDER/PID, a line for each
step: the Unix times in ns before and after optimizer.step(), within which its annotation ends."""

import os
import random
import signal
import subprocess
import sys
import time

LIFE = 9  # seconds of training, about
SPEED_S = 1.5  # between changes of the speed
REST = 0.003


def supervise():
    count = 0
    while True:
        subprocess.run([sys.executable, "-u", *sys.argv, str(count)], stderr=subprocess.DEVNULL)
        count += 1


def train(folder, count):
    import torch
    import busy
    torch.set_num_threads(1)
    w = torch.randn(16, 16, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1e-3)
    steps = os.open(f"{folder}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begin, end, k = time.monotonic(), time.monotonic() + LIFE * random.uniform(0.7, 1.3), 0
    print(f"job {os.getpid()}", flush=True)
    while time.monotonic() < end:
        slow = int((time.monotonic() - begin) / SPEED_S) % 2
        for _ in range(10 if slow else 1):
            optimizer.zero_grad()
            torch.tanh(torch.ones(16, 16) @ w).sum().backward()
        before = time.time_ns()
        optimizer.step()
        os.write(steps, b"%d %d\n" % (before, time.time_ns()))
        if k % 7 == 0:
            busy.raise_and_catch(k)
        if k % 20 == 0:
            busy.in_thread(k)
        if k % 50 == 0:
            busy.in_child(k)
        k += 1
        time.sleep(REST * (10 if slow else 1))
    if count % 3 == 1:
        raise RuntimeError("a job that fails")
    if count % 3 == 2:
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    if len(sys.argv) == 3:
        supervise()
    with open("/proc/self/comm", "w") as f:
        f.write(sys.argv[1])
    train(sys.argv[2], int(sys.argv[3]))


if __name__ == "__main__":
    main()
