# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ring buffers that overflow: nothing is lost silently."""

from support import Process, PTBPF, check, load_trace, report_json, run_ptbpf


def test_overflow(ws, spin, detail):
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "2s", "--ringbuf", "4KiB", "-o", ws + "/a.ptb",
                     "--trace", ws + "/a.json", expect=3)
    check("lost" in done.err[-1] or "incomplete" in done.err[-1], f"the last line does not tell: {done.err[-1]}")
    told = report_json(ws + "/a.ptb")
    lost = told["loss"]["lost_records"]
    check(lost > 0 and told["loss"]["lost_intervals"] > 0, f"the report counts no loss: {told['loss']}")
    check(told["complete"] is False, "a report with losses says that it is complete")
    doc = load_trace(ws + "/a.json")
    check(doc["ptbpf"]["loss"]["lost_records"] == lost, "the trace's account is another one")
    check(any("lost" in e["name"].lower() for e in doc["traceEvents"]), "the loss is not visible in the trace")
    check(spin.alive(), "the target died")
    with Process([PTBPF, "report", ws + "/a.ptb"]) as r:
        check(r.finish() == 3, f"report of an incomplete capture must end with 3\n{r.text()}")
    detail(f"{lost} records lost and told")


def test_sizes_are_bounded(ws, spin):
    """A wish that cannot be met is refused, not silently changed into a crash."""
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "--ringbuf", "64GiB", "-o", ws + "/a.ptb",
                     expect=(1, 2))
    check(done.err, "no message")
    check(spin.alive(), "the target died")
