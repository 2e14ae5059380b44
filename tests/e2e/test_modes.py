# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Other ways to run: perf-event uprobes, --dry-run, --children, record, report and export afterwards, the programs that
measure the cost."""

import functools
import json
import os
import subprocess
import sys

import pytest

from support import PYTHON, ROOT, WORKLOADS, Tracer, check, load_trace, run_ptbpf, slices, workload, workspace

SCRIPT = os.path.join(WORKLOADS, "scripted.py")


def names(doc, pid=None):
    return [(e["name"], e["cat"]) for e in sorted(slices(doc, pid=pid), key=lambda e: (e["ts"], -e["dur"]))]


def touch(path):
    with open(path, "w"):
        pass


def scripted(ws, name, *options):
    """Names of the scripted target's slices, attached before its first operator."""
    with workload("scripted.py", f"{ws}/{name}.go") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-o", f"{ws}/{name}.ptb", "--trace", f"{ws}/{name}.json", *options) as t:
            t.wait_attached()
            touch(f"{ws}/{name}.go")
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            t.expect(0)
    return load_trace(f"{ws}/{name}.json")


@functools.lru_cache(maxsize=1)
def plain():
    """Names of the slices without options, and the capture's bytes."""
    with workspace() as ws:
        got = names(scripted(ws, "plain"))
        with open(ws + "/plain.ptb", "rb") as f:
            return got, f.read()


def test_perf_uprobes(ws, detail):
    """The older kernel interface gives the same slices."""
    multi, perf = plain()[0], names(scripted(ws, "perf", "--perf-uprobes"))
    check(multi == perf, f"{len(multi)} slices and {len(perf)} with --perf-uprobes")
    detail(f"{len(multi)} slices equal")


def test_record(ws):
    """From the first operator on, with the exit status and the output of the program."""
    attached, _ = plain()
    done = run_ptbpf("record", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--", PYTHON, SCRIPT)
    check("done" in done.out, f"the program's output is gone\n{done.text()}")
    got = names(load_trace(ws + "/r.json"))
    first = got.index(attached[0])
    check(got[first:] == attached, f"record has {len(got) - first} slices, attach {len(attached)}")
    check(first < 200, f"{first} slices before the first part")


def test_record_failures(ws):
    """The program's own exit status is reported; a program that does not exist is an error."""
    run_ptbpf("record", "-o", ws + "/a.ptb", "--", "/no/such/program", cwd=ws, expect=1)
    code = "import torch, sys; torch.ones(2); sys.exit(7)"
    done = run_ptbpf("record", "-o", ws + "/b.ptb", "--trace", ws + "/b.json", "--", PYTHON, "-c", code, cwd=ws,
                     expect=(0, 1, 3, 7))
    check("7" in "\n".join(done.err) or done.proc.returncode == 7, f"the program's status is not reported\n{done.text()}")
    check(slices(load_trace(ws + "/b.json"), "aten::ones"), "no operators of a program that failed")


def test_dry_run(ws):
    """Every probe and refusal is shown; nothing is attached or written."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "--dry-run", cwd=ws)
        text = "\n".join(done.out)
        check("aten::neg" in text and "evaluate_function" in text, f"the plan is not shown:\n{text[:500]}")
        check(len(done.out) > 3000, f"only {len(done.out)} lines of plan")
        check(not os.listdir(ws), f"--dry-run wrote {os.listdir(ws)}")


def test_children(ws):
    """--children: data loader workers of a training loop, including those that exist already."""
    with workload("train_loop.py", 0, 2) as p:
        p.wait_line("step 20")
        with Tracer("attach", "--pid", p.pid, "--children", "-d", "2s", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            t.expect(0, 3)
        doc = load_trace(ws + "/a.json")
        pids = {e["pid"] for e in slices(doc)}
        check(p.pid in pids and len(pids) >= 3, f"processes in the trace: {sorted(pids)}, parent {p.pid}")
        workers = {e["name"] for e in slices(doc) if e["pid"] != p.pid}
        check("aten::stack" in workers, f"no collation in the workers: {sorted(workers)[:20]}")
        named = {e["pid"] for e in doc["traceEvents"] if e.get("ph") == "M" and e["name"] == "process_name"}
        check(pids <= named, "a process has no name in the trace")
        p.wait_news(r"step \d+")
        check(p.alive(), "the training loop died")


def test_again_from_capture(ws):
    """report and export need no target, and give the same output as attach."""
    live, content = plain()
    capture = ws + "/live.ptb"
    with open(capture, "wb") as f:
        f.write(content)
    run_ptbpf("export", capture, "--format", "chrome", "-o", ws + "/again.json")
    check(names(load_trace(ws + "/again.json")) == live, "export differs from the trace of attach")
    run_ptbpf("export", capture, "--format", "chrome", "-o", ws + "/again.json.gz")
    with open(ws + "/again.json.gz", "rb") as f:
        check(f.read(2) == b"\x1f\x8b", "a name that ends in .gz is not compressed")
    check(names(load_trace(ws + "/again.json.gz")) == live, "the compressed export differs")
    done = run_ptbpf("report", capture, "--json", "--sort-by", "count")
    text = json.dumps(json.loads("\n".join(done.out)))
    check("aten::neg" in text and "100" in text, "the report lacks the operators")
    short = run_ptbpf("report", capture, "--row-limit", "2", "--sort-by", "count")
    long = run_ptbpf("report", capture, "--row-limit", "-1")
    check(len(short.out) < len(long.out), "--row-limit has no effect")


@pytest.mark.soak
@pytest.mark.parametrize("program, text", (("bench.py", "torch.profiler"), ("bench_agent.py", "torch.profiler"), ("bench_sample.py", "between windows")))
def test_bench(program, text):
    """One round of each prints its tables."""
    done = subprocess.run([sys.executable, f"{ROOT}/tools/bench/{program}", "--rounds", "1", "--python", PYTHON],
                          capture_output=True, text=True, timeout=900, errors="replace")
    check(done.returncode == 0 and text in done.stdout, done.stderr[-2000:])
    check("| - |" not in done.stdout, f"figures are missing\n{done.stdout}")
