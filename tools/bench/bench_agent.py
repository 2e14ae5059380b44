#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the agent costs an operator, beside kernel probes and torch.profiler, in one run with interleaved rounds.

  sudo tools/bench/bench_agent.py [--python PYTHON] [--agent LIBRARY] [--rounds N] [--aims] [--json FILE] [--check]

Each round has two fresh processes, one as it is and one with the agent, and in the latter every method of recording
once; its added cost is measured against the same process alone, before and after. A time is that of the fastest tenth of
many slices of some ms, in processor time. Prints Markdown with the medians and the spread (quartiles). --aims: only
what the aims compare, so that many rounds take little time; --check: exits 1 where an aim is missed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tools", "bench")]
from bench import Series, Target  # noqa: E402
from support import PTBPF, Tracer, run_ptbpf  # noqa: E402

WORK = ("neg", "transformer")
METHODS = {"agent": [], "agent_open": ["--sample-stacks", "99", "--activities", "cpu"], "agent_shapes": ["--record-shapes"], "agent_full": ["--execution-trace"], "probes": ["--agent", "off"],
        "probes_shapes": ["--agent", "off", "--record-shapes"]}
EMPTY = ("empty", "empty_inputs")
THEIRS = ("profile", "shapes", "observe", *EMPTY)
AIMS = {("agent", "torch.profile"): 0.4, ("agent_shapes", "torch.shapes"): 0.6}
MILLISECONDS = 500
STALL_MS = 1500
CLOCK = "fast_ns"  # of the thread that runs the operators: other work of the machine is not ptbpf's cost


def traced(target, folder, work, method, series):
    """One window of ptbpf around one timing; fails if the source was another one."""
    capture = os.path.join(folder, "a.ptb")
    with Tracer("attach", "--pid", target.proc.pid, "-o", capture, *METHODS[method], "--no-table") as t:
        t.wait_attached()
        answer = target.ask("time", work, MILLISECONDS)
        t.stop((0, 3))
    report = json.loads("\n".join(run_ptbpf("report", capture, "--json", expect=(0, 3)).out))
    used = {a["source"] for a in report.get("agents", ())} or {"probes"}
    if used != {"probes" if method.startswith("probes") else "agent"}:
        raise SystemExit(f"{method}: the source was {used}: {report.get('agents')}")
    ops = report["totals"]["slices"]
    series.add(f"{work}.{method}", answer[CLOCK])
    series.add(f"{work}.{method}.bytes_per_op", os.path.getsize(capture) / max(ops, 1))
    series.add("lost", report["loss"]["lost_records"])


