#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cost of recording memory; part of bench.py's rounds. Alone:

  sudo tools/bench/bench_memory.py [--python PYTHON] [--rounds N]
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import Tracer  # noqa: E402

PAIR_MODES = {"names": [], "memory": ["--profile-memory"], "both": ["--profile-memory", "--kernel-memory"]}
PAGE_MODES = {"names": [], "kernel": ["--kernel-memory"], "both": ["--profile-memory", "--kernel-memory"]}
PAIR_MS, PAGES_MS = 300, 800


def in_window(target, folder, options, *words):
    with Tracer("attach", "--pid", target.proc.pid, "-o", os.path.join(folder, "m.ptb"), "--no-table", *options) as t:
        t.wait_attached()
        answer = target.ask(*words)
        t.stop((0, 3))
    return answer


def round_of(target, fresh, series, folder):
    """Each mode once; before and after each window the program alone, whose mean is the base. fresh: another process, in which
    no profiler has left a large free heap: tensors in such a heap need no new pages."""
    series.add("pair.base", target.ask("time", "pair", PAIR_MS)["ns"])
    for mode, options in PAIR_MODES.items():
        series.add(f"pair.{mode}", in_window(target, folder, options, "time", "pair", PAIR_MS)["ns"])
    for verb in ("profile", "memory"):
        answer = target.ask(verb, "pair", 30000)
        series.add(f"pair.torch.{verb}", answer["ns"])
        series.add(f"pair.torch.{verb}.stop", answer["stop_ns_per_op"])
    before = fresh.ask("time", "pages", PAGES_MS)
    for mode, options in PAGE_MODES.items():
        traced = in_window(fresh, folder, options, "time", "pages", PAGES_MS)
        after = fresh.ask("time", "pages", PAGES_MS)
        series.add("pages.base", before["ns"])
        for clock in ("ns", "cpu_ns"):
            series.add(f"pages.{mode}.{clock}", traced[clock] / ((before[clock] + after[clock]) / 2))
            series.add(f"pages.again.{clock}", after[clock] / before[clock])
        before = after


def table(s):
    def less(key, base):
        name = f"pair.{key}-{base}"
        s.data[name] = [a - b for a, b in zip(s.data[f"pair.{key}"], s.data[f"pair.{base}"])]
        return s.text(name, 1e-3)

    rows = ["| memory | median (quartiles) |", "| --- | --- |"]
    for title, text in (
            ("`torch.empty(64)` and its free, alone, us", s.text("pair.base", 1e-3)),
            ("ptbpf, names: adds, us", less("names", "base")),
            ("ptbpf `--profile-memory`: adds, us", less("memory", "base")),
            ("... more than names: one allocation and its free", less("memory", "names")),
            ("ptbpf `--profile-memory --kernel-memory`: adds, us", less("both", "base")),
            ("`torch.profiler`: adds while recording, us", less("torch.profile", "base")),
            ("`torch.profiler(profile_memory=True)`: adds while recording, us", less("torch.memory", "base")),
            ("... more than without: one allocation and its free", less("torch.memory", "torch.profile")),
            ("`torch.profiler(profile_memory=True)`: stop and export, us", s.text("pair.torch.memory.stop", 1e-3)),
            ("64 MiB tensor without huge pages, written and freed, alone, ms", s.text("pages.base", 1e-6)),
            *((title + ", relative run time; processor time", s.text(f"pages.{mode}.ns", 1, 3) + "; "
               + s.text(f"pages.{mode}.cpu_ns", 1, 3))
              for title, mode in (("... again", "again"), ("ptbpf, names", "names"), ("ptbpf `--kernel-memory`", "kernel"),
                                  ("ptbpf `--kernel-memory --profile-memory`", "both")))):
        rows.append(f"| {title} | {text} |")
    return rows


if __name__ == "__main__":
    import bench
    bench.alone(lambda python: (bench.Target(python), bench.Target(python)), round_of, table)
