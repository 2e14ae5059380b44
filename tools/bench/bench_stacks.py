#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cost of Python stacks at depths of 8 (the least of the measured program), 13 and 30 frames, with operators from kernel probes and from
the agent; part of bench.py's rounds. Alone:

  sudo tools/bench/bench_stacks.py [--python PYTHON] [--rounds N]
"""

import contextlib
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import AGENT, Tracer, run_ptbpf  # noqa: E402

DEPTHS = (8, 13, 30)
MODES = {"names": [], "stacks": ["--with-stack"]}
AGENT_MODES = {"agent": [], "agent_stacks": ["--with-stack"]}
WITH_AGENT = {"LD_PRELOAD": AGENT}
CLOCK = "fast_ns"  # of the thread that runs the operators, as in bench_agent.py
MS = 300
SAMPLED = "transformer"


def in_window(target, folder, options, work, series):
    capture = os.path.join(folder, "s.ptb")
    with Tracer("attach", "--pid", target.proc.pid, "-o", capture, "--no-table", *options) as t:
        t.wait_attached()
        answer = target.ask("time", work, MS)
        t.stop((0, 3))
    report = json.loads("\n".join(run_ptbpf("report", capture, "--json", expect=(0, 3)).out))
    series.add("stacks.lost", report["loss"]["lost_records"])
    return answer[CLOCK]


def round_of_agent(target, series, folder):
    """The same in a process that has the agent."""
    for depth in DEPTHS:
        work = f"deep{depth}"
        series.add(f"{work}.agent_base", target.ask("time", work, MS)[CLOCK])
        for mode, options in AGENT_MODES.items():
            series.add(f"{work}.{mode}", in_window(target, folder, options, work, series))


def round_of(target, with_agent, series, folder):
    round_of_agent(with_agent, series, folder)
    for depth in DEPTHS:
        work = f"deep{depth}"
        series.add(f"{work}.base", target.ask("time", work, MS)[CLOCK])
        for mode, options in MODES.items():
            series.add(f"{work}.{mode}", in_window(target, folder, options, work, series))
        for verb in ("profile", "stacks"):
            answer = target.ask(verb, work, 20000)
            series.add(f"{work}.torch.{verb}", answer[CLOCK])
            series.add(f"{work}.torch.{verb}.stop", answer["stop_ns_per_op"])


def samples(target, series, folder, rounds):
    """Mean processor time with samples against without, since a sample hits few of the measured units: many short rounds, in turn. The first second,
    in which ptbpf reads the code objects, by itself."""
    capture = os.path.join(folder, "s.ptb")
    for k in range(rounds):
        costs = {}
        for sampled in ((False, True), (True, False))[k % 2]:
            with contextlib.ExitStack() as stack:
                if sampled:
                    t = stack.enter_context(Tracer("attach", "--pid", target.proc.pid, "-o", capture, "--no-table", "--sample-stacks", 99))
                    t.wait_attached()
                costs[sampled] = [target.ask("time", SAMPLED, ms)["mean_cpu_ns"] for ms in (1000, 2000)]
                if sampled:
                    t.stop((0, 3))
        for name, on, off in zip(("samples.begin", "samples"), costs[True], costs[False]):
            series.add(name, on / off)


def change_text(ratios):
    """The median of the ratios and an interval that has the true median in 95 of 100 cases (sign test)."""
    ratios = sorted(ratios)
    n = len(ratios)
    k = max(0, int((n - 1.96 * n ** 0.5) / 2))
    return (f"{100 * (ratios[n // 2] - 1):+.2f} % (95 % interval {100 * (ratios[k] - 1):+.2f} to {100 * (ratios[n - 1 - k] - 1):+.2f} %, "
            f"{n} rounds)")


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
    row("the agent, names: adds", less("agent", "agent_base"))
    row("the agent `--with-stack`: adds", less("agent_stacks", "agent_base"))
    row("`torch.profiler`: adds while recording", less("torch.profile", "base"))
    row("`torch.profiler(with_stack=True)`: adds while recording", less("torch.stacks", "base"))
    row("... its stop and export", lambda work, k: s.data[f"{work}.torch.stacks.stop"][k])
    rows.append("")
    rows.append(f"Records lost with `--with-stack` or without: {s.text('stacks.lost', 1, 0)}")
    return rows


def round_alone(target, with_agent, series, folder):
    round_of(target, with_agent, series, folder)
    samples(target, series, folder, 4)


def table_alone(series):
    return [*table(series), f"`--sample-stacks 99`, transformer: processor time of the program {change_text(series.data['samples'])}; "
            f"in the first second {change_text(series.data['samples.begin'])}"]


if __name__ == "__main__":
    import bench
    bench.alone(lambda python: (bench.Target(python), bench.Target(python, WITH_AGENT)), round_alone, table_alone)
