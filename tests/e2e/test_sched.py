# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--sched: what threads did, against what they and the kernel say themselves."""

import json
import os
import signal
import subprocess

import pytest

from memory_cgroup import Limited, read
from support import AGENT, BUILD, PYTHON, WORKLOADS, Process, Tracer, check, load_trace, loss_counters, modified_code, run_ptbpf, slices, wait_for, workload

SLACK_NS = 50e6  # what the program does beside its rounds, and what it takes to begin and end the window
EXPECTED = {  # by annotation or operator of waits.py
    "sleeps": "sleep", "locks": "lock", "reads": "pipe or socket", "polls": "poll", "selects": "poll", "file": "file I/O", "fsync": "file I/O",
    "gil": "GIL", "child": "child process", "preempted": "CPU", "waits::sleep": "sleep", "aten::from_file": "file I/O",
}


def near(a, b, share=0.01, slack=SLACK_NS):
    return abs(a - b) <= share * max(a, b) + slack


def sched(capture):
    return json.loads("\n".join(run_ptbpf("report", capture, "--sched", "--json", "--row-limit", "-1", expect=(0, 3)).out))


def stolen_ns():
    """
    Time that the machine, a virtual one, did not run (/proc/stat, in ticks). A thread that it interrupts stays on its CPU for the scheduler, so --sched
    counts it as running; the kernel's processor times leave it out (update_rq_clock_task()).
    """
    with open("/proc/stat", encoding="utf-8") as f:
        return int(f.readline().split()[8]) * 10**9 // os.sysconf("SC_CLK_TCK")


def record(ws, target, rounds, *options):
    """What the program says of its rounds, and what was recorded meanwhile."""
    with Tracer("attach", "--pid", target.pid, "--sched", "-o", ws + "/a.ptb", "--no-table", *options) as t:
        t.wait_attached()
        target.send(rounds)
        said = json.loads(target.wait_line("^({.*)", "the program's own figures")[1])
        t.signal(signal.SIGINT)
        t.expect(0)
    check(not modified_code(target.pid), "probes are left")
    return said, sched(ws + "/a.ptb")


def waits_of(report, main, name):
    """{reason: ns} of the main thread in that operator or annotation."""
    sums = {}
    for w in report["waits"]:
        if w["tid"] == main and name in (w["operator"] or w["annotation"], w["annotation"] if not w["operator"] else None):
            sums[w["what"]] = sums.get(w["what"], 0) + w["ns"]
    return sums


@pytest.mark.parametrize("agent", [False, True])
def test_truth(ws, agent, detail):
    """Times of all threads as the kernel counts them; times and reasons of each wait as the program knows them."""
    with Process([PYTHON, "-u", f"{WORKLOADS}/waits.py"], stdin=subprocess.PIPE, env={"LD_PRELOAD": AGENT} if agent else None) as target:
        target.wait_line("^ready")
        stolen = -stolen_ns()
        said, report = record(ws, target, 20)
        stolen += stolen_ns()
        slack = 3e6 + stolen
    recorded, less = {t["tid"]: t for t in report["threads"]}, []
    for tid, end in said["end"].items():
        begin, got = said["begin"].get(tid, {}), recorded[int(tid)]
        run, queue = (end[k] - begin.get(k, 0) for k in ("run_ns", "queue_ns"))
        switches = sum(end[k] - begin.get(k, 0) for k in ("voluntary", "involuntary"))
        check(near(got["on_cpu_ns"], run, slack=SLACK_NS + stolen), f"{end['name']} ran {run} ns: {got}, stolen {stolen} ns")
        if got["waits_ns"]["CPU"] < queue and not near(got["waits_ns"]["CPU"], queue):
            less.append(f"{end['name']} waited {queue} ns for a CPU: {got}")
            continue
        check(near(got["waits_ns"]["CPU"], queue), f"{end['name']} waited {queue} ns for a CPU: {got}")
        check(near(got["voluntary"] + got["preempted"], switches, slack=20), f"{end['name']} was switched {switches} times: {got}")
    # Linux 6.12 and later moves a thread that is blocked, but not yet dequeued, to another CPU (can_migrate_task()), and counts it as queued from then on.
    check(len(less) < 2, "\n".join(less))
    for name, what in EXPECTED.items():
        own, got = said["waits"][name], waits_of(report, said["pid"], name)
        blocked = sum(ns for w, ns in got.items() if w != "CPU")
        # between an annotation's ends and the program's own clocks it may wait for the GIL, too
        check(near(blocked, own["blocked_ns"], 0.05, slack) or name == "gil" and blocked > own["blocked_ns"], f"{name}: {own}, {got}, slack {slack}")
        reasons = {w: ns for w, ns in got.items() if w != "CPU"} if what != "CPU" else got  # on a busy machine each wait ends with one for a CPU
        check(max(reasons, key=reasons.get) == what, f"{name}: {got}")
        detail(f"{name} {got[what] / own['wall_ns']:.0%} of its time")
    got = waits_of(report, said["pid"], "gil")
    check(got["GIL"] + got.get("CPU", 0) >= said["waits"]["gil"]["gil_ns"] * 0.9, f"the GIL: {got}, {said['waits']['gil']}")
    holders = {w.get("holder_tid") for w in report["waits"] if w["what"] == "GIL" and w["tid"] == said["pid"] and w["annotation"] == "gil"}
    metrics = next(int(tid) for tid, t in said["end"].items() if t["python"] == "metrics")
    check(metrics in holders, f"the GIL is held by {holders}, not {metrics}")


