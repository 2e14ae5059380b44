# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a target and its agent control is bounded: ptbpf's memory has a limit, and what exceeds it is counted."""

import os
import re
import signal
import subprocess

from support import BUILD, Process, Skip, Tracer, check, load_trace, loss_counters, run_ptbpf, workload, workspace

FLOOD = BUILD + "/tests/workloads/agent_flood_nop1"
MIB = 1 << 20
TASK_EVENTS = 1 << 16  # LIMIT_TASK_EVENTS of user/base/limits.h


def flood(*what, **kw):
    if not os.path.exists(FLOOD):
        raise Skip("agent_flood was not built")
    return Process([FLOOD, *map(str, what)], **kw)


def anonymous_of(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"^RssAnon:\s+(\d+)", f.read(), re.M)[1]) << 10
    except (OSError, TypeError):
        return 0



def record(ws, p, limit, seconds=2):
    """Records the agent's flood of names; returns ptbpf's peak memory in the window, and the capture."""
    out = ws + "/a.ptb"
    with Tracer("attach", "--activities", "cuda", "--pid", p.pid, "-d", f"{seconds}s", "--max-memory", f"{limit >> 20}M",
                "--no-table", "-o", out) as t:
        t.wait_attached()
        most = 0
        while t.alive() and "ptb" in "".join(os.listdir(ws)) and not window_over(t.pid):
            most = max(most, anonymous_of(t.pid))
        t.expect(3)
        last = t.err[-1]
    check(p.alive(), "the target ended")
    return most, out, last


def window_over(pid):
    """ptbpf has no ring buffer mapped any more."""
    try:
        with open(f"/proc/{pid}/maps") as f:
            return "bpf-map" not in f.read()
    except OSError:
        return True


def test_agent_of_names(detail):
    """An endless number of names: memory stays below its limit, the excess is counted, the capture is complete."""
    limit = 64 * MIB
    with workspace() as ws, flood("names") as p:
        p.wait_line("ready")
        most, out, last = record(ws, p, limit)
        check(most < limit + 8 * MIB, f"{most / MIB:.0f} MiB of memory, the limit is {limit / MIB:.0f}")
        check("incomplete" in last and re.search(r"memory is at its limit|beyond", last), f"the last line: {last}")
    detail(f"at most {most / MIB:.0f} MiB of {limit / MIB:.0f}; {last}")


def test_agent_of_everything(detail):
    limit = 48 * MIB
    with workspace() as ws, flood("all") as p:
        p.wait_line("ready")
        most, out, last = record(ws, p, limit)
        check(most < limit + 8 * MIB, f"{most / MIB:.0f} MiB of memory, the limit is {limit / MIB:.0f}")
        check("records of an agent dropped" in last, f"the last line: {last}")
        size = os.path.getsize(out)
    detail(f"at most {most / MIB:.0f} MiB of {limit / MIB:.0f}, a capture of {size / MIB:.1f} MiB")


def test_many_processes(ws, detail):
    """More child processes than are followed: those beyond are counted, and of no other it is said that it ended unseen."""
    with workload("many_children.py", 1100, stdin=subprocess.PIPE) as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "--children", "--no-table", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            p.send()
            p.wait_line("started")
            t.wait_line("more than 1024 processes", stream=t.err)
            p.send()
            p.wait_line("done 0")
            t.stop((3,))
    counters = loss_counters(load_trace(ws + "/a.json"))
    check(1 <= counters.get("OVER_PROCESSES", 0) <= 1 + 1100 - 1024, f"{counters}")  # less, if others have ended meanwhile
    check("CHILDREN_MISSED" not in counters, f"{counters}")
    check(not [line for line in t.err if "cannot be compared" in line], t.text())
    detail(f"{counters}")


def test_children_do_not_prolong_the_window(ws, detail):
    """It ends when it is to end, and children that had no probes by then are counted."""
    count = 80
    with workload("fork_many.py", count, stdin=subprocess.PIPE) as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "--children", "-d", "2s", "--agent", "off", "--no-table", "-o", ws + "/a.ptb",
                    "--trace", ws + "/a.json") as t:
            t.wait_attached()
            p.send()
            check(t.finish() == 3, t.text())
    counters = loss_counters(load_trace(ws + "/a.json"))
    seconds, processes = re.search(r"([\d.]+) s of (\d+) processes", t.text()).groups()
    traced, missed = int(processes) - 1, counters.get("CHILDREN_MISSED", 0)
    check(float(seconds) < 8, f"a window of {seconds} s")  # 2 s, and the child that has been begun, on a busy machine
    check(missed and missed + traced <= count, f"{counters}, {traced} traced")  # the others were forked later
    detail(f"{seconds} s, {traced} children of {count}, {counters}")


def test_forks_at_once(ws, detail):
    """More forks than one round of draining takes, because ptbpf does not run meanwhile: those beyond are counted."""
    more = 500
    with flood("forks", TASK_EVENTS + more, stdin=subprocess.PIPE) as p:
        p.wait_line("ready")
        with Tracer("attach", "--activities", "cuda", "--pid", p.pid, "--no-table", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            os.kill(t.pid, signal.SIGSTOP)
            p.send()
            p.wait_line("forked")
            os.kill(t.pid, signal.SIGCONT)
            t.stop((3,))
    counters = loss_counters(load_trace(ws + "/a.json"))
    check(more / 2 < counters.get("OVER_PROCESSES", 0) <= more and "RING_FULL" not in counters, f"{counters}")
    detail(f"{counters}; {t.err[-1]}")


def test_sealed_at_the_limit(detail):
    """A limit that is exceeded immediately: ptbpf continues to the end of the window and completes the capture."""
    with workspace() as ws, flood("names,held") as p:
        p.wait_line("ready")
        most, out, last = record(ws, p, 32 * MIB, seconds=1)
        check("memory is at its limit" in last, f"the last line: {last}")
        again = run_ptbpf("report", out, expect=3)
        check(not any("not sealed" in line or "cut off" in line for line in again.err), again.text())
    detail(last)
