# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Options and files of arguments and Execution Traces, several recordings of one process, and the messages for captures that
lack what an export needs. tests/torch compares the values."""

import json
import os
import subprocess
import sys

from support import ROOT, Tracer, check, load_trace, report_json, run_ptbpf, slices, workload

ROOT_NODE = "[pytorch|profiler|execution_trace|process]"


def touch(path):
    with open(path, "w"):
        pass


def record_script(ws, *options):
    """One recording of scripted.py, from before its first to after its last operator."""
    go = f"{ws}/go"
    with workload("scripted.py", go) as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", *options) as t:
            t.wait_attached()
            touch(go)
            p.wait_line("done")
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            t.expect(0)  # the window has ended with the target
    os.unlink(go)
    return t


def valid_et(path, *options):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_et.py"), path, *options],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"{path} is not valid:\n{done.stdout}{done.stderr}")
    return load_trace(path)


def named(et, name):
    return [n for n in et["nodes"] if n["name"] == name]


def test_shapes_in_trace(ws):
    record_script(ws, "--record-shapes", "--trace", ws + "/a.json")
    mm = slices(load_trace(ws + "/a.json"), "aten::mm")
    dims = [e["args"].get("Input Dims") for e in mm]
    # (3x3)(3x3), then seven that raise: their arguments are recorded although they did not return
    check(dims == [[[3, 3], [3, 3]]] + [[[2, 3], [2, 3]]] * 7, f"Input Dims of aten::mm are {dims}")
    check(all(e["args"]["ptbpf.unwound"] for e in mm[1:]), "the failing calls are not marked")
    check(mm[0]["args"]["Input type"] == ["float", "float"], str(mm[0]["args"]))
    check(mm[0]["args"]["Input Strides"] == [[3, 1], [3, 1]], str(mm[0]["args"]))
    grouped = run_ptbpf("report", ws + "/a.ptb", "--group-by-input-shape", "--with-flops")
    check(any("Input Shapes" in line and "FLOPs" in line for line in grouped.out), grouped.text())
    check(any("aten::mm" in line and "[[3, 3], [3, 3]]" in line for line in grouped.out), grouped.text())


def test_names_only_has_none(ws):
    """The default mode reads no arguments; a later export that needs them prints a message."""
    record_script(ws, "--trace", ws + "/a.json")
    check(all("Input Dims" not in e["args"] for e in slices(load_trace(ws + "/a.json"))), "shapes without --record-shapes")
    for args in (("report", ws + "/a.ptb", "--group-by-input-shape"),
                 ("export", ws + "/a.ptb", "--format", "et", "-o", ws + "/a.et.json")):
        done = run_ptbpf(*args, expect=1)
        check(any("record" in line and "--" in line for line in done.err), f"no advice:\n{done.text()}")
    check(not os.path.exists(ws + "/a.et.json"), "a file was left")


def test_trace_and_execution_trace_join(ws):
    record_script(ws, "--trace", ws + "/a.json", "--et", ws + "/a.et.json")
    et = valid_et(ws + "/a.et.json", "--chrome", ws + "/a.json")
    ids = sorted(e["args"]["Record function id"] for e in slices(load_trace(ws + "/a.json")))
    rf = sorted(a["value"] for n in et["nodes"] for a in n["attrs"] if a["name"] == "rf_id" and a["value"])
    check(ids == rf, f"{len(ids)} ids in the trace, {len(rf)} in the Execution Trace")
    mm = named(et, "aten::mm")[0]
    check(mm["inputs"]["shapes"] == [[3, 3], [3, 3]] and mm["outputs"]["shapes"] == [[3, 3]], json.dumps(mm))
    check(len(mm["outputs"]["values"][0]) == 6, json.dumps(mm))
    run_ptbpf("export", ws + "/a.ptb", "--format", "et", "-o", ws + "/b.et.json.gz")
    again = valid_et(ws + "/b.et.json.gz")
    check(again["nodes"] == et["nodes"], "the export of the capture differs from the file written at once")


def test_several_recordings(ws):
    """Several recordings of one process, one of them empty: each has its own complete file."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        for k in range(3):
            path = f"{ws}/{k}.et.json"
            run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "--et", path, "--no-table")
            et = valid_et(path)
            # but the one that was running when the window began: its arguments were not recorded
            neg = [n for n in named(et, "aten::neg") if "open_at_attach" not in json.dumps(n["attrs"])]
            check(len(neg) > 100, f"recording {k} has {len(neg)} operators")
            check(len({json.dumps(n["inputs"]["shapes"]) for n in neg}) == 1, "the shapes of one operator differ")
            check(sum(n["name"] == ROOT_NODE and n["id"] == 1 for n in et["nodes"]) == 1, "no root")
        check(p.alive(), "the target died")
    with workload("scripted.py", ws + "/go") as p:
        p.wait_line("ready")
        run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "--et", ws + "/e.et.json", "--no-table", expect=3)
        check([n["name"] for n in valid_et(ws + "/e.et.json")["nodes"]] == [ROOT_NODE], "not empty")


def test_default_names(ws):
    with workload("spin.py") as p:
        p.wait_line("rate")
        run_ptbpf("attach", "--pid", p.pid, "-d", "300ms", "--execution-trace", cwd=ws)
        stems = {n.split(".")[0] for n in os.listdir(ws)}
        ends = sorted(n.split(".", 1)[1] for n in os.listdir(ws))
        check(len(stems) == 1 and ends == ["et.json", "pt.trace.json.gz", "ptb"], f"files: {os.listdir(ws)}")


def test_modes_are_reported(ws):
    """The report names the mode of the recording."""
    record_script(ws, "--execution-trace")
    doc = report_json(ws + "/a.ptb")
    check("full" in json.dumps(doc), "the report does not mention that results were recorded")
