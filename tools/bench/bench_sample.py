#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `ptbpf sample` costs a program on average, between windows, and while --open-on waits for an event, against a twin that is not sampled.

  sudo tools/bench/bench_sample.py [--python PYTHON] [--rounds N] [--cycle SECONDS] [--active SECONDS] [--work step] [-- OPTIONS]

Two processes do the same work at the same time for whole cycles of the schedule; in each round first one is sampled, then the other.
The mean of both ratios does not depend on how the two differ. OPTIONS are those of `ptbpf sample`, as --max-overhead 0.5%. A run of
both for one cycle before each round is not counted. With --work step, steps are so short that what waiting costs for each of them stands out
from the noise of the machine. Asserts nothing.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import Tracer, children_of, wait_for  # noqa: E402
import bench_stacks  # noqa: E402

COSTS = {"mean_cpu_ns": "processor time", "mean_ns": "time"}


def together(targets, seconds, work):
    """The answers of both, which work at the same time."""
    for target in targets:
        target.send("time", work, int(seconds * 1000))
    return [target.answer() for target in targets]


@contextlib.contextmanager
def sampled(target, folder, schedule, options):
    """ptbpf sample of the target."""
    with Tracer("sample", "--pid", target.proc.pid, "--dir", folder, "--schedule", schedule, *options) as t:
        t.wait_line("sampling into", "the start", t.err)
        yield t


def windows(folder):
    with contextlib.suppress(FileNotFoundError), open(folder + "/windows.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.endswith("\n")]
    return []


class Round:
    """One round in which each of the twins was sampled for some cycles: the cost of the sampled one over that of the other."""

    def __init__(self):
        self.products = dict.fromkeys(COSTS, 1.0)

    def add(self, answers, which):
        for key in self.products:
            self.products[key] *= answers[which][key] / answers[1 - which][key]

    def ratios(self):
        return {key: p ** 0.5 for key, p in self.products.items()}


def cycles(targets, args, logs):
    """Windows and the time between them, in their proportion."""
    result = Round()
    for which, target in enumerate(targets):
        with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
            # a window in the middle of each cycle
            schedule = f"wait={args.cycle - args.active}s,active={args.active}s,skip_first={args.cycle / 2}s,skip_first_wait=1"
            with sampled(target, folder + "/w", schedule, args.options):
                result.add(together(targets, args.cycles * args.cycle, args.work), which)
            logs += windows(folder + "/w")
    return result.ratios()


def between(targets, args, idle):
    """After a window, while ptbpf waits for the next one."""
    result = Round()
    for which, target in enumerate(targets):
        with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
            with sampled(target, folder + "/w", f"wait=1h,active={args.active}s,skip_first_wait=1", args.options) as t:
                together(targets, 3 + args.active, args.work)
                wait_for(lambda: windows(folder + "/w"), "a window")
                used = cpu_of(t.pid)
                result.add(together(targets, args.cycle, args.work), which)
                idle.append((cpu_of(t.pid) - used) / args.cycle)
    return result.ratios()


def waiting(targets, args, idle):
    """While the watch of --open-on follows the steps. A step of this program takes a few milliseconds, so it has many."""
    result = Round()
    for which, target in enumerate(targets):
        with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
            with sampled(target, folder + "/w", "none", ["--open-on", "slow=1000x,grows=1000GiB,hang=1h", *args.options]) as t:
                t.wait_line("following the steps of 1 process", "the watch", t.err)
                watch, = children_of(t.pid)
                used = cpu_of(watch)
                result.add(together(targets, args.cycle, args.work), which)
                idle.append((cpu_of(watch) - used) / args.cycle)
    return result.ratios()


def cpu_of(pid):
    with open(f"/proc/{pid}/schedstat", encoding="utf-8") as f:
        return int(f.read().split()[0]) / 1e9


def main():
    from bench import Target
    ap = argparse.ArgumentParser()
    ap.add_argument("--python", default=sys.executable)
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--cycle", type=float, default=10, help="seconds from window to window, more than 4")
    ap.add_argument("--active", type=float, default=0.5, help="seconds of a window")
    ap.add_argument("--cycles", type=int, default=2, help="of each measurement")
    ap.add_argument("--work", default="transformer", choices=("transformer", "step"), help="what the programs do")
    ap.add_argument("options", nargs="*", metavar="OPTIONS")
    args = ap.parse_args()
    targets, logs, idle, watch = [Target(args.python) for _ in range(2)], [], [], []
    average, off, events, steps = [], [], [], []
    for k in range(args.rounds):
        steps += together(targets, 2, args.work)
        average.append(cycles(targets, args, logs))
        off.append(between(targets, args, idle))
        events.append(waiting(targets, args, watch))
        print(f"round {k + 1} of {args.rounds}", file=sys.stderr)
    for target in targets:
        target.close()
    recorded = [w for w in logs if "seconds" in w]
    charged = sum(w.get("charged_seconds", 0) for w in logs) / (args.rounds * 2 * args.cycles * args.cycle)
    print(f"{args.work}, a step takes {sum(a['ns'] for a in steps) / len(steps) / 1000:.0f} us; "
          f"windows of {args.active:g} s every {args.cycle:g} s {' '.join(args.options)}".rstrip())
    for key, title in COSTS.items():
        print(f"- {title} of the program: {bench_stacks.change_text([r[key] for r in average])}")
        print(f"- between windows: {bench_stacks.change_text([r[key] for r in off])}")
        print(f"- while --open-on waits: {bench_stacks.change_text([r[key] for r in events])}")
    print(f"- {len(recorded)} windows, {sum(w.get('shortened', False) for w in recorded)} of them shortened, "
          f"{sum(w['skipped_before'] for w in logs)} skipped; by the account of --max-overhead {100 * charged:+.2f} %")
    print(f"- ptbpf while it waits: {100 * sum(idle) / len(idle):.4f} % of a processor; with --open-on {100 * sum(watch) / len(watch):.4f} %")


if __name__ == "__main__":
    main()