def stalls(target, folder, series):
    """The longest operator while a tracer attaches and detaches."""
    target.ask("stall", "neg", STALL_MS // 2)  # frees what earlier methods left
    series.add("stall.base", target.ask("stall", "neg", STALL_MS)["longest_cpu_ns"])
    for method in ("agent", "agent_shapes", "probes"):
        target.send("stall", "neg", STALL_MS * 2)
        with Tracer("attach", "--pid", target.proc.pid, "-d", "500ms", "-o", os.path.join(folder, "s.ptb"), *METHODS[method],
                    "--no-table") as t:
            t.expect(0, 3)
        series.add(f"stall.{method}", target.answer()["longest_cpu_ns"])


def theirs(target, work, method, series):
    answer = target.ask(method, work, MILLISECONDS if method in EMPTY else 100000 if work == "neg" else 100)
    series.add(f"{work}.torch.{method}", answer[CLOCK])
    if "stop_ns_per_op" in answer:
        series.add(f"{work}.torch.{method}.stop", answer["stop_ns_per_op"])
        series.add(f"{work}.ops", answer["ops_per_unit"])


def round_of(args, series, folder):
    plain, target = Target(args.python), Target(args.python, {"LD_PRELOAD": args.agent})
    for _ in range(2):
        for work in WORK:
            for key, t in (("plain", plain), ("idle", target)):
                series.add(f"{work}.{key}", t.ask("time", work, MILLISECONDS)[CLOCK])
    methods = [w.removeprefix("torch.") for pair in AIMS for w in pair] + [*EMPTY] if args.aims else [*METHODS, *THEIRS]
    for work in WORK:
        before = target.ask("time", work, MILLISECONDS)[CLOCK]
        for method in methods:
            if method in METHODS:
                traced(target, folder, work, method, series)
            else:
                theirs(target, work, method, series)
            key = f"{work}.{method}" if method in METHODS else f"{work}.torch.{method}"
            after = target.ask("time", work, MILLISECONDS)[CLOCK]
            series.add(f"{key}.adds", series.data[key][-1] - (before + after) / 2)
            series.add(f"{work}.base", min(before, after))
            before = after
    if not args.aims:
        stalls(target, folder, series)
    plain.close()
    target.close()


def interval(values):
    """Median, and its confidence interval of about 95 % (order statistics)."""
    values = sorted(values)
    n = len(values)
    reach = max(1, round(0.98 * n ** 0.5))
    low, high = max(0, n // 2 - reach), min(n - 1, (n - 1) // 2 + reach)
    return statistics.median(values), values[low], values[high]


def idle_text(s, work):
    """The idle agent against no agent: pairs of one round."""
    pairs = zip(s.data[f"{work}.idle"], s.data[f"{work}.plain"])
    m, low, high = interval([a / b - 1 for a, b in pairs])
    return f"{100 * m:+.2f} % ({100 * low:+.2f} to {100 * high:+.2f} %)"


def tables(s):
    ops = {work: s.median(f"{work}.ops") for work in WORK}
    titles = {"neg": "`torch.neg` on 4x4", "transformer": "transformer layer, forward, backward, SGD"}
    rows = ["| per operator, us | " + " | ".join(f"{titles[w]} ({ops[w]:.0f})" for w in WORK) + " |", "| --- |" + " --- |" * len(WORK)]

    def row(title, key, scale=True):
        def text(work):
            s.data["tmp"] = [v / (ops[work] if scale else 1) for v in s.data[f"{work}.{key}"]]
            return s.text("tmp", 1e-3, 3)
        if f"neg.{key}" in s.data:
            rows.append(f"| {title} | " + " | ".join(text(w) for w in WORK) + " |")

    row("the program alone", "plain")
    for title, key in (("agent, names: adds", "agent"), ("agent, only which operators are open, `--sample-stacks 99 --activities cpu`: adds", "agent_open"),
                       ("agent `--record-shapes`: adds", "agent_shapes"),
                       ("agent `--execution-trace`: adds", "agent_full"), ("kernel probes, names: add", "probes"),
                       ("kernel probes `--record-shapes`: add", "probes_shapes"),
                       ("`torch.profiler`: adds while recording", "torch.profile"),
                       ("`torch.profiler(record_shapes=True)`: adds while recording", "torch.shapes"),
                       ("`ExecutionTraceObserver`: adds", "torch.observe"),
                       ("a callback that does nothing (torch's own part of all these): adds", "torch.empty"),
                       ("the same, asking for inputs: adds", "torch.empty_inputs")):
        row(title, key + ".adds")
    row("`torch.profiler`: stop and export", "torch.profile.stop", False)
    rows += ["", "| what | " + " | ".join(titles[w] for w in WORK) + " |", "| --- |" + " --- |" * len(WORK)]
    rows.append("| agent loaded, no tracer, against no agent | " + " | ".join(idle_text(s, w) for w in WORK) + " |")
    for (ours, theirs_), aim in AIMS.items():
        rows.append(f"| {ours} / {theirs_} (aim: at most {aim}) | " + " | ".join(ratio_text(s, w, ours, theirs_) for w in WORK) + " |")
    if "neg.agent_open" in s.data:
        rows.append("| agent_open / agent | " + " | ".join(ratio_text(s, w, "agent_open", "agent") for w in WORK) + " |")
    for nothing, theirs_ in zip(("torch.empty", "torch.empty_inputs"), ("torch.profile", "torch.shapes")):
        rows.append(f"| {nothing} / {theirs_} | " + " | ".join(ratio_text(s, w, nothing, theirs_) for w in WORK) + " |")
    rows.append("| capture, bytes per slice, names; shapes | " + " | ".join(
        s.text(f"{w}.agent.bytes_per_op", 1, 1) + "; " + s.text(f"{w}.agent_shapes.bytes_per_op", 1, 1) for w in WORK) + " |")
    if "stall.base" in s.data:
        rows += stall_rows(s)
    rows += ["", f"records lost: {s.text('lost', 1, 0)}"]
    return rows


def stall_rows(s):
    rows = ["", "| longest `torch.neg`, processor time, us | median (quartiles) |", "| --- | --- |"]
    for key, title in (("base", "no tracer"), ("agent", "a window by the agent begins and ends"),
                       ("agent_shapes", "the same with shapes"), ("probes", "a window by kernel probes begins and ends")):
        rows.append(f"| {title} | {s.text('stall.' + key, 1e-3, 0)} |")
    return rows


def ratio(s, work, ours, theirs_, rounds=slice(None)):
    """Of the lowest addition of each in any round, because other work of the machine only makes times longer."""
    def least(key):
        return min(s.data[f"{work}.{key}"][rounds])

    base = min(least("plain"), least("idle"), least("base"))
    return (least(ours) - base) / max(least(theirs_) - base, 1)


def ratio_text(s, work, ours, theirs_):
    """The ratio, and those of the odd and the even rounds alone."""
    both = sorted(ratio(s, work, ours, theirs_, slice(k, None, 2)) for k in (0, 1)) if len(s.data[f"{work}.{ours}"]) > 1 else []
    return f"{ratio(s, work, ours, theirs_):.2f}" + (f" ({both[0]:.2f}-{both[1]:.2f})" if both else "")


def missed(s):
    """Aims that are missed."""
    out = []
    for (ours, theirs_), aim in AIMS.items():
        for work in WORK:
            got = ratio(s, work, ours, theirs_)
            if got > aim:
                out.append(f"{work}: {ours} adds {got:.2f} of what {theirs_} adds, aim {aim}")
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--python", default=sys.executable)
    ap.add_argument("--agent", default=os.path.join(os.path.dirname(os.path.realpath(PTBPF)), "libptbpf_agent.so"))
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--aims", action="store_true")
    ap.add_argument("--json")
    ap.add_argument("--check", action="store_true")
    args = ap.parse_args()
    series = Series()
    with tempfile.TemporaryDirectory(prefix="ptbpf-bench-") as folder:
        for k in range(args.rounds):
            round_of(args, series, folder)
            print(f"round {k + 1} of {args.rounds}", file=sys.stderr)
    torch = subprocess.run([args.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                           check=True).stdout.strip()
    print(f"Linux {platform.release()}, {os.cpu_count()} CPUs, torch {torch}, {args.rounds} interleaved rounds; median (quartiles)\n")
    print("\n".join(tables(series)))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(series.data, f, indent=1)
    late = missed(series)
    print("\n".join(["", *late]) if late else "\nall aims are met")
    sys.exit(1 if late and args.check else 0)


if __name__ == "__main__":
    main()
