#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cost of recording what threads wait for; part of bench.py's rounds. Alone:

  sudo tools/bench/bench_sched.py [--python PYTHON] [--rounds N]
"""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from bench_memory import in_window  # noqa: E402
from support import BUILD, WORKLOADS, Process  # noqa: E402

MS = 1000
NOTHING = ["--activities", "cuda"]  # on a CPU-only program


class Storm:
    """Two threads on one CPU that do little but wake each other. ask() is that of bench.Target: ns for each wake-up."""

    def __init__(self, python):
        self.proc = Process(["taskset", "-c", "0", python, "-u", f"{WORKLOADS}/switch_storm.py", f"{BUILD}/tests/workloads/libswitches.so"], stdin=subprocess.PIPE)
        self.proc.wait_line("^ready")

    def ask(self, *words):
        answers = len(self.proc.out)
        self.proc.send(*words)
        answer = self.proc.wait_news("^({.*)", 1, answers)[1]
        return {"ns": words[1] * 1e6 / json.loads(answer)["switches"]}

    def close(self):
        self.proc.__exit__()


def ratios(series, name, ask, window):
    """The time of a unit in each kind of window, by that of the program alone before and after it."""
    before = ask()
    for mode, options in (("nothing", NOTHING), ("sched", [*NOTHING, "--sched"])):
        traced = window(options)
        after = ask()
        series.add(f"{name}.{mode}", 2 * traced / (before + after))
        series.add(f"{name}.alone", before)
        before = after


def round_of(target, storm, series, folder):
    ratios(series, "switches", lambda: storm.ask(1, MS)["ns"], lambda options: in_window(storm, folder, options, 1, MS)["ns"])
    train = ("time", "transformer", MS)
    ratios(series, "training", lambda: target.ask(*train)["ns"], lambda options: in_window(target, folder, options, *train)["ns"])


def table(s):
    rows = ["| scheduling | median (quartiles) |", "| --- | --- |"]
    for title, text in (("two threads on one CPU that wake each other, alone, us for each wake-up", s.text("switches.alone", 1e-3)),
                        ("a window without records, relative run time", s.text("switches.nothing", 1, 3)),
                        ("ptbpf `--sched`, relative run time", s.text("switches.sched", 1, 3)),
                        ("a step of the transformer, alone, ms", s.text("training.alone", 1e-6)),
                        ("a window without records, relative run time", s.text("training.nothing", 1, 3)),
                        ("ptbpf `--sched`, relative run time", s.text("training.sched", 1, 3))):
        rows.append(f"| {title} | {text} |")
    return rows


if __name__ == "__main__":
    import bench
    bench.alone(lambda python: (bench.Target(python), Storm(python)), round_of, table)
