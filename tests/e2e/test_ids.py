# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Files of one capture that are read together: ids, the recording's options, and which steps are complete."""

import itertools
import json
import re

from support import Tracer, check, load_trace, run_ptbpf, slices, workload

STEP = re.compile(r"ProfilerStep#(\d+)")
PARTIAL = "partial step"


def touch(path):
    with open(path, "w"):
        pass


def record(ws, *options):
    with workload("scripted.py", ws + "/go") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", *options) as t:
            t.wait_attached()
            touch(ws + "/go")
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            t.expect(0)
    return t


def export(ws, kind, *options):
    out = f"{ws}/x.{kind}.json"
    run_ptbpf("export", ws + "/a.ptb", "--format", kind, "-o", out, *options)
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def chrome_ids(doc):
    """Id -> name and thread of every operator and annotation of the program; ids of derived steps."""
    ours, steps = {}, {}
    for e in slices(doc):
        args = e["args"]
        check(args["External id"] == args["Record function id"] > 0, f"ids of {e}")
        where = steps if args.get("ptbpf.derived") else ours
        check(args["External id"] not in where, f"two slices have one id: {e}")
        where[args["External id"]] = e["name"], e["tid"]
    return ours, steps


def et_nodes(doc):
    return {n["id"]: dict(n, **{a["name"]: a["value"] for a in n["attrs"]}) for n in doc["nodes"]}


def et_ids(doc):
    ours, steps = {}, {}
    for n in et_nodes(doc).values():
        if not n["rf_id"]:
            continue
        where = steps if "derived" in n.get("ptbpf.note", "") else ours
        check(n["rf_id"] not in where, f"two nodes have one rf_id: {n['name']}")
        where[n["rf_id"]] = n["name"], None
    return ours, steps


def test_ids_belong_to_records(ws):
    """Every pair of exports with different options: each id belongs to the same operator, none to a step."""
    record(ws, "--step-on", "aten::sum", "--et", ws + "/live.et.json", "--trace", ws + "/live.json", "--profile-memory",
           "--no-table")
    with open(ws + "/live.et.json", encoding="utf-8") as f:
        live_et = json.load(f)
    files = {"live trace": chrome_ids(load_trace(ws + "/live.json")), "live et": et_ids(live_et)}
    nodes = {"live et": et_nodes(live_et)}
    for options in ((), ("--no-steps",), ("--step-on", "Optimizer.step"), ("--step-on", "aten::neg")):
        files[" ".join(("chrome",) + options)] = chrome_ids(export(ws, "chrome", *options))
        doc = export(ws, "et", *options, "--pid", str(live_et["pid"]))
        files[" ".join(("et",) + options)] = et_ids(doc)
        nodes[" ".join(("et",) + options)] = et_nodes(doc)
    for (a, (ours_a, steps_a)), (b, (ours_b, steps_b)) in itertools.combinations(files.items(), 2):
        check(ours_a.keys() == ours_b.keys(), f"{a} and {b}: {len(ours_a.keys() ^ ours_b.keys())} ids are in one of them only")
        other = [(i, ours_a[i][0], ours_b[i][0]) for i in ours_a if ours_a[i][0] != ours_b[i][0] or
                 (None not in (ours_a[i][1], ours_b[i][1]) and ours_a[i] != ours_b[i])]
        check(not other, f"{a} and {b}: {len(other)} of {len(ours_a)} ids name another operator: {other[:3]}")
        check(not (steps_a.keys() & ours_b.keys() or steps_b.keys() & ours_a.keys()), f"{a}, {b}: a step has an operator's id")
    check([len(files[f][1]) for f in ("chrome", "et", "chrome --step-on aten::neg")] == [5, 5, 2], "numbers of steps")
    check(not files["chrome --no-steps"][1] and not files["et --no-steps"][1], "steps in spite of --no-steps")
    for (a, na), (b, nb) in itertools.combinations(nodes.items(), 2):  # nodes and tensors too
        both = [i for i in na.keys() & nb.keys() if "derived" not in na[i].get("ptbpf.note", "") + nb[i].get("ptbpf.note", "")]
        bad = [i for i in both if (na[i]["name"], na[i]["rf_id"], na[i]["inputs"]) != (nb[i]["name"], nb[i]["rf_id"], nb[i]["inputs"])]
        check(not bad, f"{a} and {b}: {len(bad)} nodes are others: {[na[i]['name'] for i in bad[:3]]}")


