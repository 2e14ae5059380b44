# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--sample-stacks in a process with the agent: the operator that samples name is the one that the thread is in."""

import collections
import json
import os
import subprocess

import pytest

from support import AGENT, PYTHON, Tracer, check, load_trace, loss_counters, run_ptbpf, slices, wait_for, workload
from agent_target import semaphores
from test_agent import patched

HZ = 199


def target(*args, agent=AGENT):
    return workload("open_ops.py", *args, stdin=subprocess.PIPE, env={"LD_PRELOAD": agent} if agent else {})


def threads_of(p):
    return set(map(int, os.listdir(f"/proc/{p.pid}/task")))


def tids_of(p, word):
    return {tid: name for name, tid in json.loads(p.wait_line(f"^{word} (.*)").group(1)).items()}


def export(ws):
    run_ptbpf("export", ws + "/a.ptb", "--format", "chrome", "-o", ws + "/a.json", expect=(0, 3))
    return load_trace(ws + "/a.json")


def operators(trace, tids):
    """{thread: {(state, innermost function, operator): samples}}; operator None: not known."""
    found = collections.defaultdict(collections.Counter)
    for e in trace["traceEvents"]:
        if e.get("cat") == "python_sample":
            key = e["args"]["ptbpf.state"], e["name"].rsplit(": ", 1)[-1], e["args"].get("ptbpf.operator")
            found[tids.get(e["tid"], "other")][key] += 1
    return found


