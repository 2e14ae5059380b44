# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--sample-stacks: what samples say of threads is what the threads did, and nothing is probed for it."""

import collections
import glob
import json
import math
import os
import re
import subprocess

import pytest

from support import AGENT, PYTHON, WORKLOADS, Process, Tracer, check, load_trace, loss_counters, run_ptbpf, slices, wait_for, workload

HZ = 99
WAIT_HZ = 25  # of threads that do not run
STATES = ("running", "waiting for a CPU", "blocked")


def target(*args, python=PYTHON):
    return workload("sample_work.py", *args, stdin=subprocess.PIPE, python=python)


def answer(p, word):
    return json.loads(p.wait_line(f"^{word} (.*)").group(1))


def samples_of(trace):
    """{thread: {state: {function: seconds}}}"""
    found = collections.defaultdict(lambda: {s: collections.Counter() for s in STATES})
    for e in trace["traceEvents"]:
        if e.get("cat") == "python_sample":
            name = e["name"].rsplit(": ", 1)[-1]
            found[e["tid"]][e["args"]["ptbpf.state"]][name] += e["args"]["ptbpf.stands_for_us"] / 1e6
    return found


def export(ws, name="a"):
    run_ptbpf("export", f"{ws}/{name}.ptb", "--format", "chrome", "-o", f"{ws}/{name}.json", expect=(0, 3))
    return load_trace(f"{ws}/{name}.json")


def cpu_seconds(pid, tids):
    used = {}
    for name, tid in tids.items():
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
            used[name] = int(f.read().split()[0]) / 1e9
    return used


def links_of(pid):
    """Types of the BPF links that a process holds."""
    kinds = collections.Counter()
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            with open(path, encoding="ascii") as f:
                kinds.update(re.findall(r"^link_type:\s*(\S+)", f.read(), re.MULTILINE))
        except OSError:
            pass
    return kinds


def record(ws, p, seconds):
    """Thread ids, and the processor time that each thread took while it was sampled, of which some took so many seconds."""
    tids = answer(p, "ready")
    with Tracer("attach", "--pid", p.pid, "--sample-stacks", HZ, "-o", ws + "/a.ptb", "--no-table") as t:
        t.wait_attached()
        before = cpu_seconds(p.pid, tids)
        links = links_of(t.proc.pid)
        p.send("late")
        tids = answer(p, "late")
        wait_for(lambda: all(cpu_seconds(p.pid, tids)[name] - before.get(name, 0) > seconds for name in ("spin", "native", "late")), "the threads to run")
        after = cpu_seconds(p.pid, tids)
        t.stop((0, 3))
    return tids, {n: after[n] - before.get(n, 0) for n in tids}, links


@pytest.mark.parametrize("python", sorted({PYTHON, "/usr/bin/python3"}))
def test_known_threads(ws, python, detail):
    """A thread that spins, one that sleeps, one that waits for it, one in native code without the interpreter's lock, tasks, and
    one that begins later."""
    with target(python=python) as p:
        tids, used, links = record(ws, p, 1)
    trace = export(ws)
    found = samples_of(trace)
    late = loss_counters(trace).get("SAMPLES_LATE", 0)
    named = {e["tid"]: e["args"].get("ptbpf.name") for e in trace["traceEvents"] if e["name"] == "thread_name"}
    check(all(named[tid] == name for name, tid in tids.items()), f"names {named} of {tids}")
    window = trace["ptbpf"]["window"]["duration_ns"] / 1e9
    check(not {k for k in links if "uprobe" in k or "kprobe" in k}, f"links {links}")
    check(not loss_counters(trace).get("PROBES"), "probes were attached")
    for name, function in (("sleeper", "sleep_with_lock"), ("waiter", "wait_for_lock")):
        got = found[tids[name]]
        check(not got["running"] and not got["waiting for a CPU"], f"{name}: {got}")
        check(set(got["blocked"]) == {function}, f"{name}: {got}")
        total = sum(got["blocked"].values())
        check(abs(total - window) <= 3 / WAIT_HZ, f"{name}: {total} s of {window} s")  # late ones are made up for: it did not run
    for name, functions in (("spin", {"spin"}), ("late", {"spin"}), ("native", {"native"}), ("tasks", None)):
        got = found[tids[name]]["running"]
        total = sum(got.values())
        wanted = used[name] * HZ
        slack = 6 * math.sqrt(wanted + 1) + 0.1 * wanted + late
        check(abs(total * HZ - wanted) <= slack, f"{name}: {total * HZ:.0f} samples, {wanted:.0f} by its processor time")
        if functions:
            inside = sum(got[f] for f in functions)
            check(inside >= 0.9 * total, f"{name}: {got}")
    got = found[tids["tasks"]]
    check(got["running"]["busy_task"] >= 0.6 * sum(got["running"].values()), f"tasks: {got}")
    check(got["blocked"]["select"] > 0, f"tasks: {got}")
    detail(", ".join(f"{n} {sum(found[tids[n]]['running'].values()):.2f} of {used[n]:.2f} s" for n in tids) + f"; late {late}")


