# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls of modules: the modules around every operator, their names, numbers and paths are those of torch, in all environments."""

import json
import os
import subprocess
import sys

import pytest

import environments
from support import ROOT, Tracer, check, load_trace, loss_counters, run_ptbpf
from test_stacks import target


MODULES = {"Net": 1, "TransformerEncoderLayer": 1, "MultiheadAttention": 1, "LayerNorm": 2, "Dropout": 3, "Sequential": 3, "ReLU": 2, "Linear": 7,
           "Recursive": 2, "Dancer": 1}  # with operators, of class Net


def record(p, ws, *options):
    """What the process did without a profiler, as a trace."""
    p.wait_line("^ready")
    with Tracer("attach", "--pid", p.pid, "--with-modules", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table", *options) as t:
        t.wait_attached()
        p.send()
        p.wait_line("^done")
        t.stop((0, 3))
    return load_trace(ws + "/a.json"), t


def profiled(p):
    """The same, as torch.profiler sees it; nothing where it sees no modules."""
    p.send()
    rows = json.loads(p.wait_line("^profiled (.*)").group(1))
    return [dict(zip(("tid", "ts", "dur", "name", "module"), row)) for row in rows or []]


def events_of(trace):
    return [{"tid": e["tid"], "ts": e["ts"], "dur": e["dur"], "name": e["name"], "module": e["args"].get("Python module id"),
             "hierarchy": e["args"].get("Module Hierarchy", "")} for e in trace["traceEvents"]
            if e.get("cat") == "cpu_op" or (e.get("cat") == "python_function" and e["name"].startswith("nn.Module: "))]


def operators(events):
    """{thread: [(operator, [(module, its number), ...] outermost first, hierarchy), ...]}, by what lies in what."""
    threads, found = {}, {}
    for e in events:
        threads.setdefault(e["tid"], []).append(e)
    for tid, row in threads.items():
        around = []
        for e in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
            while around and e["ts"] >= around[-1]["ts"] + around[-1]["dur"]:
                around.pop()
            if e["module"] is None:
                modules = [(m["name"][len("nn.Module: "):], m["module"]) for m in around if m["module"] is not None]
                found.setdefault(tid, []).append((e["name"], modules, e.get("hierarchy")))
            around.append(e)
    return found


def check_hierarchy(rows):
    """The argument is what the slices around the operator say; of backward operators, which lie in none, that of the forward ones."""
    for name, modules, hierarchy in rows:
        want = "".join(f"{m}({m.rsplit('_', 1)[0]})::forward." for m, _ in modules)
        check(hierarchy == want, f"{name} in {modules}: {hierarchy}")
        check(all(m.endswith(f"_{number}") for m, number in modules), f"{modules}")


@pytest.mark.parametrize("env,source", [*((env, "probes") for env in environments.NAMES), ("main", "agent")])
def test_modules(ws, env, source, detail):
    """A transformer, nested containers, recursion, shared modules, two classes of one name, hooks, threads."""
    with target("model,threads", env, source, script="module_work.py") as p:
        trace, t = record(p, ws)
        truth = profiled(p)
    found = operators(events_of(trace))
    check(trace["with_modules"] == 1 and trace["with_stack"] == 1, "switches")
    for rows in found.values():
        check_hierarchy([row for row in rows if row[1]])
    main = found[p.pid]
    names = {m for _, modules, _ in main for m, _ in modules}
    check(names == {f"{kind}_{nr}" for kind, cnt in MODULES.items() for nr in range(cnt)}, f"{names}")
    if truth:
        truth = operators(truth)[p.pid]
        check(len(main) == len(truth), f"{len(main)} operators, {len(truth)} of torch")
        for nr, (got, want) in enumerate(zip(main, truth)):
            check(got[:2] == want[:2], f"operator {nr}\nptbpf  {got}\ntorch  {want}")
    threads = [rows for tid, rows in found.items() if tid != p.pid and any(modules for _, modules, _ in rows)]
    forward = [row for row in main if row[1]]
    check(len(threads) == 4 and all(rows == forward[:len(rows)] for rows in threads), f"{len(threads)} threads with modules")
    detail(f"{len(main)} operators, {'equal to those of torch.profiler' if truth else 'which has no modules here'}; {t.err[-1]}")


def test_exports(ws):
    """Folded stacks, of operators and as sums, name modules as the trace does, flame graphs by their paths."""
    with target("model", script="module_work.py") as p:
        record(p, ws, "--profile-memory")
    for metric in ("self_cpu_time_total", "cpu_memory_allocated"):
        run_ptbpf("export", ws + "/a.ptb", "--format", "stacks", "--metric", metric, "-o", f"{ws}/{metric}", expect=(0, 3))
        with open(f"{ws}/{metric}", encoding="utf-8") as f:
            check(any(";nn.Module:_Net_0;" in line and ";nn.Module:_Linear_0;" in line for line in f), f"no module in the stacks of {metric}")
    run_ptbpf("export", ws + "/a.ptb", "--format", "flamegraph", "-o", ws + "/flame.html", expect=(0, 3))
    with open(ws + "/flame.html", encoding="utf-8") as f:
        text = f.read()
    check('"nn.Module: Net_0"' in text and '"nested.1.2.0 (Linear)"' in text, "no module in the flame graph")


def test_report(ws):
    """Each module has a row with the modules around it, the sums are those of all operators, and nested modules are in the totals."""
    with target("model", script="module_work.py") as p:
        trace, _ = record(p, ws, "--profile-memory")
    done = run_ptbpf("report", ws + "/a.ptb", "--by", "module", "--row-limit", "-1", "--json", expect=(0, 3))
    with open(ws + "/r.json", "w", encoding="utf-8") as f:
        f.write("\n".join(done.out))
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), ws + "/r.json"], check=True)
    with open(ws + "/r.json", encoding="utf-8") as f:
        doc = json.load(f)
    rows = {"/".join(r["path"]): r for r in doc["modules"]}
    hierarchies = {"/".join(m for m, _ in modules) for rows in operators(events_of(trace)).values() for _, modules, _ in rows if modules}
    check(all(any(f"/{path}/" in f"/{h}/" for h in hierarchies) for path in rows if path), f"{set(rows)}\n{hierarchies}")
    check({path.split("/")[-1] for path in rows if path} == {f"{kind}_{nr}" for kind, cnt in MODULES.items() for nr in range(cnt)}, f"{set(rows)}")
    net = rows["Net_0"]["total"]
    inner = rows["Net_0/TransformerEncoderLayer_0"]
    check(net["cpu_time"] > inner["total"]["cpu_time"] > inner["self"]["cpu_time"] > 0, f"{net}\n{inner}")
    check(net["cpu_memory_allocated"] > inner["total"]["cpu_memory_allocated"] > 0, "memory")
    text = "\n".join(run_ptbpf("report", ws + "/a.ptb", "--by", "module", "--sort-by", "cpu_time_total", expect=(0, 3)).out)
    check("layer.self_attn (MultiheadAttention)" in text and "(in no module)" in text, text)
    run_ptbpf("report", ws + "/a.ptb", "--by", "module", "--all-lines", expect=(2,))


