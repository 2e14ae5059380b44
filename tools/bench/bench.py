#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cost of ptbpf, measured in the target and compared with torch.profiler, in one run with interleaved rounds.

  sudo tools/bench/bench.py [--python PYTHON] [--rounds N] [--json FILE]

Prints Markdown tables with the medians and the spread (quartiles) over the rounds. Asserts nothing.
"""

import argparse
import glob
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import CommandTarget, Tracer, run_ptbpf  # noqa: E402
import bench_memory  # noqa: E402
import bench_sched  # noqa: E402
import bench_stacks  # noqa: E402

WORK = ("neg", "transformer")
MODES = {"names": [], "shapes": ["--record-shapes"], "full": ["--execution-trace"]}
THEIRS = ("profile", "shapes", "observe")  # verbs of target.py
MILLISECONDS = 400
GAP_MS = 3000


class Target(CommandTarget):
    def __init__(self, python, env=None):
        super().__init__([python, "-u", os.path.join(ROOT, "tools", "bench", "target.py")], env=env)
        self.line("ready")

    def answer(self):
        return json.loads(super().answer())

    def close(self):
        self.proc.stdin.close()
        self.proc.wait()


class Series:
    """Named lists of samples."""

    def __init__(self):
        self.data = {}

    def add(self, key, value):
        self.data.setdefault(key, []).append(value)

    def text(self, key, scale=1.0, digits=2):
        values = [v * scale for v in self.data.get(key, ())]
        if not values:
            return "-"
        quart = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        return f"{statistics.median(values):.{digits}f} ({quart[0]:.{digits}f}-{quart[2]:.{digits}f})"

    def median(self, key):
        return statistics.median(self.data[key]) if self.data.get(key) else None


def cpu_seconds(pid):
    """Time on a processor of all threads of a process, to the nanosecond."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def traced_round(target, work, mode, series, folder):
    """One window of ptbpf around one timing, and the values of its report."""
    capture = os.path.join(folder, "b.ptb")
    with Tracer("attach", "--pid", target.proc.pid, "-o", capture, *MODES[mode], "--no-table") as t:
        t.wait_attached()
        cpu, begin = cpu_seconds(t.pid), time.monotonic()
        answer = target.ask("time", work, MILLISECONDS)
        share = (cpu_seconds(t.pid) - cpu) / (time.monotonic() - begin)
        t.stop((0, 3))
    report = json.loads("\n".join(run_ptbpf("report", capture, "--json", expect=(0, 3)).out))
    series.add(f"{work}.{mode}", answer["ns"])
    series.add(f"{work}.{mode}.collector_cpu", share)
    hits, ops = report["cost"]["hits"], report["totals"]["slices"]
    series.add(f"{work}.{mode}.hits_per_s", hits / (report["window"]["duration_ns"] / 1e9))
    series.add(f"{work}.{mode}.bytes_per_op", os.path.getsize(capture) / max(ops, 1))
    for key in ("plan_ms", "attach_ms", "detach_ms"):
        series.add(key, report["probes"][key])
    series.add(f"{mode}.probes", report["probes"]["attached"])
    series.add("hit_ns", report["cost"]["per_hit_ns"])
    series.add("rss", report["cost"]["collector_rss_bytes"])
    series.add("lost", report["loss"]["lost_records"])
    for form in ("chrome", "et") if mode == "full" else ("chrome",):
        begin = time.monotonic()
        run_ptbpf("export", capture, "--format", form, "-o", os.path.join(folder, "x.json"), expect=(0, 3))
        series.add(f"{form}.export_ops_per_s", ops / (time.monotonic() - begin))


def gaps(target, series, folder):
    """The longest stall of a thread of the target, with a window of ptbpf in that time and without."""
    for kind in ("clock", "memory"):
        series.add(f"gap.{kind}.alone", target.ask("gap", kind, GAP_MS)["longest_ns"])
        target.send("gap", kind, GAP_MS)
        run_ptbpf("attach", "--pid", target.proc.pid, "-d", "500ms", "-o", os.path.join(folder, "g.ptb"), "--no-table", expect=(0, 3))
        series.add(f"gap.{kind}.window", target.answer()["longest_ns"])


def alone(open_targets, round_of, table):
    """The command line of one part of the rounds, with two programs."""
    ap = argparse.ArgumentParser()
    ap.add_argument("--python", default=sys.executable)
    ap.add_argument("--rounds", type=int, default=9)
    args = ap.parse_args()
    targets, series = open_targets(args.python), Series()
    with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
        for _ in range(args.rounds):
            round_of(*targets, series, folder)
    for target in targets:
        target.close()
    print("\n".join(table(series)))


def measure(args):
    """Every round has every mode once, with the program alone before and after each window."""
    series = Series()
    target, fresh, with_agent = Target(args.python), Target(args.python), Target(args.python, bench_stacks.WITH_AGENT)
    storm = bench_sched.Storm(args.python)
    with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
        for k in range(args.rounds):
            for work in WORK:
                series.add(f"{work}.base", target.ask("time", work, MILLISECONDS)["ns"])
                for mode in MODES:
                    traced_round(target, work, mode, series, folder)
                    series.add(f"{work}.after", target.ask("time", work, MILLISECONDS)["ns"])
                for verb in THEIRS:
                    answer = target.ask(verb, work, 30000 if work == "neg" else 100)
                    series.add(f"{work}.torch.{verb}", answer["ns"])
                    if "stop_ns_per_op" in answer:
                        series.add(f"{work}.torch.{verb}.stop", answer["stop_ns_per_op"])
                        series.add(f"{work}.ops", answer["ops_per_unit"])
            gaps(target, series, folder)
            bench_memory.round_of(target, fresh, series, folder)
            bench_stacks.round_of(target, with_agent, series, folder)
            bench_sched.round_of(target, storm, series, folder)
            print(f"round {k + 1} of {args.rounds}", file=sys.stderr)
    target.close()
    fresh.close()
    with_agent.close()
    storm.close()
    return series