def test_outputs(ws):
    """States of threads in a trace fill the window; columns of lines."""
    with Process([PYTHON, "-u", f"{WORKLOADS}/waits.py"], stdin=subprocess.PIPE) as target:
        target.wait_line("^ready")
        said, _ = record(ws, target, "3 sleeps locks", "--with-stack", "--trace", ws + "/a.json")
    trace = load_trace(ws + "/a.json")
    states = sorted((e["ts"], e["dur"], e["name"], e["args"].get("blocked_function")) for e in trace["traceEvents"]
                    if e["ph"] == "T" and e["tid"] == said["pid"])
    gaps = [b[0] - a[0] - a[1] for a, b in zip(states, states[1:])]
    check(all(abs(gap) < 0.01 for gap in gaps), f"states are not side by side: {states}")
    check(near(sum(s[1] for s in states) * 1e3, trace["ptbpf"]["window"]["duration_ns"], 0), "the window is not filled")
    for a in slices(trace, "sleeps"):
        inside = [s for s in states if a["ts"] <= s[0] and s[0] + s[1] <= a["ts"] + a["dur"]]
        # its timer ends the sleep before it begins if the thread is preempted in nanosleep() for as long
        check(any(s[3] == "sleep" or s[2] == "R" and s[1] > 2900 for s in inside), f"{a}: {inside}")
    lines = json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--by", "line", "--json").out))["lines"]
    got = sum(r["self"][k] for r in lines for k in ("gil_wait_time", "lock_wait_time", "other_wait_time"))
    own = sum(said["waits"][k]["blocked_ns"] for k in ("sleeps", "locks"))
    check(near(got, own, 0.05, 3e6), f"{own}: {lines}")


@pytest.mark.parametrize("pairs, agent", [(2, False), (200, True)])
def test_harm(ws, pairs, agent, detail):
    """Threads that do little but switch, beside ones that throw and end, and programs that are started: all go on, and what is lost is said."""
    with Process([PYTHON, "-u", f"{WORKLOADS}/switch_storm.py", f"{BUILD}/tests/workloads/libswitches.so"], stdin=subprocess.PIPE,
                 env={"LD_PRELOAD": AGENT} if agent else None) as target:
        target.wait_line("^ready")
        with Tracer("attach", "--pid", target.pid, "--children", "--sched", "-o", ws + "/a.ptb", "--no-table") as t:
            t.wait_attached()
            target.send(pairs, 3000, 50, 2000)
            said = json.loads(target.wait_line("^({.*)", "the program's own figures")[1])
            t.signal(signal.SIGINT)
            t.expect(0, 3)
        check(not modified_code(target.pid), "probes are left")
        target.send(2, 100, 1, 1)
        target.wait_news("^{")
    check(said["switches"] > 10000, f"{said['switches']}")
    report = sched(ws + "/a.ptb")
    lost = report["loss"]["lost_records"]
    main = next(t for t in report["threads"] if t["tid"] == target.pid)
    run = said["end"][str(target.pid)]["run_ns"] - said["begin"][str(target.pid)]["run_ns"]
    check(lost or near(main["on_cpu_ns"], run), f"{main}, ran {run}")
    check(not lost or not report["complete"], "lost, and complete")
    check(len(report["threads"]) > 2 * pairs + 2000, f"{len(report['threads'])} threads")
    switches = sum(t["voluntary"] + t["preempted"] for t in report["threads"])
    detail(f"{said['switches'] / 3:.0f} wake-ups a second, {switches / 3:.0f} switches; lost {lost}")


def throttled_ns(group):
    stat = dict(line.split() for line in read(group.path, "cpu.stat").splitlines())
    return int(stat.get("throttled_time", 0)) + 1000 * int(stat.get("throttled_usec", 0))


def test_quota(ws):
    """A control group's CPU quota that is used up: it is in the capture, and so is the time that the kernel counts."""
    with Limited(share=0.1) as group, workload("busy.py", 0) as target:
        target.wait_line("^ready")
        group.add(target.pid)
        before = throttled_ns(group)
        with Tracer("attach", "--pid", target.pid, "--sched", "-o", ws + "/a.ptb", "--no-table") as t:
            t.wait_attached()
            first = throttled_ns(group)
            wait_for(lambda: throttled_ns(group) > first + 2e8, "the quota to be used up")
            last = throttled_ns(group)
            t.signal(signal.SIGINT)
            t.expect(0, 3)
        after = throttled_ns(group)
    report = sched(ws + "/a.ptb")
    counted, job = loss_counters({"ptbpf": report}).get("THROTTLED_NS", 0), report["targets"][0]["job"]
    check(last - first <= counted <= after - before, f"{counted} ns, {before} {first} {last} {after}")
    check(job["cpu_quota_percent"] == 10 and job["cpus"], f"job: {job}")
