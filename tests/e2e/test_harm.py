# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The first law: a process that is attached to and left again and again computes what it always did."""

import os
import random
import signal
import subprocess
import time

from common import (PTBPF, PYTHON, WORKLOADS, check, every, main, modified_code, require_root, run_ptbpf, soak, wait_for,
                    workload, workspace)

MODES = ((), ("--record-shapes",), ("--execution-trace",), ("--profile-memory",), ("--kernel-memory",),
         ("--record-shapes", "--profile-memory", "--kernel-memory"), ("--perf-uprobes",), ("--children",))
# Seconds after each step of the targets that are traced at once, since an attach mostly waits for the kernel. While the
# first computes most of the time, the others leave the processors to the tracers: with each, attaches take half as long.
RESTS = (0.002, 0.002, 0.002) if soak() else (0.002, 0.01, 0.01)
CYCLES = 10000 if soak() else 150
KILLS = 1000 if soak() else 60
LIFE = 3.0  # seconds: about the life of a ptbpf on a busy machine, from its start to the end of its export


def finals(p):
    """{steps: digest}"""
    check(p.finish(1200) == 0, f"the target failed\n{p.text()}")
    return {int(line.split()[1]): line.split()[2] for line in p.out if line.startswith("final ")}


def undisturbed(cycle, count):
    """Calls cycle(target, folder, k) again and again on several busy targets, `count` times in all; their code and
    their results are then those of a run that nobody traced. Returns the steps done."""
    require_root()

    def one(rest):
        with workspace() as ws, workload("busy.py", 0, rest) as p:
            p.wait_line("ready")
            for k in todo:
                cycle(p, ws, k)
                check(p.alive(), f"the target died in cycle {k}\n{p.text()}")
            wait_for(lambda: not modified_code(p.pid), "the target's code to be as in its files")
            p.signal(signal.SIGTERM)
            return finals(p)
    todo = iter(range(count))
    traced = every(RESTS, one)
    with workload("busy.py", ",".join(str(steps) for each in traced for steps in each)) as p:
        alone = finals(p)
    for steps, digest in (item for each in traced for item in each.items()):
        check(alone.get(steps) == digest, f"{steps} steps gave {digest} under ptbpf, {alone.get(steps)} without")
    return sum(map(sum, traced))


def many_cycles():
    """Busy, raising, threading, forking, under hundreds of attaches: bit by bit the same results."""
    def cycle(p, ws, k):
        run_ptbpf("attach", "--pid", p.pid, "-d", "20ms", "-o", f"{ws}/{k % 4}.ptb", "--no-table",
                  *MODES[k % len(MODES)], expect=(0, 3))
    steps = undisturbed(cycle, CYCLES)
    return f"{CYCLES} cycles, {steps} steps, equal"


def killed_tracers():
    """SIGKILL of ptbpf at random moments of plan, load, attach, window, detach and export."""
    def cycle(p, ws, k):
        options = MODES[k % len(MODES)] + (("--no-cache",) if k % 16 == 9 else ())
        tracer = subprocess.Popen([PTBPF, "attach", "--pid", str(p.pid), "-d", "20ms", "-o", f"{ws}/a.ptb", "--trace",
                                   f"{ws}/a.json.gz", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, LIFE))
        killed.append(tracer.poll() is None)
        tracer.kill()
        tracer.wait()
    killed = []
    steps = undisturbed(cycle, KILLS)
    check(sum(killed) > KILLS // 10, f"only {sum(killed)} of {KILLS} were still running when they were killed")
    return f"{sum(killed)} killed of {KILLS}, {steps} steps, equal"


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
        finals(p)
        digests.append([line for line in p.out if line.startswith("final")])
    check(all(d == digests[-1] and d for d in digests), f"results differ: {digests}")


if __name__ == "__main__":
    main([many_cycles, killed_tracers, whole_life])
