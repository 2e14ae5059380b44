#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `ptbpf top` costs a program while it runs, beside torch.profiler; and what top itself takes.

  sudo tools/bench/bench_top.py [--python PYTHON] [--rounds N]

Each round has every mode once, with the program alone before and after it, whose mean is the base. Asserts nothing.
"""

import contextlib
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import PTBPF, children_of  # noqa: E402
import bench_stacks  # noqa: E402

MS = 3000  # some intervals of top
WORK = ("time", "transformer", MS)
CLOCKS = {"ns": "run time", "cpu_ns": "processor time", "fast_ns": "that of the fastest tenth of the steps"}


def seconds_of(pids):
    """Processor time of processes and of their children that have ended."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            total += sum(map(int, f.read().rpartition(")")[2].split()[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def top(target, series, mode, *args):
    """A live view of the target, which has begun."""
    with subprocess.Popen([PTBPF, "top", str(target.proc.pid), *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as t:
        for _ in range(2):  # of the first interval, which may have operators, and of the next one
            while not t.stdout.readline().startswith("ptbpf: "):
                pass
        pids = [t.pid, *children_of(t.pid)]
        cpu, begin = seconds_of(pids), time.monotonic()
        yield
        series.add(f"{mode}.own", (seconds_of(pids) - cpu) / (time.monotonic() - begin))
        t.terminate()


def round_of(target, with_agent, series, _):
    for mode, t, *args in (("samples", target), ("agent", with_agent), ("operators", with_agent, "--max-overhead", "off")):
        before = t.ask(*WORK)
        with top(t, series, mode, *args):
            seen = t.ask(*WORK)
        after = t.ask(*WORK)
        theirs = t.ask("profile", "transformer", 300)
        for clock in CLOCKS:
            base = (before[clock] + after[clock]) / 2
            series.add(f"{mode}.{clock}", seen[clock] / base)
            series.add(f"again.{clock}", after[clock] / before[clock])
        series.add(f"{mode}.profile", theirs["ns"] / ((before["ns"] + after["ns"]) / 2))


def table(s):
    rows = ["| a step of the transformer, relative | " + " | ".join(CLOCKS.values()) + " | top itself, % of one CPU |", "| --- |" + " --- |" * (len(CLOCKS) + 1)]
    for title, key in (("the program alone, again", "again"), ("`ptbpf top`, no agent: samples, waits, steps", "samples"),
                       ("`ptbpf top`, with the agent", "agent"),
                       ("`ptbpf top --max-overhead off`, with the agent, which records operators all the time", "operators")):
        rows.append(f"| {title} | " + " | ".join([*(s.text(f"{key}.{clock}", 1, 3) for clock in CLOCKS), s.text(f"{key}.own", 100, 1)]) + " |")
    rows.append(f"| `torch.profiler`, while it records | {s.text('samples.profile', 1, 3)} |" + " - |" * len(CLOCKS))
    return rows


if __name__ == "__main__":
    import bench
    bench.alone(lambda python: (bench.Target(python), bench.Target(python, bench_stacks.WITH_AGENT)), round_of, table)