def test_outputs(ws):
    """The report, folded stacks and the flame graph have the same sums."""
    with target() as p:
        record(ws, p, 0.3)
    report = json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--json", expect=(0, 3)).out))
    rows = {(r["function"]): r["self"] for r in report["lines"]}
    trace = samples_of(export(ws))
    for key, states in (("sampled_cpu_time", ("running",)), ("sampled_wait_time", STATES[1:])):
        total = sum(sum(t[s].values()) for t in trace.values() for s in states)
        check(abs(report["sums"][key] / 1e9 - total) < 1e-3, f"{key}: {report['sums'][key]}, {total} in the trace")
    check(rows["sleep_with_lock"]["sampled_cpu_time"] == 0, f"{rows}")
    run_ptbpf("export", ws + "/a.ptb", "--format", "stacks", "-o", ws + "/s.txt", expect=(0, 3))
    with open(ws + "/s.txt", encoding="utf-8") as f:
        folded = sum(int(line.rsplit(" ", 1)[1]) for line in f)
    check(0 < folded <= report["sums"]["sampled_cpu_time"] / 1000, f"{folded} us")
    run_ptbpf("export", ws + "/a.ptb", "--format", "flamegraph", "-o", ws + "/f.html", expect=(0, 3))
    with open(ws + "/f.html", encoding="utf-8") as f:
        check("sampled time on a CPU" in f.read(), "no such figure")


@pytest.mark.parametrize("options", [(), ("--children",)])
def test_churn(ws, options, detail):
    """Threads, processes and programs that begin and end, and exceptions: the program computes what it does alone."""
    def run(trace):
        with target("churn") as p:
            p.wait_line("^ready")
            if not trace:
                p.send()
                p.wait_line("^executed")
                return [line for line in p.out if line != "ready"], None
            with Tracer("attach", "--pid", p.pid, "--sample-stacks", 999, "-o", ws + "/a.ptb", "--no-table", *options) as t:
                t.wait_attached()
                p.send()
                p.wait_line("^executed")
                t.expect(0, 3)
                return [line for line in p.out if line != "ready"], t
    alone, _ = run(False)
    traced, t = run(True)
    check(alone == traced, f"{alone} alone, {traced} sampled")
    trace = export(ws)
    pids = {e["pid"] for e in trace["traceEvents"] if e.get("cat") == "python_sample"}
    check(len(pids) > 1 if options else len(pids) == 1, f"samples of {len(pids)} processes")
    detail(f"{len(pids)} processes; {t.err[-1]}")


def test_record(ws):
    """Without PyTorch, from the moment that Python runs; a program that never runs Python has a sentence."""
    code = "import time\nt = time.monotonic() + 2\ndef busy():\n  while time.monotonic() < t: pass\nbusy()"
    run_ptbpf("record", "--sample-stacks", "99", "-o", ws + "/a.ptb", "--no-table", "--", PYTHON, "-c", code, expect=(0, 3))
    times = collections.Counter()
    for t in samples_of(export(ws)).values():
        times.update(t["running"])
    check(times["busy"] > 0.5 * sum(times.values()), f"{times}")
    done = run_ptbpf("record", "--sample-stacks", "99", "-o", ws + "/b.ptb", "--", "/bin/sleep", "1", expect=1)
    check(any("exited before Python ran" in line for line in done.err), f"{done.err}")


