#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""SIGINT and SIGTERM end report and export within a second, whatever they do at the time. The exit code says so, and no
output is left. A second is one of the processor, since others may use the machine, too.
"""

import os
import signal
import subprocess
import tempfile
import time

from hostile import make
from support import PTBPF, check

TICK = os.sysconf("SC_CLK_TCK")
# command, seconds of the processor after which the signal comes
RUNS = [(["report", "--gpu"], 0.05), (["report", "--gpu"], 0.4), (["export", "--format", "chrome", "-o", "out.json.gz"], 0.6),
        (["export", "--format", "chrome", "-o", "out.json.gz"], 1.2)]


def cpu_of(pid):
    """Processor seconds of the process and its children, and whether it still runs; it is not reaped before."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        rest = f.read().rsplit(")", 1)[1].split()
    spent, alive = sum(int(n) for n in rest[11:15]) / TICK, rest[0] != "Z"
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = f.read().split()
        spent += sum(cpu_of(child)[0] for child in children)
    except OSError:
        pass  # one has ended
    return spent, alive


def run(args, cwd, at, sig):
    """Exit code, seconds of the processor after the signal, stderr."""
    with tempfile.TemporaryFile() as err:
        p = subprocess.Popen(args, cwd=cwd, stdout=subprocess.DEVNULL, stderr=err)
        spent, alive = cpu_of(p.pid)
        while alive and spent < at:
            time.sleep(0.003)
            spent, alive = cpu_of(p.pid)
        os.kill(p.pid, sig)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        return p.returncode, usage.ru_utime + usage.ru_stime - spent, err.read().decode(errors="replace")


def test_signals(ws, detail):
    capture, interrupted = os.path.join(ws, "capture.ptb"), 0
    make("honest_launches", capture, 100)
    for command, at in RUNS:
        for sig in (signal.SIGINT, signal.SIGTERM):
            code, took, text = run([os.path.abspath(PTBPF), command[0], capture] + command[1:], ws, at, sig)
            left = [f for f in os.listdir(ws) if "out" in f]
            line = f"{' '.join(command)}, {sig.name} after {at:.2f} s: {code}, {took:.2f} s"
            print(line)
            check(code in (0, 3) or (code == 1 and "interrupted" in text), f"{line}: {text[-500:]}")
            check(code != 1 or (took < 1 and not left), f"{line}, left {left}")
            interrupted += code == 1
            for f in left:
                os.unlink(os.path.join(ws, f))
    check(interrupted >= len(RUNS), f"only {interrupted} of {2 * len(RUNS)} were interrupted")
    detail(f"{2 * len(RUNS)} signals, {interrupted} interrupted")
