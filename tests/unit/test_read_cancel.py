#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""SIGINT and SIGTERM end report and export of a large capture within a second, whatever they do at the time: reading,
sorting, writing, compressing. The exit code says so, and no output is left.

A second is one of the processor, since others may use the machine, too; for a capture that is smaller than 100 MB it
is as much shorter. With PTBPF_SOAK=1 the captures are ten times as large.
"""

import os
import signal
import subprocess
import tempfile
import time

from support import PTBPF, check, soak

MAKER = os.path.join(os.path.dirname(os.path.abspath(PTBPF)), "tests", "hostile_capture")
SCALE = 10 if soak() else 1
LEAST_S = 0.15  # starting and ending
TICK = os.sysconf("SC_CLK_TCK")
# capture, command, seconds of the processor after which the signal comes (of some 1.3, 3.3, 0.4, 1.3, 0.9 and 6)
RUNS = [("honest_launches", ["report", "--gpu"], (0.1, 0.4, 0.8, 1.1)),
        ("honest_launches", ["export", "--format", "chrome", "-o", "out.json.gz"], (0.6, 1.2, 2.4)),
        ("memory_timeline", ["export", "--format", "memory-raw", "-o", "out.json"], (0.1, 0.2, 0.3)),
        ("equal_schemas", ["report"], (0.2, 0.5, 0.9)),
        ("process_names", ["report", "--json"], (0.2, 0.4)),
        ("samples", ["export", "--format", "threads", "-o", "out.txt"], (0.5, 2))]


def cpu_of(pid):
    """Processor seconds, and whether the process still exists; it is not reaped before."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        rest = f.read().rsplit(")", 1)[1].split()
    return (int(rest[11]) + int(rest[12])) / TICK, rest[0] != "Z"


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
    failed, interrupted, cnt = [], 0, 0
    for name, command, times in RUNS:
        capture = os.path.join(ws, name + ".ptb")
        if not os.path.exists(capture):
            subprocess.run([MAKER, name, capture, str(SCALE)], check=True)
        most = LEAST_S + os.path.getsize(capture) / 100e6
        for i, at in enumerate(times):
            sig = (signal.SIGINT, signal.SIGTERM)[i % 2]
            code, took, text = run([os.path.abspath(PTBPF), command[0], capture] + command[1:], ws, at * SCALE, sig)
            left = [f for f in os.listdir(ws) if "out" in f]
            bad = None
            if code not in (0, 1, 3) or (code == 1 and "interrupted" not in text):
                bad = f"ended with {code}: {text[-500:]}"
            elif code == 1 and (took > most or left):
                bad = f"went on for {took:.2f} s of the processor ({most:.2f} are allowed), left {left}"
            cnt += 1
            interrupted += code == 1
            line = f"{name} {' '.join(command)}, {sig.name} after {at * SCALE:.1f} s: {code}, {took:.2f} s"
            print(line)
            if bad:
                failed.append(f"{line}: {bad}")
            for f in left:
                os.unlink(os.path.join(ws, f))
    check(not failed, "\n".join(failed))
    check(interrupted >= cnt / 2, f"only {interrupted} of {cnt} were interrupted")
    detail(f"{cnt} signals, {interrupted} interrupted")
