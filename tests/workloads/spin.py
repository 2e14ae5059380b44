# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The simplest target: one operator 20,000 times and a rest, again and again, and how long it takes.

Prints `ready`, then `rate NS` (ns per operator) again and again. SIGUSR1: fork a child that runs
operators inside an annotation for CHILD_SECONDS (1) of processor time and ends. SIGUSR2: exec a program without torch. SIGTERM: end.

  spin.py [NAME]      NAME: its own in /proc/PID/comm
"""

import os
import signal
import sys
import time

import torch

REST = 0.05  # seconds: leaves the processor to the tracer and to other tests at least half the time
CHILD_SECONDS = float(os.environ.get("CHILD_SECONDS", 1))
x = torch.ones(4, 4)


def on_fork(*_):
    pid = os.fork()
    if pid == 0:
        with torch.autograd.profiler.record_function("child at work"):
            while time.process_time() < CHILD_SECONDS:  # on a busy machine the child lives longer
                torch.neg(x)
        os._exit(0)
    print(f"forked {pid}", flush=True)


def on_exec(*_):
    print("exec", flush=True)
    os.execv("/bin/sleep", ["sleep", "600"])


def main():
    if len(sys.argv) > 1:
        with open("/proc/self/comm", "w", encoding="utf-8") as f:
            f.write(sys.argv[1])
    # the interpreter must be between two operators, so the handlers only set a flag
    marks = []
    for sig in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(sig, lambda s, f: marks.append(s))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    act = {signal.SIGUSR1: on_fork, signal.SIGUSR2: on_exec, signal.SIGTERM: lambda: sys.exit(0)}
    torch.neg(x)
    print("ready", flush=True)
    while True:
        begin = time.perf_counter_ns()
        for _ in range(20000):
            torch.neg(x)
        print(f"rate {(time.perf_counter_ns() - begin) / 20000:.0f}", flush=True)
        while marks:
            act[marks.pop()]()
        time.sleep(REST)


if __name__ == "__main__":
    main()
