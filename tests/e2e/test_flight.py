# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""attach --flight: the capture has the last seconds before it was wanted, step for step and operator for operator as the program itself
noted them; its memory is bounded; nothing is left when it is killed."""

import os
import re
import signal
import time

import pytest

from agent_target import AgentTarget
from support import AGENT, PYTHON, WORKLOADS, Process, Tracer, check, load_trace, modified_code, run_ptbpf, slices, wait_for

HELD = 1  # seconds
AT_EDGE_NS = 200000  # clocks of the job and of the trace may differ by so much


class Job(Process):
    def __init__(self, ws, ms=10, env=None):
        self.notes = ws + "/notes"
        super().__init__([PYTHON, "-u", f"{WORKLOADS}/event_work.py", str(ms), "pt_flight", self.notes], env=env)
        self.wait_line("^step")

    def steps(self):
        """[(number, Unix time before, after)]"""
        with open(self.notes, encoding="utf-8") as f:
            return [tuple(map(int, line.split())) for line in f if line.endswith("\n")]


def compare(job, path):
    """Every step that the program made in the window is in the trace, with its operators. Returns (their number, seconds)."""
    trace = load_trace(path)
    window, base = trace["ptbpf"]["window"], trace["baseTimeNanoseconds"]
    begin, end = window["begin_unix_ns"], window["begin_unix_ns"] + window["duration_ns"]
    found = {int(s["name"].split()[1]): s for s in slices(trace, cat="user_annotation") if re.fullmatch(r"step \d+", s["name"])}
    negs = [e["ts"] for e in slices(trace, "aten::neg")]
    whole = [n for n, a, b in job.steps() if a >= begin + AT_EDGE_NS and b <= end - AT_EDGE_NS]
    check(whole and set(whole) <= set(found), f"{len(set(whole) - set(found))} of {len(whole)} steps of the window are not in the trace")
    near = {n: (a, b) for n, a, b in job.steps()}
    for n in whole:
        s = found[n]
        calls = sum(s["ts"] <= t <= s["ts"] + s["dur"] for t in negs)
        check(calls == n % 7 + 1, f"step {n} has {calls} operators, not {n % 7 + 1}")
        at = base + round(s["ts"] * 1000)
        check(near[n][0] - AT_EDGE_NS <= at <= near[n][1] + AT_EDGE_NS, f"step {n} is at another time")
    beyond = [n for n in found if near.get(n, (end, 0))[1] < begin - AT_EDGE_NS]
    check(not beyond, f"steps before the window: {beyond}")
    return len(whole), window["duration_ns"] / 1e9


def more_steps(job, cnt):
    last = job.steps()[-1][0]
    wait_for(lambda: job.steps()[-1][0] > last + cnt, "steps")


def flight(job, ws, *options):
    t = Tracer("attach", "--pid", job.pid, "--flight", f"{HELD}s", "-o", ws + "/f.ptb", "--trace", ws + "/f.json", "--no-table", *options)
    t.wait_line("are held until", "the flight recorder", t.err)
    more_steps(job, 200)
    return t


@pytest.mark.parametrize("agent, more, options", [(False, 0, []), (True, 0.5, ["-d", "500ms", "--record-shapes"])])
def test_seconds_before(ws, agent, more, options, detail):
    """With -d the window goes on after the signal."""
    with Job(ws, env={"LD_PRELOAD": AGENT} if agent else None) as job, flight(job, ws, *options) as t:
        size = os.path.getsize(partial(ws))
        more_steps(job, 100)
        check(os.path.getsize(partial(ws)) == size, "something is written before it is wanted")
        t.signal(signal.SIGUSR1)
        t.expect(0)
        n, seconds = compare(job, ws + "/f.json")
        check(seconds >= HELD + more, f"{seconds} s")
        held = load_trace(ws + "/f.json")["ptbpf"]["capture"]["flight"]
        check(re.fullmatch(r"[0-9.]+ s before SIGUSR1", held), f"META: {held}")
        detail(f"{n} steps; {held}")
        check(not modified_code(job.pid), "probes are left")


def test_open_all_the_time(ws):
    """What began before the seconds that are held and goes on, which the agent has seen: open at both ends."""
    with AgentTarget() as target, \
            Tracer("attach", "--pid", target.pid, "--flight", f"{HELD}s", "-o", ws + "/f.ptb", "--trace", ws + "/f.json", "--no-table") as t:
        t.wait_line("are held until", "the flight recorder", t.err)
        for label in ("before", "around everything", "inside"):
            target.ask("begin", label)
        target.ask("end")
        until = time.monotonic() + 5 * HELD
        wait_for(lambda: target.ask("ops", "neg", 10) is None and time.monotonic() > until, "the seconds to pass")
        t.signal(signal.SIGUSR1)
        t.expect(0)
    trace = load_trace(ws + "/f.json")
    found = {e["name"]: e["args"] for e in slices(trace, cat="user_annotation")}
    check(set(found) == {"before", "around everything"}, f"annotations: {found}")
    for args in found.values():
        check(args.get("ptbpf.open_at_attach") and args.get("finished") in (False, "false"), f"not open at both ends: {found}")
    outer, = slices(trace, "around everything")
    check(all(outer["ts"] < e["ts"] and e["ts"] + e["dur"] < outer["ts"] + outer["dur"] for e in slices(trace, "aten::neg")), "operators outside")


def partial(ws):
    return next(os.path.join(ws, f) for f in os.listdir(ws) if f.startswith(".f.ptb") and f.endswith(".partial"))


@pytest.mark.parametrize("stopped", [0, 4])
def test_end_of_target(ws, stopped):
    """The last seconds of a job that is killed, also where ptbpf does not run for seconds at this time."""
    with Job(ws) as job, flight(job, ws) as t:
        t.signal(signal.SIGSTOP)
        job.signal(signal.SIGKILL)
        time.sleep(stopped)
        t.signal(signal.SIGCONT)
        t.expect(0, 3)
        _, seconds = compare(job, ws + "/f.json")
        check(seconds > HELD - 0.1, f"{seconds} s")


@pytest.mark.soak
def test_buffer(ws, detail):
    """What does not fit goes, the oldest first, and ptbpf says how much is left."""
    with Job(ws, 0) as job, flight(job, ws, "--flight-buffer", "4MiB", "--flight", "1h", "--execution-trace") as t:
        more_steps(job, 9000)
        with open(f"/proc/{t.pid}/status", encoding="utf-8") as f:
            detail(next(line.strip() for line in f if line.startswith("VmRSS")))
        t.signal(signal.SIGINT)
        t.expect(0, 3)
        t.wait_line("fitted into --flight-buffer", "the message", t.err)
        n, seconds = compare(job, ws + "/f.json")
        detail(f"{n} steps in {seconds:.2f} s")


@pytest.mark.soak
def test_kill(ws):
    with Job(ws) as job, flight(job, ws) as t:
        t.signal(signal.SIGKILL)
        t.finish()
        wait_for(lambda: not modified_code(job.pid), "the probes to go")


@pytest.mark.parametrize("args, text", [
    (["--flight-buffer", "64MiB"], "--flight"),
    (["--flight", "2h"], "an hour"),
    (["--flight", "1s", "--flight-buffer", "1MiB"], "4MiB"),
])
def test_usage(args, text):
    done = run_ptbpf("attach", "--pid", "1", *args, expect=(2,))
    check(text in "\n".join(done.err), f"the message lacks {text!r}\n{done.text()}")