def rows_of(capture):
    """What `report --by module` has as JSON, and as text."""
    done = run_ptbpf("report", capture, "--by", "module", "--row-limit", "-1", "--json", expect=(0, 3))
    text = run_ptbpf("report", capture, "--by", "module", "--row-limit", "-1", expect=(0, 3))
    return [r for r in json.loads("\n".join(done.out))["modules"] if r["path"]], text.out


@pytest.mark.parametrize("env,source", [*((env, "probes") for env in environments.NAMES), ("main", "agent")])
def test_paths(ws, env, source):
    """Attribute paths are those of named_modules(), also of shared and recursive modules, and of a module whose call came before its model's."""
    with target("part,model", env, source, script="module_work.py") as p:
        record(p, ws)
        named = json.loads(p.wait_line("^done (.*)").group(1))
    rows, text = rows_of(ws + "/a.ptb")
    got = {r["attribute_path"]: r["path"][-1].rsplit("_", 1)[0] for r in rows}
    called = {path: kind for path, kind in named.items() if path not in ("locals", "layer.self_attn.out_proj")}
    check(got == called and len(rows) == len(called), f"{got}\n{called}")
    check({line.split("  ")[-1] for line in text} >= {"nested.1.2.0 (Linear)", "Net_0"}, f"{text}")


def test_freed(ws, detail):
    """A class takes the place of another one, and so does its module: a name is right or missing, which is counted."""
    with target("freed", script="module_work.py") as p:
        trace, t = record(p, ws)
    adds = [rows for rows in operators(events_of(trace))[p.pid] if rows[0] == "aten::add"]
    check(len(adds) == 400, f"{len(adds)} operators")
    missing = 0
    for nr, (_, modules, _) in enumerate(adds):
        check(not modules or modules[0][0].startswith(f"Class{nr % 50:03d}_"), f"operator {nr} in {modules}")
        missing += not modules
    gone = loss_counters(trace).get("PY_CLASS_GONE", 0)
    check(bool(gone) == bool(missing), f"{missing} modules without a name, {gone} counted")
    detail(f"{missing} of {len(adds)} have no name; {t.err[-1]}")


def test_names(ws):
    """Names that are not ASCII, which torch has not, and a stack that is cut by modules in modules."""
    with target("unicode,deep", script="module_work.py") as p:
        trace, _ = record(p, ws)
    rows = operators(events_of(trace))[p.pid]
    check([m for name, modules, _ in rows if name == "aten::neg" for m, _ in modules] == [m for m in ("Tänzer_0", "踊り子_0", "💃_0") for _ in "ab"],
          f"{rows}")
    cut = [modules for name, modules, _ in rows if name == "aten::relu"]
    check(len(cut) == 1 and len(cut[0]) == 31 and cut[0][-1] == ("ReLU_0", 0), f"{cut}")
    check(loss_counters(trace)["PY_CUT"] > 0, f"{loss_counters(trace)}")


def test_without(ws):
    """Stacks alone name no module."""
    with target("model", script="module_work.py") as p:
        record(p, ws)
        run_ptbpf("attach", "--pid", p.pid, "--with-stack", "-d", "0.1", "-o", ws + "/b.ptb", "--trace", ws + "/b.json", "--no-table", expect=(0, 3))
    done = run_ptbpf("report", ws + "/b.ptb", "--by", "module", expect=(1,))
    check("without --with-modules" in done.text(), done.text())
    trace = load_trace(ws + "/b.json")
    check("with_modules" not in trace and trace["with_stack"] == 1, "switches")