def cpu_seconds(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


def times_run(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[2])


def record(ws, p, *options, seconds=0.5):
    """Until each of the threads that work has run so long, and those that mostly wait a few times."""
    tids = tids_of(p, "running")
    with Tracer("attach", "--pid", p.pid, "--sample-stacks", HZ, "--activities", "cpu", "-o", ws + "/a.ptb", "--no-table", *options) as t:
        t.wait_attached()
        p.send()
        tids = tids_of(p, "more")
        busy = [tid for tid, name in tids.items() if name in ("multiply", "nested", "backward")]
        before = {tid: cpu_seconds(p.pid, tid) for tid in busy}
        outside, = (tid for tid, name in tids.items() if name == "outside")
        runs = times_run(p.pid, outside)
        wait_for(lambda: all(cpu_seconds(p.pid, tid) - before[tid] > seconds for tid in busy) and times_run(p.pid, outside) > runs + 4,
                "the threads to run")
        t.stop((0, 3))
    return tids


def is_asked(pid):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        mem.seek(semaphores(pid)["open"])
        return mem.read(2) != b"\0\0"


def states(counts, *wanted):
    """{operator: samples} of samples in a state of these."""
    sums = collections.Counter()
    for (state, _, op), n in counts.items():
        if state in wanted:
            sums[op] += n
    return sums


def test_known_operators(ws, detail):
    """Each thread is in the operators that it is known to be in, and in no other."""
    with target() as p:
        tids = record(ws, p)
    trace = export(ws)
    found = operators(trace, tids)
    check(not loss_counters(trace).get("PROBES"), "probes were attached")
    # addmm copies the bias first.
    for name, ops, share in (("multiply", ["aten::mm"], 0.9), ("nested", ["aten::addmm", "aten::copy_"], 0.9), ("backward", ["aten::mm"], 0.5)):
        ran = states(found[name], "running")
        check(ran[ops[0]] >= 0.5 * sum(ran.values()) and sum(ran[op] for op in ops) >= share * sum(ran.values()) > 0, f"{name}: {ran}")
    unknown = {op for op in states(found["multiply"], "running", "waiting for a CPU", "blocked") if op not in (None, "(none)", "aten::mm", "aten::resolve_conj")}
    check(not unknown, f"multiply: {unknown}")
    allowed = {None, "(none)", "aten::linear", "aten::addmm", "aten::t", "aten::transpose", "aten::as_strided", "aten::expand", "aten::copy_",
            "aten::resolve_conj"}
    check(set(states(found["nested"], "running", "blocked")) <= allowed, f"nested: {found['nested']}")
    raised = {op for (_, function, op) in found["raising"] if function == "spin"}
    check("(none)" in raised and raised <= {None, "(none)"}, f"after exceptions: {raised}")
    waits = collections.Counter({op: n for (state, function, op), n in found["outside"].items() if state == "blocked" and function in ("wait", "outside")})
    check(set(waits) <= {None, "(none)"} and waits["(none)"], f"outside: {waits}")
    check(set(states(found["idle"], "running", "blocked")) == {None}, f"idle: {found['idle']}")
    hangs = states(found["hangs"], "blocked")
    check(hangs["ptbpf_test::wait"] >= 0.95 * sum(hangs.values()) > 0, f"hangs: {hangs}")
    check([a["source"] for a in trace["ptbpf"]["agents"]] == ["agent"], f"{trace['ptbpf']['agents']}")
    report = json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--by", "operator", "--json", "--row-limit", -1, expect=(0, 3)).out))
    rows = {r["operator"]: r["self"]["sampled_cpu_time"] / 1e9 for r in report["operators"]}
    sums = collections.Counter()
    for e in trace["traceEvents"]:
        if e.get("cat") == "python_sample" and e["args"]["ptbpf.state"] == "running":
            sums[e["args"].get("ptbpf.operator", "(not known)")] += e["args"]["ptbpf.stands_for_us"] / 1e6
    check(all(abs(rows[op] - sums[op]) < 1e-3 for op in {*sums, *rows}), f"{rows}, {sums} in the trace")
    detail(f"{sum(sum(c.values()) for c in found.values())} samples; hangs {dict(hangs)}")


@pytest.mark.parametrize("how", ["no agent", "off", "older"])
def test_without(ws, how):
    """Samples without operators, and why."""
    agent = {"no agent": None, "off": AGENT}.get(how) if how != "older" else patched(ws, b"ptbpf\0open\0", b"ptbpf\0opem\0")
    with target(agent=agent) as p:
        tids = record(ws, p, *(("--agent", "off") if how == "off" else ()), seconds=0.1)
    trace = export(ws)
    known = {op for counts in operators(trace, tids).values() for _, _, op in counts}
    check(known == {None}, f"{known}")
    why = [(a["source"], a["why"]) for a in trace["ptbpf"].get("agents", ())]
    check(why == ([("none", "its library is an older one, without open operators")] if how == "older" else []), f"{why}")


def test_late(ws):
    """Torch is imported in the window; then the program ends while it is sampled."""
    with target("late") as p:
        p.wait_line("^ready")
        with Tracer("attach", "--pid", p.pid, "--sample-stacks", HZ, "--activities", "cpu", "-o", ws + "/a.ptb", "--no-table") as t:
            t.wait_attached()
            p.send()
            tids = tids_of(p, "running")
            wait_for(lambda: is_asked(p.pid), "the agent to be asked")
            before = {tid: cpu_seconds(p.pid, tid) for tid in tids}
            wait_for(lambda: any(cpu_seconds(p.pid, tid) - before[tid] > 1 for tid, name in tids.items() if name == "multiply"), "the thread to run")
            p.proc.stdin.close()
            p.wait_line("^done")
            t.expect(0, 3)
    ran = states(operators(export(ws), tids)["multiply"], "running")
    check(ran["aten::mm"] > 0 and set(ran) <= {None, "(none)", "aten::mm", "aten::ones", "aten::empty", "aten::fill_"}, f"{ran}")


def test_record(ws):
    """From the program's start, with the agent that `record` brings."""
    script = os.path.join(ws, "script.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write("import time, torch\na = torch.ones(500, 500)\nuntil = time.monotonic() + 6\nwhile time.monotonic() < until: a @ a\n")
    run_ptbpf("record", "--sample-stacks", HZ, "--activities", "cpu", "-o", ws + "/a.ptb", "--no-table", "--", PYTHON, script, expect=(0, 3))
    ran = collections.Counter()
    for counts in operators(export(ws), {}).values():
        ran += states(counts, "running")
    check(ran["aten::mm"] > 0, f"{ran}")


@pytest.mark.parametrize("option", ("auto", "off"))
def test_stuck_beside_active(ws, option):
    """Without samples, what is open on a thread all the time is not seen: the account says on how many threads nothing began or ended."""
    with target() as p:
        tids_of(p, "running")
        p.send()
        tids = tids_of(p, "more")
        before = threads_of(p)
        with Tracer("attach", "--pid", p.pid, "--agent", option, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table") as t:
            t.wait_attached()
            attached = threads_of(p)
            wait_for(lambda: all(times_run(p.pid, tid) > 4 for tid, name in tids.items() if name in ("multiply", "nested", "raising")), "the threads to run")
            t.stop((0, 3))
        after = threads_of(p)
    trace = load_trace(ws + "/a.json")
    active = {e["tid"] for e in slices(trace)}
    silent, most = (before & after) - active, attached - active
    check({p.pid} | {tid for tid, name in tids.items() if name in ("hangs", "idle")} <= silent, f"{silent}, {tids}")
    totals = trace["ptbpf_totals"]
    cnt = totals["totals"]["silent_threads"]
    # one of short_lived's threads may live only while ptbpf looks
    text = f"nothing began or ended on {cnt} threads, the main thread of process {p.pid} among them: an operator or annotation that is open there"
    check(text in totals["account"] and text[1:] in t.text() and len(silent) <= cnt <= len(most) + 1, f"{totals['account']}, {silent}, {most}")