def test_options_are_kept(ws):
    """Reports and exports show what was recorded by default; an option overrides that."""
    t = record(ws, "--step-on", "aten::sum", "--group-by-input-shape", "--with-flops", "--sort-by", "count",
               "--row-limit", "3", "--profile-memory", "--exact-memory")
    live, later = "\n".join(t.out), "\n".join(run_ptbpf("report", ws + "/a.ptb").out)
    check(live.strip() == later.strip(), f"report shows another table than the recording did:\n{live}\n{later}")
    check("Input Shapes" in later and "FLOPs" in later, f"no shapes or operations:\n{later}")
    rows = run_ptbpf("report", ws + "/a.ptb", "--no-group-by-input-shape", "--no-with-flops", "--sort-by", "none",
                     "--row-limit", "-1").out
    text = "\n".join(rows)
    check("Input Shapes" not in text and "FLOPs" not in text and len(rows) > 10, f"options do not prevail:\n{text}")
    steps = [e for e in slices(export(ws, "chrome")) if e["args"].get("ptbpf.derived")]
    check(len(steps) == 5, f"{len(steps)} derived steps from 4 aten::sum")
    check(not [e for e in slices(export(ws, "chrome", "--no-steps")) if e["args"].get("ptbpf.derived")], "--no-steps does nothing")
    run_ptbpf("export", ws + "/a.ptb", "--format", "chrome", "--no-steps", "--step-on", "x", expect=(2,))


def replayed(nodes):
    """The operators that et_replay runs: those of the first step, by id (et_replay/tools/et_replay.py, extract_subgraph)."""
    steps = sorted(i for i, n in nodes.items() if "ProfilerStep#" in n["name"])
    check(len(steps) > 1, f"{len(steps)} steps for et_replay")
    return {i: n for i, n in nodes.items() if n["op_schema"] and steps[0] < i < steps[1]}


def test_first_step_is_whole(ws):
    """Partial steps are not named as steps; et_replay takes the first complete one, on all threads."""
    record(ws, "--et", ws + "/a.et.json", "--trace", ws + "/a.json", "--no-table")
    doc = load_trace(ws + "/a.json")
    steps = sorted((e for e in slices(doc) if e["args"].get("ptbpf.derived")), key=lambda e: e["ts"])
    names = [e["name"] for e in steps]
    check(names == [PARTIAL, "ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2", PARTIAL], f"steps: {names}")
    check([bool(e["args"].get("ptbpf.partial")) for e in steps] == [n == PARTIAL for n in names], "marks of partial steps")
    check(doc["ptbpf_totals"]["totals"]["partial_steps"] == 2, "the account of partial steps")
    with open(ws + "/a.et.json", encoding="utf-8") as f:
        nodes = et_nodes(json.load(f))
    ran = [n["name"] for n in replayed(nodes).values()]
    step = next(e for e in steps if e["name"] == "ProfilerStep#0")
    inside = [e["name"] for e in slices(doc) if step["ts"] < e["ts"] < step["ts"] + step["dur"] and e["name"].startswith("aten::")]
    check(sorted(n for n in ran if n.startswith("aten::")) == sorted(inside),
          f"et_replay would run {len(ran)} operators of {len(inside)} of the step")
    check("aten::sum" in inside and inside.count("aten::mul") >= 1, f"the step: {inside}")
