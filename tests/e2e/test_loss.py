# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ring buffers that overflow: nothing is lost silently."""

from common import Process, PTBPF, check, load_trace, main, report_json, require_root, run_ptbpf, workload, workspace


def overflow():
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "2s", "--ringbuf", "4KiB", "-o", ws + "/a.ptb",
                         "--trace", ws + "/a.json", expect=3)
        check("lost" in done.err[-1] or "incomplete" in done.err[-1], f"the last line does not tell: {done.err[-1]}")
        told = report_json(ws + "/a.ptb")
        lost = find_number(told, "lost")
        check(lost and lost > 0, f"the report counts no loss: {str(told)[:400]}")
        doc = load_trace(ws + "/a.json")
        check("lost" in str({k: v for k, v in doc.items() if k != "traceEvents"}).lower()
              or any("lost" in e.get("name", "").lower() for e in doc["traceEvents"]), "the trace does not show the loss")
        check(p.alive(), "the target died")
        with Process([PTBPF, "report", ws + "/a.ptb"]) as r:
            check(r.finish() == 3, f"report of an incomplete capture must end with 3\n{r.text()}")
        return f"{lost} records lost and told"


def find_number(tree, word):
    """Sum of the numbers whose key contains the word."""
    total = 0
    if isinstance(tree, dict):
        for k, v in tree.items():
            if isinstance(v, (int, float)) and not isinstance(v, bool) and word in k.lower():
                total += v
            else:
                total += find_number(v, word)
    elif isinstance(tree, list):
        total += sum(find_number(v, word) for v in tree)
    return total


def sizes_are_bounded():
    """A wish that cannot be met is refused, not silently changed into a crash."""
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "--ringbuf", "64GiB", "-o", ws + "/a.ptb",
                         expect=(1, 2))
        check(done.err, "no message")
        check(p.alive(), "the target died")


if __name__ == "__main__":
    main([overflow, sizes_are_bounded])
