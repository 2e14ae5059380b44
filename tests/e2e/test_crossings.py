# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Annotations (record_function) begin and end when the program says so, whatever torch opens around these calls, as torch.profiler has
them in the same process. tests/workloads/crossings.py."""

import collections
import os
import subprocess
import sys

import pytest

from agent_target import Window
from support import AGENT, PYTHON, ROOT, WORKLOADS, CommandTarget, check, load_trace, report_json, run_ptbpf, slices, torch_violations

# Of two that cross each other the one that began later ends with the other.
CUT = ("second generator", "coroutine 1", "coroutine 2")
SLACK_US = 8000  # of torch's clock and the load; each annotation has 20 ms


def by_name(trace):
    found = collections.defaultdict(list)
    for e in sorted(slices(trace), key=lambda e: e["ts"]):
        found[e["name"]].append(e)
    return found


def ends(e):
    return e["ts"] + e["dur"]


def same_annotations(truth, ours):
    wrong = []
    for name, events in truth.items():
        for t, o in zip(events, ours[name]):
            if t["cat"] != "user_annotation":
                continue
            cut = "ptbpf.truncated" in o["args"]
            check(cut == (name in CUT), f"{name}: {o}")
            end = min(ends(t), ends(truth["first generator" if "generator" in name else "coroutine 0"][0])) if cut else ends(t)
            if abs(t["ts"] - o["ts"]) > SLACK_US or abs(end - ends(o)) > SLACK_US:
                wrong.append(f"{name}: {o['dur'] / 1e3:.3f} ms, torch {(end - t['ts']) / 1e3:.3f} ms")
    check(not wrong, "; ".join(wrong))


def same_as_torch(truth, trace, detail):
    truth, ours = by_name(truth), by_name(trace)
    differ = {n: f"{len(ours[n])}, torch {len(truth[n])}" for n in {*truth, *ours} if len(ours[n]) != len(truth[n])}
    check(not differ, f"numbers of slices: {differ}")
    same_annotations(truth, ours)
    inner, = ours["inner"]
    check(any(inner["ts"] < e["ts"] and ends(e) < ends(inner) for e in ours["aten::mm"]), "aten::mm is not in inner")
    totals = trace["ptbpf_totals"]["totals"]
    check(totals["truncated_annotations"] == len(CUT) and not totals["unmatched_exits"], f"{totals}")
    cut = collections.Counter(e["name"] for e in slices(trace, cat="cpu_op") if "ptbpf.truncated" in e["args"])
    check(cut["PythonDispatchMode"] == 10 and sum(cut.values()) == totals["truncated_operators"], f"operators that are cut: {cut}")
    detail(f"{sum(map(len, truth.values()))} slices; cut: {dict(cut)}")


def is_sound(path):
    """Nested strictly, each mark counted; and as torch's own validator wants it, where it exists."""
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), path], check=True)
    check(not torch_violations(path), f"{torch_violations(path)}")


@pytest.mark.parametrize("source", ["probes", "agent"])
def test_attach(ws, source, detail):
    env = {"LD_PRELOAD": AGENT} if source == "agent" else None
    with CommandTarget([PYTHON, "-u", os.path.join(WORKLOADS, "crossings.py"), ws + "/torch.json"], env=env) as target:
        target.line("ready")
        with Window(ws, target, "--profile-memory", "--et", ws + "/et.json") as w:
            target.ask("go")
    is_sound(w.path)
    same_as_torch(load_trace(ws + "/torch.json"), w.trace, detail)
    check("Cut where they cross an annotation: 3 annotations" in w.tracer.text(), w.tracer.text())
    rows = {r["key"]: r for r in report_json(w.capture)["rows"]}
    check(rows["inner"]["cpu_total_ns"] >= 20e6 and rows["PythonDispatchMode"]["cpu_total_ns"] < 200e6, f"{rows['inner']}")
    nodes = {n["id"]: n for n in load_trace(ws + "/et.json")["nodes"]}
    parents = [nodes[n["ctrl_deps"]]["name"] for n in nodes.values() if n["name"] == "aten::matmul" and n["ctrl_deps"] in nodes]
    check(parents.count("inner") == 1 and parents.count("forward") == 1 and parents.count("attention") == 2, f"parents of aten::matmul: {parents}")


@pytest.mark.parametrize("options", [("--agent", "off"), ()])
def test_record(ws, options, detail):
    """The program runs everything once before, so that each name is there twice."""
    with open(ws + "/go", "w+", encoding="ascii") as go:
        print("go", file=go, flush=True)
        go.seek(0)
        run_ptbpf("record", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", *options, "--", PYTHON,
                  os.path.join(WORKLOADS, "crossings.py"), ws + "/torch.json", stdin=go)
    trace, truth = load_trace(ws + "/r.json"), load_trace(ws + "/torch.json")
    is_sound(ws + "/r.json")
    begin = min(e["ts"] for e in slices(truth, cat="user_annotation"))
    ours = by_name({"traceEvents": [e for e in slices(trace, cat="user_annotation") if e["ts"] > begin - SLACK_US]})
    truth = by_name({"traceEvents": slices(truth, cat="user_annotation")})
    check({n: len(v) for n, v in ours.items()} == {n: len(v) for n, v in truth.items()}, f"{ours.keys()}, torch {truth.keys()}")
    same_annotations(truth, ours)
    detail(f"{trace['ptbpf_totals']['totals']['slices']} slices")
