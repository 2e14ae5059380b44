# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Windows of a schedule in steps: they have so many whole steps as the program itself numbers them, whatever the source of its operators; the
waits between them; jobs without steps."""

import contextlib
import json
import re
import signal
import subprocess

import pytest

from support import AGENT, Tracer, check, children_of, load_trace, modified_code, run_ptbpf, shared, slices, wait_for, workload


OWN = "ProfilerStep#"
CUT = {"finished", "ptbpf.open_at_attach"}  # marks of slices that the window has a part of


def step_loop(*words, env=None):
    job = workload("step_loop.py", *words, env=env)
    job.wait_line("^step 100")
    return job


@pytest.fixture
def loop():
    return shared(step_loop, 10)


def windows(folder):
    with contextlib.suppress(FileNotFoundError), open(folder + "/windows.jsonl", encoding="utf-8") as f:
        return sorted(map(json.loads, f), key=lambda w: w["window"])
    return []


def sample(ws, pids, schedule, *options, expect=(0,)):
    run_ptbpf("sample", "--pid", ",".join(map(str, pids)), "--dir", ws + "/w", "--traces", "json", "--schedule", schedule, *options,
              expect=expect)
    return windows(ws + "/w")


def within(events, outer):
    return [e for e in events if outer["ts"] <= e["ts"] and e["ts"] + e["dur"] <= outer["ts"] + outer["dur"]]


def own_numbers(trace, name="iteration ", pid=None):
    """Of each whole ProfilerStep: the number that the program gave to it. There is one, and they follow each other."""
    annotations = slices(trace, cat="user_annotation", pid=pid)
    own = [e for e in annotations if e["name"].startswith(name)]
    steps = sorted((e for e in annotations if re.fullmatch(r"ProfilerStep#\d+", e["name"]) and not CUT & set(e["args"])),
                   key=lambda e: e["ts"])
    numbers = [[int(e["name"][len(name):]) for e in within(own, s)] for s in steps]
    check(all(len(n) == 1 for n in numbers), f"the program's own numbers in each step: {numbers}")
    numbers = [n for n, in numbers]
    check(numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"steps: {numbers}")
    if name != OWN:
        check([int(s["name"].split("#")[1]) for s in steps] == list(range(len(steps))), "numbers of the steps")
    return numbers


def test_steps(ws, loop, detail):
    """Each window has as many whole steps as it was to have; the log says what was inferred of the waits."""
    log = sample(ws, [loop.pid], "wait=30,warmup=2,active=4,repeat=2,skip_first=10")
    check([w["window"] for w in log] == [0, 1], f"the log: {log}")
    last = 0
    for w in log:
        trace = load_trace(w["trace"])
        numbers = own_numbers(trace)
        check(len(numbers) == 4 and w["steps"] == 4 and w["exit"] == 0 and w["lost"] == 0, f"steps {numbers}: {w}")
        check(trace["ptbpf"]["window"]["stopped_by"] == "steps recorded", "the end of the window")
        check(w["waited_steps_inferred"] >= 30 and w["step_seconds"] > 0, f"the wait: {w}")
        check(numbers[0] - last > 30, f"{numbers[0] - last} steps since the last window")
        if last:
            detail(f"{numbers[0] - last - 4} steps between the windows, inferred: {w['waited_steps_inferred']:.0f}")
        last = numbers[-1]


def test_short_steps(ws):
    """Steps of a fraction of a millisecond: what came after the last one is no part of the window."""
    with step_loop(0) as job:
        log = sample(ws, [job.pid], "warmup=1,active=3,repeat=3")
    check([len(own_numbers(load_trace(w["trace"]))) for w in log] == [3, 3, 3], f"the log: {log}")


def test_agent(ws):
    """The same with the agent."""
    with step_loop(10, env={"LD_PRELOAD": AGENT}) as job:
        w, = sample(ws, [job.pid], "warmup=1,active=5,repeat=1")
        trace = load_trace(w["trace"])
    check(trace["ptbpf"]["targets"][0]["source"] == "agent", "the source")
    check(len(own_numbers(trace)) == w["steps"] == 5 and w["exit"] == 0, f"window: {w}")


def test_own_steps(ws):
    """A program that announces ProfilerStep#N itself."""
    with step_loop(10, OWN) as job:
        w, = sample(ws, [job.pid], "active=5,repeat=1")
    check(w["steps"] == 5 and len(own_numbers(load_trace(w["trace"]), OWN)) == 5, f"window: {w}")


