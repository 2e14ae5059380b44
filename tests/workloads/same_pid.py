# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes that get the same pid: each line on stdin ends the child that runs operators and forks another one with the
same pid. Prints `child PID NR` for each, or `other PID` where the pid could not be had again."""

import ctypes
import os
import signal
import sys

import torch

PR_SET_PDEATHSIG = 1

LAST = "/proc/sys/kernel/ns_last_pid"


def work(nr):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    x = torch.ones(4, 4)
    with torch.autograd.profiler.record_function(f"child number {nr}"):
        for _ in range(1000):
            torch.neg(x)
    while True:
        with torch.autograd.profiler.record_function(f"child number {nr}"):
            torch.neg(x)


def fork(nr, pid=0):
    for _ in range(300):
        if pid:
            with open(LAST, "w") as f:
                f.write(str(pid - 1))
        got = os.fork()
        if got == 0:
            if not pid or os.getpid() == pid:
                work(nr)
            os._exit(0)
        if not pid or got == pid:
            return got
        os.waitpid(got, 0)
    return 0


def main():
    torch.set_num_threads(1)
    torch.neg(torch.ones(2))
    nr = 1
    pid = fork(nr)
    print(f"child {pid} {nr}", flush=True)
    for _ in sys.stdin:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        nr += 1
        got = fork(nr, pid)
        print(f"child {pid} {nr}" if got else f"other {pid}", flush=True)
        if not got:
            return


if __name__ == "__main__":
    main()
