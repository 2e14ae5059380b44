# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""For programs that measure themselves: what the kernel says of their threads, and a training loop whose steps have a cause to be slow."""

import collections
import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import resource
import select
import signal
import statistics
import sys
import threading
import time

import torch
from torch import nn

WARM = 20  # steps before "ready"
WIDTH, ROWS, LAYERS = 256, 64, 12  # operators of some 100 us: neither small, nor worth a second core
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
now = time.monotonic_ns


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def child(work, *args):
    """A forked process that does that, until this one ends."""
    def begin():
        end_with_parent()
        work(*args)
    process = multiprocessing.get_context("fork").Process(target=begin, daemon=True)
    process.start()
    return process


def hold_memory(held):
    """Whether malloc() keeps what was freed, or gives it back to the kernel."""
    LIBC.mallopt(M_MMAP_THRESHOLD, 1 << 30 if held else 1 << 17)
    LIBC.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1 if held else 1 << 17)


def fact(tid):
    # The clock of a thread brings its schedstat up to date, which else is as old as the last tick.
    run = time.clock_gettime_ns(~tid << 3 | 6)  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED
    with open(f"/proc/self/task/{tid}/schedstat", encoding="utf-8") as f:
        _, queue, slices = map(int, f.read().split())
    with open(f"/proc/self/task/{tid}/status", encoding="utf-8") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f)
    return {"name": status["Name"], "run_ns": run, "queue_ns": queue, "slices": slices,
            "voluntary": int(status["voluntary_ctxt_switches"]), "involuntary": int(status["nonvoluntary_ctxt_switches"])}


def facts():
    """{thread: its name, its times on a CPU and in the run queue, timeslices and switches so far} of all threads of this process."""
    found, names = {}, {t.native_id: t.name for t in threading.enumerate()}
    for tid in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError):  # it has ended
            found[tid] = {**fact(tid), "python": names.get(tid)}
    return found


def difference(before, after):
    """What happened to the threads of the second facts() since the first."""
    return {tid: {key: value - before.get(tid, {}).get(key, 0) if isinstance(value, int) else value for key, value in new.items()}
            for tid, new in after.items()}


def network():
    return nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


class Job:
    """A model, its optimizer and a batch. `with job.cause():` is around what makes a step slow, job.step() ends each."""

    def __init__(self, name, healthy, share):
        self.name, self.healthy, self.share = name, healthy, share
        self.by = "clock"  # or "blocked", "queue": see causes.py
        self.spared = 0  # ns that each step's cause takes without being one
        self.speaks, self.listens = True, True
        signal.signal(signal.SIGUSR1, self.ask)
        torch.manual_seed(0)
        torch.set_num_threads(1)
        hold_memory(True)
        self.x = torch.randn(ROWS, WIDTH)
        self.use(network())
        gc.collect()
        gc.freeze()  # the modules' objects: a collection over them takes 100 ms
        self.warm, self.took, self.last = False, 0, now()
        self.begin()

    def use(self, model, **options):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=1e-3, **options)

    def train(self, x=None):
        self.optimizer.zero_grad()
        self.model(self.x if x is None else x).square().mean().backward()
        self.optimizer.step()

    def run(self, extra, train=None):
        """Steps that have something extra before the training, which may return a batch for it."""
        train = train or self.train
        while True:
            with self.cause():
                x = extra()
            train(x if isinstance(x, torch.Tensor) else None)
            self.step()

    # How much of the cause there shall be.

    def plain_ns(self, work=None):
        """What a step without it takes where nothing disturbs it, or that work."""
        times = []
        for _ in range(2 * WARM):
            begin = now()
            (work or self.train)()
            times.append(now() - begin)
        return min(times)

    def wanted(self):
        """Seconds that the cause shall take of each step; none in the twin."""
        return 0 if self.healthy else self.plain_ns() / 1e9 * self.share / (1 - self.share)

    def count(self, unit, work=None):
        """How many calls of unit() take that time, in the twin, too."""
        return max(1, round(self.plain_ns(work) * self.share / (1 - self.share) / self.plain_ns(unit)))

    # What it measures.

    @contextlib.contextmanager
    def cause(self):
        begin = now()
        try:
            yield
        finally:
            self.took += now() - begin

    def step(self):
        self.times.append(now() - self.last)
        self.costs.append(max(0, self.took - self.spared))
        if not self.warm and len(self.times) == WARM:
            self.warm = True
            self.say("ready")
        elif self.warm and (self.asked or self.has_line()):
            self.say(json.dumps(self.answer()))
        self.took, self.last = 0, now()

    def say(self, line):
        if self.speaks:
            print(line, flush=True)
        self.begin()

    def ask(self, *_):
        self.asked = True

    def has_line(self):
        if self.listens and select.select([0], [], [], 0)[0]:
            self.listens = bool(os.read(0, 4096))
            return self.listens
        return False

    def begin(self):
        self.asked, self.times, self.costs, self.usage = False, [], [], resource.getrusage(resource.RUSAGE_SELF)
        self.resident, self.begun, self.before = resident(), now(), facts()

    def answer(self):
        wall, threads = now() - self.begun, difference(self.before, facts())
        main = threads[threading.get_native_id()]
        shares = {"clock": sum(self.costs) / max(1, sum(self.times)), "queue": main["queue_ns"] / wall,
                  "blocked": 1 - (main["run_ns"] + main["queue_ns"]) / wall}
        tenths = statistics.quantiles(self.times, n=10) if len(self.times) > 1 else self.times * 9
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {"program": self.name, "healthy": self.healthy, "pid": os.getpid(), "wall_ns": wall, "steps": len(self.times),
                "median_ms": tenths[4] / 1e6, "p10_ms": tenths[0] / 1e6, "p90_ms": tenths[8] / 1e6, "share": shares[self.by], "by": self.by,
                "shares": shares, "faults": usage.ru_minflt - self.usage.ru_minflt, "grown": resident() - self.resident, "threads": threads}


def resident():
    with open("/proc/self/statm", encoding="utf-8") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
