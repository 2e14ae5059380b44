# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""SIGINT and SIGTERM end every phase soon, with the right exit code, and leave no probe behind.

The aim is one second. The deadline here is much longer, since the machine is shared with other tests; without the signal no
phase would end before it."""

import contextlib
import os
import random
import signal
import subprocess
import time

from support import Failure, Process, Tracer, check, load_trace, run_ptbpf, slices, soak, wait_for, workload, workspace

LIMIT = 180.0


def signal_and_finish(t, sig):
    """Exit code and seconds from the signal to the end."""
    begin = time.monotonic()
    if t.alive():
        t.signal(sig)
    try:
        t.proc.wait(LIMIT)
    except subprocess.TimeoutExpired:
        raise Failure(f"still running after {LIMIT} s: {t.name()}\n{t.text()}") from None
    took = time.monotonic() - begin
    return t.finish(), took


def check_interrupted(t, sig):
    code, took = signal_and_finish(t, sig)
    check(code == 1, f"exit {code}, expected 1\n{t.text()}")
    check(any("interrupted" in line for line in t.err), f"no message that it was interrupted\n{t.text()}")
    return took


def files_of(ws):
    return sorted(os.listdir(ws))


def test_start_up(detail):
    """Check, plan, load, attach: a signal at any moment of the start. The result is nothing, or a window that ended as by
    Ctrl-C."""
    slowest = 0
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        run_ptbpf("attach", "--pid", p.pid, "-d", "10ms", "--no-table", "-o", ws + "/plan.ptb", expect=(0, 3))
        codes = set()
        for i in range(40 if soak() else 10):
            out = f"{ws}/{i}.ptb"
            options = ("--no-cache",) if i % 2 else ()
            with Tracer("attach", "--pid", p.pid, "--no-table", "-o", out, *options) as t:
                time.sleep(0.06 * i if not soak() else 0.015 * i)
                code, took = signal_and_finish(t, (signal.SIGINT, signal.SIGTERM)[i // 2 % 2])
                codes.add(code)
                slowest = max(slowest, took)
                check(code in (0, 1, -signal.SIGINT, -signal.SIGTERM), f"exit {code}\n{t.text()}")
                if code == 1:
                    check(any("interrupted" in line for line in t.err), f"no sentence\n{t.text()}")
                    check(not os.path.exists(out), "a capture that holds nothing was left")
        p.wait_news("rate", 2)
        check(codes & {0, 1}, "no start was interrupted")
    detail(f"exit codes {sorted(codes)}, slowest {slowest:.2f} s")


def test_injecting(detail):
    """While the agent is loaded into the process: it is loaded or not, no tracer is left, and the process continues."""
    rounds, loaded = 24 if soak() else 3, 0
    with workspace() as ws:
        for k in range(rounds):
            with workload("spin.py") as p:
                p.wait_line("rate")
                for moment in range(12):
                    with Tracer("attach", "--pid", p.pid, "--agent", "inject", "--no-table", "-o", ws + "/a.ptb") as t:
                        time.sleep(random.uniform(0, 0.8))
                        sig = (signal.SIGINT, signal.SIGTERM)[moment % 2]
                        code, _ = signal_and_finish(t, sig)
                    check(code in (0, 1, 3, -sig), f"exit {code}\n{t.text()}")  # -sig: before it has begun
                    with open(f"/proc/{p.pid}/status", encoding="utf-8") as f:
                        check("TracerPid:\t0\n" in f.read(), "the process is still traced")
                    with open(f"/proc/{p.pid}/maps", encoding="utf-8") as f:
                        if "ptbpf_agent" in f.read():
                            loaded += 1
                            break
                with Tracer("attach", "--pid", p.pid, "--agent", "inject", "--no-table", "-d", "300ms", "-o", ws + "/a.ptb",
                            "--trace", ws + "/a.json") as t:
                    t.expect(0, 3)
                check(len(slices(load_trace(ws + "/a.json"))) > 10, f"nothing is recorded afterwards\n{t.text()}")
                check(p.alive(), f"the target died\n{p.text()}")
    detail(f"{rounds} targets, in {loaded} the agent was loaded before the signal")


def test_waiting(detail):
    """attach --wait, for a process that never loads PyTorch."""
    with workspace() as ws, Process(["/bin/sleep", "300"]) as p:
        with Tracer("attach", "--wait", "--pid", p.pid, "-o", ws + "/a.ptb") as t:
            t.wait_line("waiting for PyTorch", stream=t.err)
            took = check_interrupted(t, signal.SIGTERM)
        check(p.alive(), "the target ended")
        check(not files_of(ws), f"left behind: {files_of(ws)}")
    detail(f"{took:.2f} s")


def test_record_before_torch(detail):
    """The program that record started has not loaded PyTorch; ptbpf does not wait for one that ignores SIGTERM."""
    for ignores in (False, True):
        script = ("trap '' TERM; " if ignores else "") + "echo up; while :; do sleep 0.1; done"
        with workspace() as ws, Tracer("record", "-o", ws + "/a.ptb", "--", "/bin/sh", "-c", script) as t:
            t.wait_line("^up$")
            pid = int(open(f"/proc/{t.pid}/task/{t.pid}/children").read().split()[0])
            try:
                took = check_interrupted(t, signal.SIGTERM)
                alive = os.path.exists(f"/proc/{pid}")
                check(alive == ignores, f"the program {'lives' if alive else 'is gone'}")
                check(not ignores or any(f"pid {pid}" in line for line in t.err), "no message that it continues")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    detail(f"{took:.2f} s")


def test_offline(detail):
    """report and export: no partial output is left under its name."""
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        run_ptbpf("attach", "--pid", p.pid, "-d", "2s", "--no-table", "-o", ws + "/a.ptb", expect=(0, 3))
        p.signal(signal.SIGTERM)
        for words in (("report",), ("export", "--format", "chrome", "-o", ws + "/x.json")):
            with Tracer(words[0], ws + "/a.ptb", *words[1:]) as t:
                wait_for(lambda: os.path.exists(f"/proc/{t.pid}") and "/a.ptb" in fds_of(t.pid) or not t.alive(),
                         "the capture to be open")
                code, took = signal_and_finish(t, signal.SIGINT)
                if code != 0:
                    check(code == 1 and any("interrupted" in line for line in t.err), f"exit {code}\n{t.text()}")
                    check(files_of(ws) == ["a.ptb"], f"left behind: {files_of(ws)}")
        check(code == 1, "the export was done before it could be interrupted")
    detail(f"{took:.2f} s")


def fds_of(pid):
    out = ""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            out += os.readlink(f"/proc/{pid}/fd/{fd}") + " "
    except OSError:
        pass
    return out


def test_after_window(detail):
    """A second signal, while the window's trace is written: the capture is complete, and the message says so."""
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        with Tracer("attach", "--pid", p.pid, "-d", "2s", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            wait_for(lambda: any(f.startswith(("a.json", ".a.json")) for f in files_of(ws)) or not t.alive(),
                     "the trace to be begun")
            took = check_interrupted(t, signal.SIGTERM)
        check(files_of(ws) == ["a.ptb"], f"left behind: {files_of(ws)}")
        run_ptbpf("export", ws + "/a.ptb", "--format", "chrome", "-o", ws + "/b.json", expect=(0, 3))
        check(len(slices(load_trace(ws + "/b.json"), "aten::neg")) > 1000, "the capture is not whole")
    detail(f"{took:.2f} s")


def test_stopped_agent(detail):
    """A stopped process, whose agent does not answer, is not waited for after a signal."""
    agent = os.path.join(os.path.dirname(os.environ.get("PTBPF", "build/ptbpf")), "libptbpf_agent.so")
    with workspace() as ws, workload("spin.py", env={"LD_PRELOAD": os.path.abspath(agent)}) as p:
        p.wait_line("rate")
        with Tracer("attach", "--pid", p.pid, "--no-table", "-o", ws + "/a.ptb") as t:
            t.wait_attached()
            p.signal(signal.SIGSTOP)
            code, took = signal_and_finish(t, signal.SIGINT)
            p.signal(signal.SIGCONT)
        check(code in (0, 3), f"exit {code}\n{t.text()}")
        p.wait_news("rate", 2)
    detail(f"{took:.2f} s")


def test_doctor(detail):
    with Tracer("doctor") as t:
        time.sleep(0.02)
        code, took = signal_and_finish(t, signal.SIGTERM)
        check(code in (0, 1, 3, -signal.SIGTERM), f"exit {code}\n{t.text()}")
    detail(f"{took:.2f} s")