@pytest.mark.parametrize("mark", ["stage odd", "aten::neg"])
def test_step_on(ws, loop, mark):
    """Steps end with another annotation, or with an operator."""
    w, = sample(ws, [loop.pid], "warmup=1,active=3,repeat=1", "--step-on", mark)
    check(w["steps"] == 3 and w["exit"] == 0, f"window: {w}")


@pytest.mark.parametrize("env", [{}, {"LD_PRELOAD": AGENT}], ids=["probes", "agent"])
def test_environment(ws, env):
    """The job's environment names the annotation, which comes in every other iteration; the command line wins."""
    with step_loop(10, env={**env, "PTBPF_STEP_ON": "stage odd"}) as job:
        first, = sample(ws, [job.pid], "warmup=1,active=3,repeat=1")
        _, second = sample(ws, [job.pid], "warmup=1,active=3,repeat=1", "--step-on", "Optimizer.step")
    check(first["steps"] == second["steps"] == 3 and first["exit"] == second["exit"] == 0, f"windows: {first}, {second}")
    trace, plain = load_trace(first["trace"]), load_trace(second["trace"])
    own = [e for e in slices(trace, cat="user_annotation") if e["name"].startswith("iteration ")]
    whole = [e for e in slices(trace) if re.fullmatch(r"ProfilerStep#\d+", e["name"])]
    check([len(within(own, s)) for s in whole] == [2, 2, 2], "iterations in each step")
    check(len(own_numbers(plain)) == 3, "steps of --step-on")
    check(trace["ptbpf"]["targets"][0]["step_on"] == "stage odd", f"targets: {trace['ptbpf']['targets']}")
    check("step_on" not in plain["ptbpf"]["targets"][0] and plain["ptbpf"]["capture"]["step_on"] == "Optimizer.step", "what the command line said")


def test_processes(ws, loop):
    """Each process that makes steps has them, one that makes none is not waited for. The slow one ends some while the fast one makes its own."""
    with step_loop(30) as slow, step_loop(10, "iteration ", "evaluate") as none:
        w, = sample(ws, [loop.pid, slow.pid, none.pid], "active=15,repeat=1")
        trace = load_trace(w["trace"])
        check(len(own_numbers(trace, pid=slow.pid)) == 15, f"window: {w}")
        check(len(own_numbers(trace, pid=loop.pid)) >= 15, f"window: {w}")
        check(not slices(trace, "ProfilerStep#0", pid=none.pid), "steps of a process that makes none")


def probes_of(pid):
    """The kernel's list of uprobes: those of links for this process."""
    done = subprocess.run(["bpftool", "-j", "link", "show"], capture_output=True, text=True, check=True)
    return [x for x in json.loads(done.stdout) if x.get("pid") == pid and x.get("type") == "uprobe_multi"]


def test_nothing_attached_in_a_wait(ws, loop):
    with Tracer("sample", "--pid", loop.pid, "--dir", ws + "/w", "--schedule", "wait=1000000,warmup=1,active=50,skip_first_wait=1") as t:
        t.wait_line("recording 1 process", "the window", t.err)
        wait_for(lambda: windows(ws + "/w"), "the window's end")
        check(not children_of(t.pid), "a process of a window is left")
        left = probes_of(loop.pid), modified_code(loop.pid)
        check(left == ([], {}), f"attached between windows: {left}")
        t.signal(signal.SIGTERM)
        t.expect(0)


@pytest.mark.parametrize("schedule", ["warmup=1,active=2,repeat=1", "active=2,repeat=1", "wait=5,active=2,repeat=1"])
def test_no_steps(ws, spin, schedule):
    """A job that makes no steps: the window ends all the same, and the log says why."""
    spin.wait_line("rate")
    w, = sample(ws, [spin.pid], schedule, "--step-timeout", "1s", expect=(1, 3))
    check("no step" in w["incomplete"] or "none ended" in w["incomplete"], f"window: {w}")
    check(("capture" in w) == schedule.startswith("active") and w["exit"] == (3 if "capture" in w else 1), f"window: {w}")
    check(not probes_of(spin.pid), "probes are left")


@pytest.mark.parametrize("args, text", [
    (["--schedule", "wait=10,active=5s"], "steps and times"),
    (["--schedule", "active=5", "--no-steps"], "--no-steps"),
    (["--schedule", "active=5", "--sample-stacks", "99"], "--sample-stacks"),
    (["--schedule", "active=5", "--activities", "cuda"], "--activities"),
    (["--schedule", "active=5s", "--step-timeout", "5s"], "--step-timeout"),
])
def test_usage(ws, args, text):
    done = run_ptbpf("sample", "--pid", "1", "--dir", ws + "/w", *args, expect=(2,))
    check(text in "\n".join(done.err), f"the message lacks {text!r}\n{done.text()}")
