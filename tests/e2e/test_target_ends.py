# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The target exits, is killed, execs or forks inside the window: ptbpf ends the window and keeps the recording."""

import os
import signal

from support import (PYTHON, Process, Tracer, check, load_trace, loss_counters, report_json, require_root, slices, wait_for, workload,
                     workspace)


def traced(end, codes=(0,), extra=()):
    """Attaches without a duration, calls `end` with the target, returns (trace, target's status)."""
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", *extra) as t:
            t.wait_attached()
            p.wait_news("rate", 2)  # so that something is recorded before the end
            end(p, t)
            t.expect(*codes)
            check(any(w in "\n".join(t.err + t.out) for w in ("lost", "ptb")), f"no closing account\n{t.text()}")
        doc = load_trace(ws + "/a.json")
        kept = len(slices(doc, "aten::neg"))
        check(kept > 100, f"{kept} of the operators recorded before the end are in the trace\n{t.text()}")
        rows = report_json(ws + "/a.ptb")
        check("aten::neg" in str(rows), "the capture does not give a report")
        return doc, p.proc.poll()


def test_exits():
    def end(p, t):
        p.signal(signal.SIGTERM)
        check(p.finish() == 0, f"the target did not end well\n{p.text()}")

    traced(end)


def test_is_killed():
    def end(p, t):
        p.signal(signal.SIGKILL)
        p.finish()

    traced(end)


MAIN_ENDS = """
import ctypes, os, signal, threading, time, torch
def work():
    end, x = time.monotonic() + 90, torch.ones(4, 4)
    while time.monotonic() < end:
        for _ in range(1000):
            torch.neg(x)
        print("round", flush=True)
        time.sleep(0.02)
    os._exit(0)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
threading.Thread(target=work).start()
signal.sigwait({signal.SIGUSR1})
ctypes.CDLL(None).pthread_exit(None)
"""


def test_main_thread_ends(ws):
    """The process lives on without its main thread: the kernel removes its probes sooner or later, and the summary says so."""
    require_root()
    with Process([PYTHON, "-c", MAIN_ENDS]) as p:
        p.wait_line("round")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--perf-uprobes") as t:
            t.wait_attached()
            p.wait_news("round", 3)
            p.signal(signal.SIGUSR1)
            wait_for(lambda: not os.path.exists(f"/proc/{p.pid}/exe"), "the main thread to end")
            p.wait_news("round", 3)
            t.signal(signal.SIGINT)
            t.expect(3)
            check(f"pid {p.pid}: its main thread has ended" in t.text(), t.text())
        doc = load_trace(ws + "/a.json")
        check(slices(doc, "aten::neg") and loss_counters(doc).get("UNCOVERED_NS", 0) > 40e6, f"{loss_counters(doc)}\n{t.text()}")


def test_execs():
    """Another program in the same process: the window ends, the new program is not changed."""
    def end(p, t):
        p.signal(signal.SIGUSR2)
        p.wait_line("exec")
        t.finish()
        check(p.alive(), "the exec'd program died")
        with open(f"/proc/{p.pid}/comm") as f:
            check(f.read().strip() == "sleep", "the exec did not happen")

    traced(end)


def fork_pid(p):
    return int(p.wait_line(r"forked (\d+)")[1])


def child_gone(pid):
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the child to end")


def test_forks_without_children():
    """A child of a traced process runs unharmed; its operators are not recorded as the parent's."""
    def end(p, t):
        p.signal(signal.SIGUSR1)
        child_gone(fork_pid(p))
        p.wait_news("rate")
        t.signal(signal.SIGINT)
        t.finish()
        check(p.alive(), "the target died after its fork")

    doc, _ = traced(end)
    check(not slices(doc, "child at work"), "the child's operators are in the trace without --children")


def test_forks_with_children():
    pids = []

    def end(p, t):
        p.signal(signal.SIGUSR1)
        pids.append(fork_pid(p))
        child_gone(pids[0])
        t.signal(signal.SIGINT)
        t.finish()
        check(p.alive(), "the target died after its fork")

    doc, _ = traced(end, codes=(0, 3), extra=("--children",))
    inside = [e for e in slices(doc, "aten::neg") if e["pid"] == pids[0]]
    check(len(inside) > 100, f"{len(inside)} operators of the child were recorded")
