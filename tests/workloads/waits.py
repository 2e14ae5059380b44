# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Waits of known kinds and lengths within annotations and operators. Prints "ready".

A line `N [NAME...]` on stdin does N rounds of these waits (default: all) and is answered with a line of JSON:

  waits    {name: count, wall_ns, cpu_ns, blocked_ns} of the main thread in the annotation or operator of that name; of `gil` also gil_ns: the time
           between the end of a C function and Python's next instruction
  begin    what the kernel said of each thread before the rounds,
  end      and after them

Between two lines the main thread waits for stdin, and the others for the main thread."""

import ctypes
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.profiler import record_function

from measured import LIBC, child, facts, now

SECONDS = 0.003
BLOCK, FRESH = 1 << 20, 1 << 23
LIBRARY = torch.library.Library("waits", "DEF")
LIBRARY.define("sleep(Tensor x, float seconds) -> Tensor")
LIBRARY.define("spin(Tensor x, float seconds) -> Tensor")
sums = {}


class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def in_operator(wait):
    def implementation(x, seconds):
        wait(seconds)
        return x.clone()
    return implementation


LIBRARY.impl("sleep", in_operator(time.sleep), "CPU")
LIBRARY.impl("spin", in_operator(spin), "CPU")


def helper(name):
    """Runs functions in a thread of that name."""
    pool = ThreadPoolExecutor(1, initializer=lambda: setattr(threading.current_thread(), "name", name))
    pool.submit(int).result()
    return pool.submit


def report(until):
    while now() < until[0]:
        pass


def compete():
    """A process on the CPU to which the main thread goes for `preempted`: spins so long whenever it is asked."""
    os.sched_setaffinity(0, {CPU})
    while os.read(rival[0], 1):
        spin(10 * SECONDS)


# Each wait prepares, and returns what is to be measured, or that and what is to be done afterwards.

def sleeps():
    return lambda: time.sleep(SECONDS)


def spins():
    return lambda: spin(SECONDS)


def locks():
    lock, taken = threading.Lock(), threading.Event()

    def hold():
        with lock:
            taken.set()
            time.sleep(SECONDS)

    holder(hold)
    taken.wait()
    return lock.acquire


def reads():
    def write():
        time.sleep(SECONDS)
        os.write(pipe[1], b"x")

    writer(write)
    return lambda: os.read(pipe[0], 1)


def polls():
    return lambda: epoll.poll(SECONDS)


def selects():
    return lambda: select.select([pipe[0]], [], [], SECONDS)


def file():
    """Past the page cache."""
    return lambda: [os.preadv(disk, [block], 0) for _ in range(4)]


def fsync():
    os.pwrite(disk, block, 0)
    return lambda: os.fsync(disk)


def gil():
    """Another thread computes in Python, which gives way after 5 ms."""
    until, stamp, waited = [now() + 60 * 10**9], Timespec(), [0]
    done = metrics(report, until)

    def contend():
        while waited[0] < SECONDS * 1e9:
            LIBC.clock_gettime(time.CLOCK_MONOTONIC, ctypes.byref(stamp))  # gives the lock back before, and takes it after
            waited[0] += now() - stamp.s * 10**9 - stamp.ns
        until[0] = 0
        done.result()

    def after():
        sums["gil"]["gil_ns"] = sums["gil"].get("gil_ns", 0) + waited[0]
    return contend, after


def child_ends():
    process = subprocess.Popen(["sleep", str(SECONDS)])
    return process.wait


def fault():
    """Pages of 4 KiB."""
    fresh = mmap.mmap(-1, FRESH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    fresh.madvise(mmap.MADV_NOHUGEPAGE)
    ones = b"\1" * (FRESH // mmap.PAGESIZE)

    def touch():
        fresh[::mmap.PAGESIZE] = ones
    return touch, fresh.close


def preempted():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CPU})
    os.write(rival[1], b"x")
    return lambda: spin(3 * SECONDS), lambda: os.sched_setaffinity(0, allowed)


def sleep_operator():
    return lambda: torch.ops.waits.sleep(x, SECONDS)


def spin_operator():
    return lambda: torch.ops.waits.spin(x, SECONDS)


def open_operator():
    """An operator that waits in open() for the other end of a FIFO; it raises after that."""
    def write():
        time.sleep(SECONDS)
        os.close(os.open(fifo, os.O_WRONLY))

    def read():
        try:
            torch.from_file(fifo, size=4)
        except RuntimeError:
            pass

    writer(write)
    return read


OPERATORS = {"waits::sleep": sleep_operator, "waits::spin": spin_operator, "aten::from_file": open_operator}
WAITS = {**{f.__name__: f for f in (sleeps, spins, locks, reads, polls, selects, file, fsync, gil, fault, preempted)}, "child": child_ends,
         **OPERATORS}


def clocks():
    """Of the time that passes, what this thread has of CPUs, and what it waits for one: not interrupted in between."""
    while True:
        begin, cpu, queue = now(), time.thread_time_ns(), int(os.pread(schedstat, 64, 0).split()[1])
        if now() - begin < 100_000:
            return begin, cpu, queue


def measure(name):
    sums.setdefault(name, {"count": 0, "wall_ns": 0, "cpu_ns": 0, "blocked_ns": 0})
    act = WAITS[name]()
    act, after = act if isinstance(act, tuple) else (act, lambda: None)
    if name in OPERATORS:
        begin = clocks()
        act()
        end = clocks()
    else:
        with record_function(name):
            begin = clocks()
            act()
            end = clocks()
    wall, cpu, queue = (b - a for a, b in zip(begin, end))
    for key, value in (("count", 1), ("wall_ns", wall), ("cpu_ns", cpu), ("blocked_ns", wall - cpu - queue)):
        sums[name][key] += value
    after()


schedstat = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
CPU = max(os.sched_getaffinity(0))
torch.set_num_threads(1)
x = torch.ones(4)
rival, pipe = os.pipe(), os.pipe()
child(compete)
epoll = select.epoll()
epoll.register(pipe[0], select.EPOLLIN)
block = mmap.mmap(-1, BLOCK)
disk = os.open("/var/tmp", os.O_TMPFILE | os.O_RDWR | os.O_DIRECT)
os.pwrite(disk, block, 0)
holder, writer, metrics = map(helper, ("holder", "writer", "metrics"))
with tempfile.TemporaryDirectory() as folder:
    fifo = folder + "/fifo"
    os.mkfifo(fifo)
    for one in WAITS:
        measure(one)
    print("ready", flush=True)
    for line in sys.stdin:
        rounds, *wanted = line.split()
        sums.clear()
        before = facts()
        for _ in range(int(rounds)):
            for one in wanted or WAITS:
                measure(one)
        print(json.dumps({"pid": os.getpid(), "waits": sums, "begin": before, "end": facts()}), flush=True)
