# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The first law: a process that is attached to and left again and again computes what it always did."""

import os
import signal

from common import PYTHON, WORKLOADS, check, main, require_root, run_ptbpf, workload, workspace

MODES = ((), ("--record-shapes",), ("--execution-trace",), ("--profile-memory",), ("--kernel-memory",),
         ("--record-shapes", "--profile-memory", "--kernel-memory"))
REST = 0.002  # of the traced run, so that the run after it, which must do as many steps, is the shorter one
CYCLES = int(os.environ.get("PTBPF_CYCLES", "200"))


def final(p):
    check(p.finish(1200) == 0, f"the target failed\n{p.text()}")
    return p.wait_line(r"final (\d+) (\w+)").groups()


def many_cycles():
    """Busy, raising, threading, forking, under hundreds of attaches: bit by bit the same results."""
    require_root()
    with workspace() as ws:
        with workload("busy.py", 0, REST) as p:
            p.wait_line("ready")
            for k in range(CYCLES):
                run_ptbpf("attach", "--pid", p.pid, "-d", "20ms", "-o", f"{ws}/{k % 4}.ptb", "--no-table",
                          *MODES[k % len(MODES)], expect=(0, 3))
                check(p.alive(), f"the target died in cycle {k}\n{p.text()}")
            p.signal(signal.SIGTERM)
            steps, traced = final(p)
        with workload("busy.py", steps) as p:
            _, undisturbed = final(p)
        check(traced == undisturbed, f"{steps} steps gave {traced} under ptbpf, {undisturbed} without")
        return f"{CYCLES} cycles, {steps} steps, equal"


def whole_life():
    """One window over everything, with perf-event uprobes too."""
    require_root()
    digests = []
    for options in ((), ("--perf-uprobes", "--record-shapes"), ("--children", "--execution-trace"),
                    ("--perf-uprobes", "--profile-memory"), ("--children", "--profile-memory", "--kernel-memory")):
        with workspace() as ws:
            done = run_ptbpf("record", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", *options, "--",
                             PYTHON, os.path.join(WORKLOADS, "busy.py"), "400",
                             expect=(0, 3))
            digests.append([line for line in done.out if line.startswith("final")])
    with workload("busy.py", 400) as p:
        final(p)
        digests.append([line for line in p.out if line.startswith("final")])
    check(all(d == digests[-1] and d for d in digests), f"results differ: {digests}")


if __name__ == "__main__":
    main([many_cycles, whole_life])
