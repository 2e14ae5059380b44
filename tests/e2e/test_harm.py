# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The first law: a process computes the same results however often ptbpf attaches and detaches.

Under a soak a line on stderr reports the progress every minute, and SIGTERM ends it early: the results until then are compared,
and the test fails because it is incomplete."""

import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

from support import (PTBPF, PYTHON, WORKLOADS, check, every, load_trace, modified_code, require_root, run_ptbpf,
                     slices, soak, wait_for, workload, workspace)

MODES = ((), ("--record-shapes",), ("--execution-trace",), ("--profile-memory",), ("--kernel-memory",),
         ("--record-shapes", "--profile-memory", "--kernel-memory"), ("--children",), ("--with-stack",),
         ("--with-stack", "--children", "--profile-memory"),
         ("--execution-trace", "--with-stack"))
# Groups in tracefs: ten times as long as the other modes, for all that attach at the same time.
SLOW_MODE, SLOW_EVERY = ("--perf-uprobes",), 12
WHY_EVERY = 4
# Seconds between the steps of the targets that are traced at the same time, because an attach mostly waits for the kernel.
# The first one computes most of the time; the others leave the processors to the tracers.
RESTS = (0.002,) + (0.02,) * (3 if soak() else 2)
CYCLES = 10000 if soak() else 12
KILLS = 1000 if soak() else 6
THREADS = 10000 if soak() else 2000
PARTS = ("plan, load or attach", "window or detach", "export")


def mode(k):
    return SLOW_MODE if k % SLOW_EVERY == SLOW_EVERY - 1 else MODES[k % len(MODES)]


class Progress:
    """Counts cycles of all targets together."""

    def __init__(self, count):
        self.lock, self.count, self.done, self.next = threading.Lock(), count, 0, time.monotonic() + 60
        self.stopped = threading.Event()
        if soak():
            signal.signal(signal.SIGTERM, lambda *_: self.stopped.set())

    def add(self):
        with self.lock:
            self.done += 1
            if soak() and time.monotonic() > self.next:
                self.next += 60
                print(f"{time.strftime('%T')} {self.done} of {self.count}", file=sys.stderr, flush=True)


def finals(p):
    """{steps: digest}"""
    check(p.finish(7200 if soak() else 1200) == 0, f"the target failed\n{p.text()}")
    return {int(line.split()[1]): line.split()[2] for line in p.out if line.startswith("final ")}


def undisturbed(cycle, count):
    """Calls cycle(target, folder, k) on several busy targets, `count` times in all; then their code and their results must be
    those of a process that was not traced. Returns the number of steps done."""
    require_root()
    progress = Progress(count)

    def one(rest):
        with workspace() as ws, workload("busy.py", 0, rest) as p:
            p.wait_line("ready")
            for k in todo:
                if progress.stopped.is_set():
                    break
                cycle(p, ws, k)
                check(p.alive(), f"the target died in cycle {k}\n{p.text()}")
                progress.add()
            wait_for(lambda: not modified_code(p.pid), "the target's code to be as in its files")
            p.signal(signal.SIGTERM)
            return finals(p)
    todo = iter(range(count))
    traced = every(RESTS, one)
    with workload("busy.py", ",".join(str(steps) for each in traced for steps in each)) as p:
        alone = finals(p)
    for steps, digest in (item for each in traced for item in each.items()):
        check(alone.get(steps) == digest, f"{steps} steps gave {digest} under ptbpf, {alone.get(steps)} without")
    steps = sum(map(sum, traced))
    check(progress.done == count, f"ended early after {progress.done} of {count} cycles; {steps} steps, equal until then")
    return steps


def test_many_cycles(detail):
    """Targets with threads that compute, raise and fork, under hundreds of attaches: bit-identical results. In those of `why` operators end before the window."""
    def cycle(p, ws, k):
        if k % WHY_EVERY == WHY_EVERY - 1:
            run_ptbpf("why", "--pid", p.pid, "-d", "300ms", "--max-overhead", "0.1%", "-o", f"{ws}/why.ptb", expect=(0, 3))
            return
        run_ptbpf("attach", "--pid", p.pid, "-d", "20ms", "-o", f"{ws}/{k % 4}.ptb", "--no-table",
                  *mode(k), expect=(0, 3))
    steps = undisturbed(cycle, CYCLES)
    detail(f"{CYCLES} cycles, {steps} steps, equal")


def part_of(capture, text):
    """The phase of a tracer, from its capture and its output."""
    return PARTS[2] if os.path.exists(capture) else PARTS["attached" in text]


class Killer:
    """Kills tracers in the requested phase, at random moments."""

    def __init__(self):
        self.length = {part: 3.0 for part in PARTS}  # seconds, corrected by each kill
        self.killed = collections.Counter()

    def kill(self, p, ws, part, options=()):
        """Starts a tracer and kills it; returns the phase in which it died, or None if it had ended before that."""
        capture = f"{ws}/a.ptb"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(capture)
        with open(ws + "/output", "w", encoding="utf-8") as output:
            tracer = subprocess.Popen([PTBPF, "attach", "--pid", str(p.pid), "-d", "20ms", "-o", capture, "--trace",
                                       f"{ws}/a.json.gz", *options], stdout=subprocess.DEVNULL, stderr=output)
        with open(ws + "/output", encoding="utf-8") as output:
            text = ""
            while PARTS.index(part_of(capture, text)) < PARTS.index(part) and tracer.poll() is None:
                text += output.read()
                time.sleep(0.001)
            moment = random.uniform(0, 1.2 * self.length[part])
            with contextlib.suppress(subprocess.TimeoutExpired):
                tracer.wait(moment)
            tracer.kill()
            code = tracer.wait()
            text += output.read()
        check(code in (0, 3, -signal.SIGKILL), f"exit {code}\n{text}")
        at = part_of(capture, text) if code == -signal.SIGKILL else None
        self.length[part] = (max if at == part else min)(self.length[part], moment)
        if at:
            self.killed[at] += 1
        return at


def test_killed_tracers(detail):
    """SIGKILL of ptbpf at random moments of plan, load, attach, window, detach and export."""
    killer = Killer()

    def cycle(p, ws, k):
        part = PARTS[k % len(PARTS)]
        while killer.kill(p, ws, part, mode(k) + (("--no-cache",) if k % 16 == 3 else ())) != part:
            pass
    steps = undisturbed(cycle, KILLS)
    detail(f"{KILLS} killed ({', '.join(f'{n} in {part}' for part, n in killer.killed.items())}), {steps} steps, equal")


def test_killed_probing(detail):
    """SIGKILL while probes are installed or removed: the kernel completes the change of the target's code, and no probe is
    left."""
    killer = Killer()
    with workspace() as ws, workload("busy.py", 0, RESTS[0]) as p:
        p.wait_line("ready")
        for k in range(80 if soak() else 4):
            while not killer.kill(p, ws, PARTS[k % 4 > 0]):
                pass
            wait_for(lambda: not modified_code(p.pid), f"the probes of the tracer killed in round {k} to go")
        check(p.alive(), f"the target died\n{p.text()}")
    detail(", ".join(f"{n} killed in {part}" for part, n in killer.killed.items()))


def test_whole_life():
    """One window over the whole run, also with perf-event uprobes."""
    digests = []
    for options in (("--perf-uprobes", "--record-shapes"), ("--children", "--execution-trace", "--kernel-memory"),
                    ("--children", "--with-stack", "--profile-memory")):
        with workspace() as ws:
            done = run_ptbpf("record", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", *options, "--",
                             PYTHON, os.path.join(WORKLOADS, "busy.py"), "400",
                             expect=(0, 3))
            digests.append([line for line in done.out if line.startswith("final")])
    with workload("busy.py", 400) as p:
        finals(p)
        digests.append([line for line in p.out if line.startswith("final")])
    check(all(d == digests[-1] and d for d in digests), f"results differ: {digests}")


def test_many_threads(detail):
    """Thousands of threads that live at the same time: each has its slices, nothing is lost, the result is correct."""
    with workspace() as ws:
        done = run_ptbpf("record", "-o", ws + "/a.ptb", "--trace", ws + "/a.json.gz", "--no-table", "--record-shapes",
                         "--profile-memory", "--kernel-memory", "--with-stack", "--", PYTHON, WORKLOADS + "/many_threads.py", THREADS)
        check(f"final {-THREADS * (THREADS - 1)}" in done.out, done.text())
        document = load_trace(ws + "/a.json.gz")
    by_thread = collections.Counter(s["tid"] for s in slices(document, "aten::neg"))
    check(len(by_thread) == THREADS, f"{len(by_thread)} of {THREADS} threads have a slice")
    check(set(by_thread.values()) == {1}, f"slices of one operator by thread: {by_thread.most_common(3)}")
    detail(f"{THREADS} threads, {len(slices(document))} slices; {done.err[-1]}")
