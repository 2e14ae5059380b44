# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What recording memory costs; part of bench.py's rounds. Alone:

  sudo tools/bench/bench_memory.py [--python PYTHON] [--rounds N]
"""

import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from harness import Tracer  # noqa: E402

PAIR_MODES = {"names": [], "memory": ["--profile-memory"], "both": ["--profile-memory", "--kernel-memory"]}
PAGE_MODES = {"names": [], "kernel": ["--kernel-memory"], "both": ["--profile-memory", "--kernel-memory"]}
PAIR_MS, PAGES_MS = 300, 800


def in_window(target, folder, options, *words):
    with Tracer("attach", "--pid", target.proc.pid, "-o", os.path.join(folder, "m.ptb"), "--no-table", *options) as t:
        t.wait_attached()
        answer = target.ask(*words)
        t.stop((0, 3))
    return answer["ns"]


def round_of(target, series, folder):
    """Each mode once; before and after each window the program alone, whose mean is its base."""
    series.add("pair.base", target.ask("time", "pair", PAIR_MS)["ns"])
    for mode, options in PAIR_MODES.items():
        series.add(f"pair.{mode}", in_window(target, folder, options, "time", "pair", PAIR_MS))
    for verb in ("profile", "memory"):
        told = target.ask(verb, "pair", 30000)
        series.add(f"pair.torch.{verb}", told["ns"])
        series.add(f"pair.torch.{verb}.stop", told["stop_ns_per_op"])
    before = target.ask("time", "pages", PAGES_MS)["ns"]
    for mode, options in PAGE_MODES.items():
        traced = in_window(target, folder, options, "time", "pages", PAGES_MS)
        after = target.ask("time", "pages", PAGES_MS)["ns"]
        series.add("pages.base", before)
        series.add(f"pages.{mode}", traced / ((before + after) / 2))
        series.add("pages.again", after / before)
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
            ("... again, relative to the time before", s.text("pages.again", 1, 3)),
            ("ptbpf, names: relative run time", s.text("pages.names", 1, 3)),
            ("ptbpf `--kernel-memory`: relative run time", s.text("pages.kernel", 1, 3)),
            ("ptbpf `--kernel-memory --profile-memory`: relative run time", s.text("pages.both", 1, 3))):
        rows.append(f"| {title} | {text} |")
    return rows


def main():
    from bench import Series, Target
    ap = argparse.ArgumentParser()
    ap.add_argument("--python", default=sys.executable)
    ap.add_argument("--rounds", type=int, default=9)
    args = ap.parse_args()
    target, series = Target(args.python), Series()
    with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
        for _ in range(args.rounds):
            round_of(target, series, folder)
    target.close()
    print("\n".join(table(series)))


if __name__ == "__main__":
    main()
