# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--max-overhead: each process has a limit of its own. One that does nothing but operators loses its probes, or is left out, and its neighbour is recorded.

How many operators both execute is up to the test, not to the machine.
"""

import contextlib
import signal
import time

from support import PYTHON, WORKLOADS, CommandTarget, Tracer, check, load_trace, loss_counters, modified_code, report_json, run_ptbpf, slices
from test_sample import log_of, wait_logged

BURST = 20000  # of each of its four threads: some 0.1 s of probes
LOST = "its probes are removed before the window's end"


class Busy(CommandTarget):
    """Executes as many operators as it is asked for."""

    def __init__(self):
        super().__init__([PYTHON, "-u", WORKLOADS + "/starve_work.py"])
        self.line("ready")


@contextlib.contextmanager
def pair():
    with Busy() as hot, Busy() as cool:
        run_ptbpf("attach", "--pid", hot.pid, "--dry-run", expect=(0, 3))
        yield hot, cool


def ops_of(w, pid):
    return [e for e in slices(load_trace(w["trace"]), "aten::neg") if e["pid"] == pid]


def check_charge(w, allowed):
    """It has cost all that it may, and no more than all probes have cost together; both count twice."""
    counters, cost = loss_counters(load_trace(w["trace"])), report_json(w["capture"])["cost"]
    hits = cost["hits"] + counters.get("OUT_OF_WINDOW", 0)
    most = 2.001e-9 * (hits * cost["per_hit_ns"] + counters["CHANGES_NS"])
    # what the removal costs is reserved, and may be less in the end
    check(0.5 * allowed < w["charged_seconds"] < most, f"{allowed} s are allowed, all probes cost {most} s: {w}")


def test_one_process(ws, detail):
    """It ends its window, which is complete until then."""
    with Busy() as hot, Tracer("sample", "--pid", hot.pid, "--dir", ws + "/w", "--traces", "json", "--max-overhead", "4%", "--schedule",
                               "wait=1s,active=60s,skip_first_wait=1,repeat=1") as t:
        t.wait_line("recording 1 process", "the window", t.err)
        while t.alive():
            hot.ask(BURST)
        t.expect(0)
    w, = log_of(ws + "/w")
    limit = "limit on its cost reached"
    check(w["stopped_by"] == limit == report_json(w["capture"])["window"]["stopped_by"] and w["shortened"], f"the window's end: {w}")
    check("cut" not in w and w["exit"] == 0 and w["seconds"] < 60, f"the window: {w}")
    check_charge(w, 0.04 * 61)
    detail(f"charged {w['charged_seconds']:.2f} s in {w['seconds']:.2f} s")


def test_hot_process_loses_its_probes(ws, detail):
    """What it executes after that is not recorded, all of its neighbour's is, and every file says so."""
    with pair() as (hot, cool), Tracer("sample", "--pid", f"{hot.pid},{cool.pid}", "--dir", ws + "/w", "--traces", "json", "--max-overhead", "4%",
                                       "--schedule", "wait=1s,active=60s,skip_first_wait=1") as t:
        t.wait_line("recording 2 processes", "the window", t.err)
        cool.ask(10)
        bursts, end = 0, time.monotonic() + 50
        while not any(LOST in line for line in t.err):
            check(time.monotonic() < end, f"{bursts} bursts of {4 * BURST} operators, and no limit\n" + "\n".join(t.err))
            hot.ask(BURST)
            bursts += 1
        left = modified_code(hot.pid)
        hot.ask(BURST)
        cool.ask(10)
        t.signal(signal.SIGTERM)
        t.wait_line("ends after the window in hand", "the first signal", t.err)
        end = time.monotonic() + 0.5  # signals within 0.2 s are one
        while time.monotonic() < end:
            hot.ask(BURST)
        t.signal(signal.SIGTERM)
        t.expect(3)
    w, = log_of(ws + "/w")
    allowed = 0.04 * 61
    check(not left, f"probes are left: {left}")
    check(w["exit"] == 3 and w["stopped_by"] == "interrupted" and "shortened" not in w, f"the window: {w}")
    check([c["pid"] for c in w["cut"]] == [hot.pid] and w["cut"][0]["seconds"] < w["seconds"] and LOST in "\n".join(t.err), f"who lost its probes: {w}")
    check("--max-overhead" in w["incomplete"], f"why: {w}")
    check_charge(w, allowed)
    recorded, whole = len(ops_of(w, hot.pid)), len(ops_of(w, cool.pid))
    check(whole == 80, f"the other process: {whole} operators of 80")
    check(0 < recorded <= 4 * BURST * bursts, f"{recorded} operators of {bursts} bursts, and one that came after them")
    facts, cut = report_json(w["capture"]), w["cut"][0]["seconds"]
    after = {x["pid"]: x.get("unprobed_after_ms") for x in facts["targets"]}
    check(abs(after[hot.pid] - 1e3 * cut) < 50 and after[cool.pid] is None, f"the capture: {after}, the log: {cut} s")
    check(max(e["dur"] for e in ops_of(w, hot.pid)) < 1e6 * cut, f"an operator lasts longer than its process is recorded, {cut} s")
    detail(f"{bursts} bursts; limit {allowed:.2f} s, charged {w['charged_seconds']:.2f} s after {w['cut'][0]['seconds']:.2f} s")


def test_hot_process_is_left_out(ws, detail):
    """It has cost more than it may in a window that was requested: the next one has its neighbour only, in full."""
    with pair() as (hot, cool), Tracer("sample", "--pid", f"{hot.pid},{cool.pid}", "--dir", ws + "/w", "--control", ws + "/s", "--max-overhead", "1.5%",
                                       "--schedule", "wait=40s,active=1s") as t:
        t.wait_line("sampling into", "the start", t.err)
        run_ptbpf("trigger", "--control", ws + "/s", "-d", "12s")
        t.wait_line("recording 2 processes", "the window", t.err)
        hot.ask(20 * BURST)
        w = wait_logged(ws + "/w", lambda w: w["trigger"] == "schedule", "the next window")
        t.signal(signal.SIGTERM)
        t.expect(0, 3)
    first = log_of(ws + "/w")[0]
    check("cut" not in first and first["charged_seconds"] > 0.015 * 81, f"no limit applies to what is requested: {first}")
    check(w["pids"] == [cool.pid] and w["left_out"] == [hot.pid] and w["exit"] == 0, f"the next window: {w}")
    check(w["stopped_by"] == "duration reached" and "cut" not in w and "shortened" not in w, f"the neighbour's window: {w}")
    check(f"is without pid {hot.pid}: it would cost more than --max-overhead" in "\n".join(t.err), "the message")
    detail(f"charged {first['charged_seconds']:.2f} s; the neighbour {w['charged_seconds']:.2f} s")
