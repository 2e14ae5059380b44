# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How a window ends from ptbpf's side: duration, Ctrl-C, SIGTERM, SIGKILL."""

import glob
import signal

from support import (Tracer, check, load_trace, modified_code, report_json, require_root, shared, slices, wait_for, workload,
                     workspace)


def by_signal(sig):
    require_root()
    with workspace() as ws:
        p = shared(workload, "spin.py")
        p.wait_line("rate")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            p.wait_news("rate", 2)
            t.signal(sig)
            t.expect(0)
        check(len(slices(load_trace(ws + "/a.json"), "aten::neg")) > 1000, "the trace is not complete")
        p.wait_news("rate", 1)


def test_ctrl_c():
    by_signal(signal.SIGINT)


def test_sigterm():
    by_signal(signal.SIGTERM)


def test_duration(ws, spin):
    spin.wait_line("rate")
    with Tracer("attach", "--pid", spin.pid, "-d", "700ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
        t.wait_attached()
        t.expect(0)
    events = slices(load_trace(ws + "/a.json"), "aten::neg")
    span = max(e["ts"] for e in events) - min(e["ts"] for e in events)
    window = report_json(ws + "/a.ptb")["window"]
    check(window["stopped_by"] == "duration reached", f"the window ended for another reason: {window}")
    # not shorter; on a loaded machine the end may be late, but not as late as with another unit
    check(0.7e9 <= window["duration_ns"] < 7e9, f"a window of 0.7 s took {window['duration_ns'] / 1e9:.2f} s")
    check(0 < span * 1000 <= window["duration_ns"], f"it holds {span / 1e6:.2f} s of operators")


def test_two_ctrl_c(ws, spin):
    """The second Ctrl-C may truncate the output, but does not harm the target."""
    spin.wait_line("rate")
    with Tracer("attach", "--pid", spin.pid, "-o", ws + "/a.ptb") as t:
        t.wait_attached()
        for _ in range(3):
            if t.alive():
                t.signal(signal.SIGINT)
        t.finish()
    spin.wait_news("rate", 1)


def test_killed(ws, spin):
    """kill -9: the kernel removes the probes, the target goes on, the capture is readable."""
    spin.wait_line("rate")
    with Tracer("attach", "--pid", spin.pid, "-o", ws + "/a.ptb") as t:
        t.wait_attached()
        spin.wait_news("rate", 7)
        check(modified_code(spin.pid), "no probe was in the target")
        t.signal(signal.SIGKILL)
        t.finish()
    wait_for(lambda: not modified_code(spin.pid), "the target without probes")
    spin.wait_news("rate", 2)
    partial, = glob.glob(ws + "/.a.ptb.*.partial")
    rows = report_json(partial)
    check("aten::neg" in str(rows), "the capture of a killed ptbpf is not readable")
