# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What ptbpf costs, measured in the target and beside torch.profiler, in one run with interleaved rounds.

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
from harness import Tracer, run_ptbpf  # noqa: E402

WORK = ("neg", "transformer")
MILLISECONDS = 400


class Target:
    def __init__(self, python):
        self.proc = subprocess.Popen([python, "-u", os.path.join(ROOT, "tools", "bench", "target.py")], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._line("ready")

    def _line(self, start):
        for line in self.proc.stdout:
            if line.startswith(start):
                return line[len(start):]
        raise SystemExit("the measured process ended")

    def ask(self, *words):
        self.proc.stdin.write(" ".join(map(str, words)) + "\n")
        self.proc.stdin.flush()
        return json.loads(self._line("answer"))

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


def traced_round(target, work, series, folder):
    """One window of ptbpf around one timing, and everything that its report tells."""
    capture = os.path.join(folder, "b.ptb")
    with Tracer("attach", "--pid", target.proc.pid, "-o", capture, "--trace", os.path.join(folder, "b.json")) as t:
        t.wait_attached()
        cpu, begin = cpu_seconds(t.pid), time.monotonic()
        answer = target.ask("time", work, MILLISECONDS)
        share = (cpu_seconds(t.pid) - cpu) / (time.monotonic() - begin)
        t.stop((0, 3))
    report = json.loads("\n".join(run_ptbpf("report", capture, "--json", expect=(0, 3)).out))
    series.add(f"{work}.ptbpf", answer["ns"])
    series.add(f"{work}.collector_cpu", share)
    hits, ops = report["cost"]["hits"], report["totals"]["slices"]
    series.add(f"{work}.records_per_s", hits / (report["window"]["duration_ns"] / 1e9))
    series.add(f"{work}.bytes_per_op", os.path.getsize(capture) / max(ops, 1))
    for key in ("plan_ms", "attach_ms", "detach_ms"):
        series.add(key, report["probes"][key])
    series.add("probes", report["probes"]["attached"])
    series.add("hit_ns", report["cost"]["per_hit_ns"])
    series.add("rss", report["cost"]["collector_rss_bytes"])
    series.add("lost", report["loss"]["lost_records"])
    begin = time.monotonic()
    run_ptbpf("export", capture, "--format", "chrome", "-o", os.path.join(folder, "x.json"), expect=(0, 3))
    series.add("export_ops_per_s", ops / (time.monotonic() - begin))


def measure(args):
    series = Series()
    target = Target(args.python)
    with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
        for k in range(args.rounds):
            for work in WORK:
                series.add(f"{work}.base", target.ask("time", work, MILLISECONDS)["ns"])
                traced_round(target, work, series, folder)
                series.add(f"{work}.after", target.ask("time", work, MILLISECONDS)["ns"])
                told = target.ask("profile", work, 30000 if work == "neg" else 100)
                series.add(f"{work}.profiler", told["ns"])
                series.add(f"{work}.profiler_stop", told["stop_ns_per_op"])
                series.add(f"{work}.ops", told["ops_per_unit"])
            print(f"round {k + 1} of {args.rounds}", file=sys.stderr)
    target.close()
    return series


def per_op_table(s):
    """Added cost per operator: (with - base) / operators of one unit."""
    rows = ["| per operator, us | base | with ptbpf | ptbpf adds | torch.profiler adds, recording | torch.profiler, stop + "
            "export | detached again |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for work, title in (("neg", "`torch.neg` on 4x4"), ("transformer", "transformer layer, forward, backward, SGD")):
        ops = s.median(f"{work}.ops")
        for key in ("base", "ptbpf", "profiler", "after"):
            s.data[f"{work}.{key}_op"] = [v / ops for v in s.data[f"{work}.{key}"]]
        for key in ("ptbpf", "profiler"):
            s.data[f"{work}.{key}_adds"] = [a - b for a, b in zip(s.data[f"{work}.{key}_op"], s.data[f"{work}.base_op"])]
        cells = [s.text(f"{work}.{k}", 1e-3) for k in ("base_op", "ptbpf_op", "ptbpf_adds", "profiler_adds",
                                                       "profiler_stop", "after_op")]
        rows.append(f"| {title} ({ops:.0f} op{'s' if ops > 1.5 else ''}) | " + " | ".join(cells) + " |")
    return rows


def other_table(s):
    rows = ["| what | median (quartiles) |", "| --- | --- |"]
    for title, key, scale, digits in (
            ("probes", "probes", 1, 0), ("one probe hit, measured by ptbpf, us", "hit_ns", 1e-3, 2),
            ("plan, ms", "plan_ms", 1, 1), ("attach, ms", "attach_ms", 1, 1), ("detach, ms", "detach_ms", 1, 1),
            ("records per second, `torch.neg`", "neg.records_per_s", 1, 0),
            ("records per second, transformer", "transformer.records_per_s", 1, 0),
            ("collector, % of one CPU, `torch.neg`", "neg.collector_cpu", 100, 1),
            ("collector, % of one CPU, transformer", "transformer.collector_cpu", 100, 1),
            ("collector, resident MiB", "rss", 1 / 2**20, 1), ("capture, bytes per slice", "neg.bytes_per_op", 1, 1),
            ("export, slices per second", "export_ops_per_s", 1, 0), ("records lost", "lost", 1, 0)):
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
    print("\n".join(per_op_table(series) + [""] + other_table(series)))
    doctor = run_ptbpf("doctor", expect=(0, 1, 3))
    cost = [line.strip() for line in doctor.out if re.search(r"cost of a probe", line)]
    print("\n`ptbpf doctor`: " + (re.sub(r"\s+", " ", cost[0]) if cost else "no figure"))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(series.data, f, indent=1)


if __name__ == "__main__":
    main()
