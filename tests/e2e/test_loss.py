# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ring buffers that overflow: nothing is lost silently."""

from support import Process, PTBPF, check, load_trace, report_json, run_ptbpf


def test_overflow(ws, spin, detail):
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "2s", "--ringbuf", "4KiB", "-o", ws + "/a.ptb",
                     "--trace", ws + "/a.json", expect=3)
    check("lost" in done.err[-1] or "incomplete" in done.err[-1], f"the last line has no loss: {done.err[-1]}")
    report = report_json(ws + "/a.ptb")
    lost = report["loss"]["lost_records"]
    check(lost > 0 and report["loss"]["lost_intervals"] > 0, f"the report counts no loss: {report['loss']}")
    check(report["complete"] is False, "a report with losses claims to be complete")
    doc = load_trace(ws + "/a.json")
    check(doc["ptbpf"]["loss"]["lost_records"] == lost, "the trace's account is another one")
    check(any("lost" in e["name"].lower() for e in doc["traceEvents"]), "the loss is not visible in the trace")
    check(spin.alive(), "the target died")
    with Process([PTBPF, "report", ws + "/a.ptb"]) as r:
        check(r.finish() == 3, f"report of an incomplete capture must end with 3\n{r.text()}")
    detail(f"{lost} records lost")


def test_sizes_are_bounded(ws, spin):
    """A size that is too large is refused."""
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "--ringbuf", "64GiB", "-o", ws + "/a.ptb",
                     expect=(1, 2))
    check(done.err, "no message")
    check(spin.alive(), "the target died")