def test_usage(ws):
    for words, text in ((("--sample-stacks", "0.5"), "not a valid value"), (("--sample-stacks=-1",), "1 to 1000"),
                        (("--sample-stacks", "1001"), "1 to 1000"), (("--sample-stacks", "99", "--with-stack"), "excludes --with-stack"),
                        (("--sample-stacks", "99", "--profile-memory"), "excludes --profile-memory"),
                        (("--sample-stacks", "99", "--with-samples"), "excludes --with-samples"), (("--with-samples=1001",), "1 to 1000")):
        done = run_ptbpf("attach", "--pid", "1", *words, "-o", ws + "/a.ptb", expect=2)
        check(any(text in line for line in done.err), f"{words}: {done.err}")
    with Process(["/bin/cat"], stdin=subprocess.PIPE) as p:
        done = run_ptbpf("attach", "--pid", p.pid, "--sample-stacks", "99", "-o", ws + "/a.ptb", expect=1)
    check(any("no Python interpreter" in line for line in done.err), f"{done.err}")


def operators_of(trace):
    return collections.Counter((e["name"], e["tid"], e["args"].get("Call stack")) for e in slices(trace, cat="cpu_op"))


@pytest.mark.parametrize("source", ["uprobes", "agent"])
def test_beside_operators(ws, source, detail):
    """--with-samples: operators are those of a window without samples; samples name the line of the time outside of them."""
    options = ("--with-stack",) if source == "agent" else ("--agent", "off")
    names = {}
    with workload("nap_work.py", stdin=subprocess.PIPE, env={"LD_PRELOAD": AGENT} if source == "agent" else {}) as p:
        p.wait_line("^ready")
        for name, more in (("without", ()), ("a", ("--with-samples", HZ))):
            with Tracer("attach", "--pid", p.pid, *options, *more, "-o", f"{ws}/{name}.ptb", "--no-table") as t:
                t.wait_attached()
                p.send()
                took = json.loads(p.wait_news("^done (.*)").group(1))
                t.stop((0, 3))
            names[name] = operators_of(export(ws, name))
    check(names["a"] == names["without"] and len(names["a"]) >= 2, f"{names}")
    report = json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--by", "line", "--json", expect=(0, 3)).out))
    with open(os.path.join(WORKLOADS, "nap_work.py"), encoding="utf-8") as f:
        lines = {n: line.split("# LINE OF THE ")[1].strip().lower() for n, line in enumerate(f, 1) if "# LINE OF THE " in line}
    found = {lines.get(r["line"], r["line"]): r["self"]["cpu_time"] / 1e9 for r in report["lines"] if r["function"] == "(Python, outside operators)"}
    trace = export(ws)
    sampled = sum(state["nap"] for t in samples_of(trace).values() for state in t.values())
    slack = 0.1 * took["nap"] + loss_counters(trace).get("SAMPLES_LATE", 0) / HZ
    for what, seconds in (("the report", found["nap"]), ("samples", sampled)):
        check(abs(seconds - took["nap"]) <= slack, f"{what}: {seconds} s of {took}, {found}, slack {slack} s")
    detail(f"nap {found['nap']:.2f}, sampled {sampled:.2f} of {took['nap']:.2f} s; loop {found.get('loop', 0):.2f} of {took['loop']:.2f} s")


MANY = """
import sys, threading
threading.stack_size(65536)
done = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=done.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def test_thousands_of_threads(ws, detail):
    """Of one process no more threads that do not run are sampled than half of the limit; the samples that this lacks are counted."""
    threads, limit = 6000, 8192 // 2
    with Process([PYTHON, "-c", MANY, str(threads)], stdin=subprocess.PIPE) as p:
        p.wait_line("ready")
        run_ptbpf("attach", "--pid", p.pid, "--sample-stacks", HZ, "-d", "1s", "-o", ws + "/a.ptb", "--no-table", expect=3)
    trace = export(ws)
    tids = {e["tid"] for e in trace["traceEvents"] if e.get("cat") == "python_sample"}
    left_out = loss_counters(trace)["OVER_THREADS"]
    check(limit - 2 <= len(tids) <= limit, f"samples of {len(tids)} threads")
    runs = left_out / (threads + 1 - limit)
    check(left_out > 0 and abs(runs - round(runs)) < 0.01, f"{left_out} samples left out, of {runs} runs")
    detail(f"{runs:.0f} runs, {left_out} samples left out")


def test_dump(ws):
    """Where each thread is, on standard output; no file is left."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        for words in ((p.pid,), ("--pid", p.pid)):
            text = "\n".join(run_ptbpf("dump", *words, "-d", "500ms", cwd=ws, expect=(0, 3)).out)
            check(re.search(rf"^thread {p.pid} .*(running|blocked|waiting)", text, re.M) and "spin.py:" in text and "C++:" in text, text)
        check(not os.listdir(ws), f"left behind: {os.listdir(ws)}")
