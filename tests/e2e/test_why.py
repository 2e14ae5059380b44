# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `ptbpf why` says of running programs with one problem, and of one without."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from support import PYTHON, ROOT, WORKLOADS, Process, Tracer, check, modified_code, report_json, require_root, run_ptbpf, workload


@pytest.mark.parametrize("program, rule", (("slow_loader", "data_loader"), ("item", "synchronisation"), ("steps", None)))
def test_first_cause(ws, program, rule):
    """The live form names the cause first; the capture that it keeps has the same verdict."""
    require_root()
    with workload("planted.py", program) as p:
        p.wait_line("ready")
        live = "\n".join(run_ptbpf("why", "--pid", p.pid, "-d", "3s", "--max-overhead", "off", "-o", ws + "/a.ptb", "--json").out)
    doc = json.loads(live)
    with open(ws + "/why.json", "w", encoding="utf-8") as f:
        f.write(live)
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), ws + "/why.json"], check=True)
    causes = [c["rule"] for c in doc["causes"] if c["rule"] != "cpu_queue"]  # which is true of a busy machine
    check(causes[:1] == ([rule] if rule else []), f"{program}: {doc['causes']}")
    later = json.loads("\n".join(run_ptbpf("why", ws + "/a.ptb", "--json").out))
    check(later["causes"] == doc["causes"], "the capture has another verdict")


def test_budget(ws, detail):
    """Operators, which have probes only where they were called before, end early where these cost much. The rest goes on, so the share is that of the program
    without probes, which is half of what it is with them."""
    require_root()
    with Process([PYTHON, "-u", f"{WORKLOADS}/causes.py", "dispatch"], stdin=subprocess.PIPE) as p:
        p.wait_line("^ready")
        with Tracer("why", "--pid", p.pid, "-d", "6s", "-o", ws + "/a.ptb", "--json") as t:
            t.wait_line("operators end after", "the limit", t.err)
            p.send("begin")
            p.wait_news("^{")
            left = modified_code(p.pid)
            t.expect(0)
        p.send("end")
        said = json.loads(p.wait_news("^({.*)")[1])
        whole = run_ptbpf("why", "--pid", p.pid, "-d", "1s", "--max-overhead", "off", "-o", ws + "/b.ptb")
    doc, facts = json.loads("\n".join(t.out)), report_json(ws + "/a.ptb")
    seconds, target, step = facts["window"]["duration_ns"] / 1e9, facts["targets"][0], doc["step"]
    check(sum(left.values()) <= 8, f"probes are left, and not only those on names of annotations: {left}")
    check(seconds >= 6 and target["unprobed_after_ms"] < 2000 and "operators end" not in "\n".join(whole.err), f"{seconds} s: {target}, {whole.err}")
    own = said["wall_ns"] / said["steps"]
    check(abs(step["mean_ns"] - own) < 0.3 * own, f"{step}, the program: {said}")  # with probes it is twice as much, or more
    causes = [c for c in doc["causes"] if c["rule"] != "cpu_queue"]
    check([c["rule"] for c in causes] == ["dispatch"] and facts["probes"]["attached"] < 1000, f"{facts['probes']}: {doc['causes']}")
    check(abs(causes[0]["share"] - said["share"]) < 0.1 * said["share"] + 0.12, f"{causes[0]}, the program: {said['share']}")
    detail(f"{target['unprobed_after_ms'] / 1e3:.2f} s, {facts['probes']['attached']} probes; {causes[0]['share']:.1%}, the program {said['share']:.1%}")


def test_new_operator(ws):
    """What the process calls for the first time in the window has no probe, and is counted."""
    require_root()
    program = "import torch; x = torch.ones(4)\nfor line in iter(input, ''): (torch.digamma if line == 'new' else torch.neg)(x); print('did', line)"
    with Process([PYTHON, "-u", "-c", program], stdin=subprocess.PIPE) as p:
        p.send("neg")
        p.wait_line("^did neg")
        with Tracer("why", "--pid", p.pid, "-d", "300s", "-o", ws + "/a.ptb") as t:
            t.wait_attached()
            for word in ("new", "neg"):
                p.send(word)
                p.wait_news("^did", since=0, count=2 + (word == "neg"))
            t.signal(signal.SIGINT)
            t.expect(3)
    check("1 operators without probes: their process called them for the first time in the window" in "\n".join(t.err), t.err)
    check([o["key"] for o in report_json(ws + "/a.ptb")["rows"]] == ["aten::neg"], "the operator with a probe")


