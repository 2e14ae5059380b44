# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cost of Python stacks at depths of 8 (the least of the measured program), 13 and 30 frames; part of bench.py's rounds. Alone:

  sudo tools/bench/bench_stacks.py [--python PYTHON] [--rounds N]
"""

import argparse
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import Tracer, run_ptbpf  # noqa: E402

DEPTHS = (8, 13, 30)
MODES = {"names": [], "stacks": ["--with-stack"]}
MS = 300


def in_window(target, folder, options, work, series):
    capture = os.path.join(folder, "s.ptb")
    with Tracer("attach", "--pid", target.proc.pid, "-o", capture, "--no-table", *options) as t:
        t.wait_attached()
        answer = target.ask("time", work, MS)
        t.stop((0, 3))
    report = json.loads("\n".join(run_ptbpf("report", capture, "--json", expect=(0, 3)).out))
    series.add("stacks.lost", report["loss"]["lost_records"])
    return answer["ns"]


def round_of(target, series, folder):
    for depth in DEPTHS:
        work = f"deep{depth}"
        series.add(f"{work}.base", target.ask("time", work, MS)["ns"])
        for mode, options in MODES.items():
            series.add(f"{work}.{mode}", in_window(target, folder, options, work, series))
        for verb in ("profile", "stacks"):
            answer = target.ask(verb, work, 20000)
            series.add(f"{work}.torch.{verb}", answer["ns"])
            series.add(f"{work}.torch.{verb}.stop", answer["stop_ns_per_op"])


def table(s):
    rows = ["| Python stacks, `torch.neg`, per operator, us | " + " | ".join(f"{d} frames" for d in DEPTHS) + " |",
            "| --- |" + " --- |" * len(DEPTHS)]

    def row(title, value):
        cells = []
        for depth in DEPTHS:
            key = f"deep{depth}.{title}"
            s.data[key] = [value(f"deep{depth}", k) for k in range(len(s.data[f"deep{depth}.base"]))]
            cells.append(s.text(key, 1e-3))
        rows.append(f"| {title} | " + " | ".join(cells) + " |")

    def less(one, other):
        return lambda work, k: s.data[f"{work}.{one}"][k] - s.data[f"{work}.{other}"][k]

    row("the program alone", lambda work, k: s.data[f"{work}.base"][k])
    row("ptbpf, names: adds", less("names", "base"))
    row("ptbpf `--with-stack`: adds", less("stacks", "base"))
    row("... more than names", less("stacks", "names"))
    row("`torch.profiler`: adds while recording", less("torch.profile", "base"))
    row("`torch.profiler(with_stack=True)`: adds while recording", less("torch.stacks", "base"))
    row("... its stop and export", lambda work, k: s.data[f"{work}.torch.stacks.stop"][k])
    rows.append("")
    rows.append(f"Records lost with `--with-stack` or without: {s.text('stacks.lost', 1, 0)}")
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