def per_op_table(s):
    """Added cost per operator: (with - base) / operators of one unit, round by round."""
    titles = {"neg": "`torch.neg` on 4x4", "transformer": "transformer layer, forward, backward, SGD"}
    ops = {work: s.median(f"{work}.ops") for work in WORK}
    rows = ["| per operator, us | " + " | ".join(
        f"{titles[w]} ({ops[w]:.0f} op{'s' if ops[w] > 1.5 else ''})" for w in WORK) + " |", "| --- |" + " --- |" * len(WORK)]

    def row(title, text):
        rows.append(f"| {title} | " + " | ".join(text(work) for work in WORK) + " |")

    def alone(key):
        def text(work):
            s.data[f"{work}.{key}_op"] = [v / ops[work] for v in s.data[f"{work}.{key}"]]
            return s.text(f"{work}.{key}_op", 1e-3)
        return text

    def adds(key, base="base"):
        def text(work):
            pairs = zip(s.data[f"{work}.{key}"], s.data[f"{work}.{base}"])
            s.data[f"{work}.{key}_over_{base}"] = [(a - b) / ops[work] for a, b in pairs]
            return s.text(f"{work}.{key}_over_{base}", 1e-3)
        return text

    row("the program alone", alone("base"))
    row("detached again", alone("after"))
    row("ptbpf, names: adds", adds("names"))
    row("ptbpf `--record-shapes`: adds", adds("shapes"))
    row("... more than names", adds("shapes", "names"))
    row("ptbpf `--execution-trace`: adds", adds("full"))
    row("`torch.profiler`: adds while recording", adds("torch.profile"))
    row("`torch.profiler(record_shapes=True)`: adds while recording", adds("torch.shapes"))
    row("`ExecutionTraceObserver`: adds", adds("torch.observe"))
    row("`torch.profiler`: stop and export", lambda w: s.text(f"{w}.torch.profile.stop", 1e-3))
    row("`torch.profiler(record_shapes=True)`: stop and export", lambda w: s.text(f"{w}.torch.shapes.stop", 1e-3))
    return rows


def other_table(s):
    rows = ["| what | median (quartiles) |", "| --- | --- |"]
    per_mode = [(title.format(mode), key.format(mode), scale, digits) for title, key, scale, digits in (
        ("probes, {}", "{}.probes", 1, 0), ("collector, % of one CPU, `torch.neg`, {}", "neg.{}.collector_cpu", 100, 1),
        ("collector, % of one CPU, transformer, {}", "transformer.{}.collector_cpu", 100, 1),
        ("capture, bytes per slice, transformer, {}", "transformer.{}.bytes_per_op", 1, 1)) for mode in MODES]
    for title, key, scale, digits in (
            *per_mode, ("one probe hit, measured by ptbpf, us", "hit_ns", 1e-3, 2),
            ("plan, ms", "plan_ms", 1, 1), ("attach, ms", "attach_ms", 1, 1), ("detach, ms", "detach_ms", 1, 1),
            ("longest stall of the target, ms: no ptbpf", "gap.clock.alone", 1e-6, 1), ("... a window of ptbpf", "gap.clock.window", 1e-6, 1),
            ("... of a thread that maps memory, no ptbpf", "gap.memory.alone", 1e-6, 1),
            ("... a window of ptbpf", "gap.memory.window", 1e-6, 1),
            ("hits per second, `torch.neg`, names", "neg.names.hits_per_s", 1, 0),
            ("collector, resident MiB", "rss", 1 / 2**20, 1), ("Chrome trace, slices per second", "chrome.export_ops_per_s", 1, 0),
            ("Execution Trace, slices per second", "et.export_ops_per_s", 1, 0), ("records lost", "lost", 1, 0)):
        rows.append(f"| {title} | {s.text(key, scale, digits)} |")
    return rows


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--python", default=sys.executable)
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--json")
    args = ap.parse_args()
    series = measure(args)
    torch = subprocess.run([args.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                           check=True).stdout.strip()
    print(f"Linux {platform.release()}, {os.cpu_count()} CPUs, torch {torch}, {args.rounds} interleaved rounds; "
          "median (quartiles)\n")
    print("\n".join(per_op_table(series) + [""] + bench_memory.table(series) + [""] + bench_stacks.table(series) + [""] + bench_sched.table(series)
                    + [""] + other_table(series)))
    doctor = run_ptbpf("doctor", expect=(0, 1, 3))
    cost = [line.strip() for line in doctor.out if re.search(r"cost of a probe", line)]
    print("\n`ptbpf doctor`: " + (re.sub(r"\s+", " ", cost[0]) if cost else "no figure"))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(series.data, f, indent=1)


if __name__ == "__main__":
    main()
