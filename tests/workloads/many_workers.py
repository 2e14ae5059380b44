# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""many_workers.py COUNT [leave]: forks COUNT ranks of one job, which share the memory of PyTorch; each runs a few operators, rests, and
begins again. Prints `ready` when all are there. They end with their parent, which waits and ends with the last one; with `leave` it has no
PyTorch itself then, as it executes another program.

Signals to a rank: SIGUSR1: it prints `late PID CHILD` and forks a child that runs operators for a second of processor time. SIGUSR2: it executes a
program without PyTorch. SIGHUP: it raises a hundred exceptions in operators, and prints `raised PID`. SIGTERM: it prints `final PID
DIGEST`, of all that it has computed, and ends: the same for each that has never been harmed."""

import ctypes
import hashlib
import os
import signal
import sys
import time

import torch

PR_SET_PDEATHSIG = 1
WAIT = """
import contextlib, os
print("ready", flush=True)
with contextlib.suppress(ChildProcessError):
    while True:
        os.wait()
"""


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # whole lines, of many processes


def on_fork(x):
    pid = os.fork()
    if not pid:
        while time.process_time() < 1:
            torch.neg(x)
        os._exit(0)
    say("late", os.getpid(), pid)


def on_raise(x):
    for _ in range(100):
        try:
            torch.mm(x, torch.ones(5, 5))
        except RuntimeError:
            pass
        else:
            sys.exit("no exception")
    say("raised", os.getpid())


def on_exec(_):
    os.execv("/bin/sleep", ["sleep", "600"])


def work(parent):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    marks, sums = [], set()
    # the interpreter must be between two operators, so the handlers only set a flag
    act = {signal.SIGUSR1: on_fork, signal.SIGUSR2: on_exec, signal.SIGHUP: on_raise}
    for sig in (*act, signal.SIGTERM):
        signal.signal(sig, lambda s, f: marks.append(s))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    x = torch.arange(16.0).reshape(4, 4)
    os.write(to_parent, b".")
    while os.getppid() == parent:
        y = x
        for _ in range(20):
            y = torch.neg(y) * 0.5
        sums.add(hashlib.sha256(bytes(y.flatten().tolist().__repr__(), "ascii")).hexdigest())
        time.sleep(0.2)
        while marks:
            mark = marks.pop()
            if mark == signal.SIGTERM:
                say("final", os.getpid(), ",".join(sorted(sums)))
                os._exit(0)
            act[mark](x)
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.neg(torch.ones(4))
    from_child, to_parent = os.pipe()
    count, me = int(sys.argv[1]), os.getpid()
    for _ in range(count):
        if not os.fork():
            work(me)
    while count:
        count -= len(os.read(from_child, count))
    if sys.argv[2:] == ["leave"]:
        os.execv(sys.executable, [sys.executable, "-c", WAIT])
    exec(WAIT)