def verdict(ws, *words):
    """What `why` says of a program of causes.py, and what that says of its steps meanwhile."""
    with Process([PYTHON, "-u", f"{WORKLOADS}/causes.py", *words], stdin=subprocess.PIPE) as p:
        p.wait_line("^ready")
        with Tracer("why", "--pid", p.pid, "-d", "300s", "-o", ws + "/a.ptb", "--json") as t:
            t.wait_attached()
            p.send("begin")
            p.wait_news("^{")
            time.sleep(3)
            p.send("end")
            said = json.loads(p.wait_news("^({.*)")[1])
            t.signal(signal.SIGINT)
            t.expect(0, 3)
    return json.loads("\n".join(t.out)), said


@pytest.mark.parametrize("cause, rule, by", [("gil", "gil", "blocked"), ("read_file", "file_io", "blocked"), ("collector", "garbage_collection", "clock"),
                                             *(pytest.param(name, name, by, marks=pytest.mark.soak)
                                               for name, by in (("sleep", "blocked"), ("lock", "blocked"), ("fresh_memory", "clock")))])
def test_share(ws, cause, rule, by, detail):
    """A cause has the share that the kernel counts, since the thread is blocked by nothing else, or that the program's clock has around it; and the line.
    By samples, of which there are some hundred, within their spread. The model's own memory is fresh, too, which that clock has not."""
    doc, said = verdict(ws, cause)
    own = said["shares"][by] * (1 if by == "blocked" else 1 - said["shares"]["queue"])  # that clock goes on while it waits for a CPU
    found = next((c for c in doc["causes"] if c["rule"] == rule), None)
    slack = 0.1 * own + (0.03 if by == "blocked" else 0.08)
    if not found and own - slack < 0.05:  # WHY_SHARE_MIN
        pytest.skip(f"the machine is busy, and the cause has only {own:.1%} of a step: {said['shares']}")
    check(found, f"{cause}: {doc['causes']}, the program: {said['shares']}")
    check(own - slack < found["share"] < own + slack + 0.2 * (cause == "fresh_memory"), f"{found}, the program: {said['shares']}")
    with open(f"{WORKLOADS}/causes.py", encoding="utf-8") as f:
        marked = next(n for n, text in enumerate(f, 1) if f"# LINE OF {cause}" in text)
    check(any(f"causes.py:{marked + n}" in found["evidence"] for n in (-1, 0, 1)), f"{found['evidence']}, not line {marked}")
    detail(f"{cause}: {found['share']:.1%}, the program {own:.1%}")


def idle_ns():
    with open("/proc/stat", encoding="utf-8") as f:
        return sum(int(line.split()[4]) for line in f if line.startswith("cpu ")) / os.sysconf("SC_CLK_TCK") * 1e9


@pytest.mark.soak
@pytest.mark.parametrize("healthy", (False, True))
def test_one_core(ws, healthy, detail):
    """A large operator has one of several CPUs; in the twin threads of a pool work for it, and their time is charged to operators."""
    begun, idle = time.monotonic_ns(), idle_ns()
    doc, said = verdict(ws, "one_core", *["--healthy"] * healthy)
    idle = (idle_ns() - idle) / (time.monotonic_ns() - begun)
    found = next((c for c in doc["causes"] if c["rule"] == "one_core"), None)
    if healthy:
        check(not found, f"{found}")
        sched = json.loads("\n".join(run_ptbpf("report", "--sched", "--json", ws + "/a.ptb").out))
        pool = sum(t["on_cpu_ns"] for t in sched["threads"] if t["tid"] != said["pid"])
        charged = sum(op["pool_ns"] for op in sched["operators"])
        check(0.8 * pool < charged <= 1.01 * pool, f"{charged} of {pool} ns of the pool are charged")
    elif os.cpu_count() < 2 or idle < 0.7:
        pytest.skip(f"{idle:.1f} CPUs are idle: nothing can be gained")
    else:
        check(found and abs(found["share"] - said["share"]) < 0.1 * said["share"] + 0.03, f"{doc['causes']}, the program: {said['share']}")
        detail(f"{found['share']:.1%}, the program {said['share']:.1%}")


@pytest.mark.parametrize("program", ["workers", *(pytest.param(name, marks=pytest.mark.soak)
                                                   for name in ("mlp", "cnn", "transformer", "lstm", "embedding", "inference", "ranks", "compiled"))])
def test_healthy(ws, program):
    """No rule speaks of a program without a cause. On a busy machine it may wait for a CPU or for its workers; it measures that, too."""
    doc, said = verdict(ws, program)
    own = {"cpu_queue": said["shares"]["queue"], "data_loader": said["shares"]["clock"]}
    causes = [c for c in doc["causes"] if own.get(c["rule"], 0) < 0.7 * c["share"]]
    check(not causes, f"{program}: {causes}, the program: {said['shares']}")
