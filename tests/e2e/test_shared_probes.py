# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Probes that the processes of one job share: all of them are recorded, no other process is, and nobody is harmed."""

import contextlib
import os
import signal

import pytest

from own_torch import own_torch
from support import (Tracer, check, children_of, load_trace, loss_counters, modified_code, run_ptbpf, slices, soak, wait_for, workload)

COUNT = 8
FOREIGN = "FOREIGN"  # probe hits of processes that are not traced


@pytest.fixture(name="env", scope="module")
def fixture_env():
    with own_torch() as env:
        yield env


@contextlib.contextmanager
def workers(env, count, *args):
    """The job and the pids of its workers."""
    with workload("many_workers.py", count, *args, env=env) as p:
        p.wait_line("ready")
        pids = sorted(children_of(p.pid))
        check(len(pids) == count, f"{len(pids)} workers")
        yield p, pids


def with_operators(trace):
    return {e["pid"] for e in slices(trace, "aten::neg")}


def finals(p, pids):
    """Ends these workers: what they computed."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    return {p.wait_line(rf"^final {pid} (\S+)", f"the results of {pid}")[1] for pid in pids}


def fork_of(p, pid):
    """A worker's fork that has run and ended."""
    os.kill(pid, signal.SIGUSR1)
    child = int(p.wait_line(rf"^late {pid} (\d+)", "a fork")[1])
    wait_for(lambda: not os.path.exists(f"/proc/{child}"), "the fork to end")
    return child


def attach(ws, pids, *options):
    return Tracer("attach", "--pid", ",".join(map(str, pids)), "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table", *options)


def test_job(ws, env, detail):
    """All workers of a job in a window; one that was forked in it and is not traced runs through the probes unrecorded."""
    count = 64 if soak() else COUNT
    with workers(env, count, "leave") as (p, pids):
        with attach(ws, pids) as t:
            t.wait_attached()
            fork_of(p, pids[0])
            t.stop()
        wait_for(lambda: not any(map(modified_code, pids)), "the code to be as in the files")
        check(len(finals(p, pids)) == 1, "workers computed something else than others")
    trace = load_trace(ws + "/a.json")
    check(with_operators(trace) == set(pids), f"operators of {with_operators(trace)}, not of {pids}")
    check(loss_counters(trace).get(FOREIGN, 0) > 1000, f"the fork's hits are not counted: {loss_counters(trace)}")
    detail(f"{count} workers attached in {trace['ptbpf']['probes']['attach_ms']:.0f} ms")


def test_later_process(ws, env):
    """A process that loads PyTorch within the window runs as without it, and is not recorded."""
    with workers(env, COUNT, "leave") as (p, pids), attach(ws, pids) as t:
        t.wait_attached()
        with workload("spin.py", env=env) as late:
            late.wait_line("rate")
            late.wait_news("rate")
            late.signal(signal.SIGTERM)
            check(late.finish() == 0, late.text())
        t.stop()
        check(len(finals(p, pids)) == 1, "workers computed something else than others")
    trace = load_trace(ws + "/a.json")
    check({e["pid"] for e in slices(trace)} == set(pids), "another process was recorded")
    check(loss_counters(trace).get(FOREIGN, 0) >= 40000, f"its hits are not counted: {loss_counters(trace)}")


def test_not_selected(ws, env):
    """The parent of the workers has the library, too, and is not selected: it gets no breakpoints."""
    with workers(env, COUNT) as (p, pids), attach(ws, pids) as t:
        t.wait_attached()
        check(modified_code(pids[0]), "no breakpoints in a worker")
        check(not modified_code(p.pid), "breakpoints in a process that was not selected")
        os.kill(pids[0], signal.SIGHUP)
        p.wait_line("^raised")
        t.stop()
    trace = load_trace(ws + "/a.json")
    check(with_operators(trace) == set(pids), "not all workers were recorded")


def test_changes(ws, env):
    """Workers raise, execute another program, end and are killed: the others are recorded to the end."""
    with workers(env, COUNT, "leave") as (p, pids), attach(ws, pids) as t:
        t.wait_attached()
        gone, stay = pids[:3], pids[3:]
        os.kill(gone[0], signal.SIGUSR2)
        wait_for(lambda: os.path.basename(os.readlink(f"/proc/{gone[0]}/exe")) == "sleep", "an exec")
        os.kill(gone[1], signal.SIGKILL)
        finals(p, gone[2:])
        for pid in stay:
            os.kill(pid, signal.SIGHUP)
            p.wait_line(f"^raised {pid}$")
        t.stop()
        check(len(finals(p, stay)) == 1, "workers computed something else than others")
        os.kill(gone[0], signal.SIGKILL)
    trace = load_trace(ws + "/a.json")
    for pid in stay:
        check(len(slices(trace, "aten::mm", pid=pid)) == 100, f"{pid}: exceptions are not recorded")
    check(set(stay) <= with_operators(trace) <= set(pids), f"{with_operators(trace)} were recorded")


def test_children(ws, env):
    """A fork of one of them is added within the window, and has its breakpoints already."""
    with workers(env, COUNT, "leave") as (p, pids), attach(ws, pids, "--children") as t:
        t.wait_attached()
        child = fork_of(p, pids[0])
        t.stop(expect=(0, 3))
    trace = load_trace(ws + "/a.json")
    check(with_operators(trace) == {*pids, child}, f"the fork {child} was not recorded")


def test_killed(ws, env):
    """After a SIGKILL of ptbpf nothing is left in any of them."""
    with workers(env, COUNT, "leave") as (p, pids):
        with attach(ws, pids) as t:
            t.wait_attached()
            check(all(map(modified_code, pids)), "no breakpoints")
            t.signal(signal.SIGKILL)
            t.finish()
        wait_for(lambda: not any(map(modified_code, pids)), "the code to be as in the files")
        run_ptbpf("attach", "--pid", ",".join(map(str, pids)), "-d", "500ms", "-o", ws + "/b.ptb", "--no-table")
        check(len(finals(p, pids)) == 1, "workers computed something else than others")
