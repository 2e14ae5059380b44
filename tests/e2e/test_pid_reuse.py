# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A pid that is reused by another process between the first check and the attach: that process is not traced."""

import os
import signal

from support import PYTHON, WORKLOADS, CommandTarget, Skip, Tracer, check, wait_for, workspace


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
                    check(any("lost 0" in line or "slices" in line for line in t.err), t.text())
                check(outcomes[-1] == 1 or attached, t.text())
            if 1 in outcomes:
                break
        check(1 in outcomes, f"the pid never changed hands in time: exit codes {outcomes}")
    detail(f"exit codes {outcomes}")
