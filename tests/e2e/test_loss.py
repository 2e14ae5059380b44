# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ring buffers that overflow: nothing is lost silently."""

from common import Process, PTBPF, check, load_trace, main, report_json, require_root, run_ptbpf, shared, workload, workspace


def overflow():
    require_root()
    with workspace() as ws, shared(workload, "spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "2s", "--ringbuf", "4KiB", "-o", ws + "/a.ptb",
                         "--trace", ws + "/a.json", expect=3)
        check("lost" in done.err[-1] or "incomplete" in done.err[-1], f"the last line does not tell: {done.err[-1]}")
        told = report_json(ws + "/a.ptb")
        lost = told["loss"]["lost_records"]
        check(lost > 0 and told["loss"]["lost_intervals"] > 0, f"the report counts no loss: {told['loss']}")
        check(told["complete"] is False, "a report with losses says that it is complete")
        doc = load_trace(ws + "/a.json")
        check(doc["ptbpf"]["loss"]["lost_records"] == lost, "the trace's account is another one")
        check(any("lost" in e["name"].lower() for e in doc["traceEvents"]), "the loss is not visible in the trace")
        check(p.alive(), "the target died")
        with Process([PTBPF, "report", ws + "/a.ptb"]) as r:
            check(r.finish() == 3, f"report of an incomplete capture must end with 3\n{r.text()}")
        return f"{lost} records lost and told"


def sizes_are_bounded():
    """A wish that cannot be met is refused, not silently changed into a crash."""
    require_root()
    with workspace() as ws, shared(workload, "spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "--ringbuf", "64GiB", "-o", ws + "/a.ptb",
                         expect=(1, 2))
        check(done.err, "no message")
        check(p.alive(), "the target died")


if __name__ == "__main__":
    main([overflow, sizes_are_bounded])
