# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A pid that is reused by another process between the first check and the attach: that process is not traced."""

import os
import signal
import time

from support import PYTHON, WORKLOADS, CommandTarget, Skip, Tracer, check, children_of, run_ptbpf, wait_for, workspace
from test_sample import log_of


class SamePid(CommandTarget):
    def __init__(self):
        super().__init__([PYTHON, "-u", WORKLOADS + "/same_pid.py"])

    def child(self):
        words = self.proc.stdout.readline().split()
        if not words or words[0] != "child":
            raise Skip(f"a process with the same pid could not be had: {words}")
        return int(words[1])

    def another(self):
        self.send()
        return self.child()


def loading(t):
    """ptbpf has checked its pids and loads its programs."""
    try:
        return "bpf" in " ".join(os.readlink(f"/proc/{t.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{t.pid}/fd"))
    except OSError:
        return False


def test_while_it_attaches(detail):
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        raise Skip("this kernel has no ns_last_pid")
    outcomes = []
    with workspace() as ws, SamePid() as p:
        pid = p.child()
        for i in range(5):
            with Tracer("attach", "--pid", pid, "-d", "1s", "--no-table", "-o", f"{ws}/{i}.ptb") as t:
                wait_for(lambda: loading(t) or not t.alive(), "the programs to be loaded")
                t.signal(signal.SIGSTOP)
                p.another()
                t.signal(signal.SIGCONT)
                outcomes.append(t.finish())
                attached = any("attached" in line for line in t.err)
                if outcomes[-1] == 1:
                    check(any("has ended" in line or "no such process" in line for line in t.err),
                          f"no sentence\n{t.text()}")
                else: # it had attached to the first one
                    check(any(" s of " in line for line in t.err), t.text())
                check(outcomes[-1] == 1 or attached, t.text())
            if 1 in outcomes:
                break
        check(1 in outcomes, f"the pid never changed hands in time: exit codes {outcomes}")
    detail(f"exit codes {outcomes}")


def test_window_of_sample(detail):
    """The same between the choice of a window's processes and its own process, which attaches."""
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        raise Skip("this kernel has no ns_last_pid")
    exits = []
    with workspace() as ws, SamePid() as p:
        pid = p.child()
        with Tracer("sample", "--pid", p.pid, "--dir", ws + "/w", "--control", ws + "/w.sock", "--schedule", "none") as t:
            t.wait_line("sampling into", "the start", t.err)
            while len(exits) < 5 and 1 not in exits:
                run_ptbpf("trigger", "--control", ws + "/w.sock", "--pid", pid, "-d", "300ms")
                window, = children_of(t.pid)
                os.kill(window, signal.SIGSTOP)
                time.sleep(0.5)  # more than is allowed for the clock of start times
                p.another()
                os.kill(window, signal.SIGCONT)
                exits.append(wait_for(lambda: log_of(ws + "/w")[len(exits):], "the window's end")[0]["exit"])
            t.signal(signal.SIGTERM)
            t.finish()
        check(1 in exits and any("the process that was chosen has ended" in line for line in t.err), f"exit codes {exits}\n{t.text()}")
    detail(f"exit codes {exits}")
