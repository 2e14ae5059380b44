# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
Threads with a known behaviour, without PyTorch. Prints their thread ids as JSON, after "late" on stdin those of threads that begin then; at
the end of stdin the processor time of each. "churn" as argument: threads, processes, programs and exceptions that come and go.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time

LOCK = threading.Lock()
STOP = threading.Event()
DATA = bytes(1 << 24)
TIDS, CPU = {}, {}


def spin():
    n = 0
    while not STOP.is_set():
        for i in range(2000):
            n += i * i % 7
    return n


def sleep_with_lock():
    with LOCK:
        held.set()
        time.sleep(1000)


def wait_for_lock():
    with LOCK:
        pass


def native():
    """The interpreter's lock is released in the call."""
    while not STOP.is_set():
        hashlib.sha256(DATA)


async def busy_task():
    until = time.monotonic() + 0.005
    while time.monotonic() < until:
        pass


async def asynchronous():
    while not STOP.is_set():
        await busy_task()
        await asyncio.sleep(0.005)


def run_tasks():
    asyncio.run(asynchronous())


def begin(name, work):
    known = threading.Event()

    def run():
        TIDS[name] = threading.get_native_id()
        known.set()
        work()
        CPU[name] = time.thread_time()

    t = threading.Thread(target=run, daemon=True, name=name)
    t.start()
    known.wait()
    return t


def fail(depth):
    if not depth:
        raise ValueError(depth)
    fail(depth - 1)


def churn():
    total = 0
    for i in range(40):
        ts = [threading.Thread(target=lambda: sum(k * k for k in range(20000))) for _ in range(4)]
        for t in ts:
            t.start()
        try:
            fail(50)
        except ValueError:
            total += i
        pid = os.fork()
        if not pid:
            n = sum(k for k in range(100000))
            os._exit(n % 200)
        total += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for t in ts:
            t.join()
        if i % 10 == 0:
            total += int(subprocess.run([sys.executable, "-c", "print(sum(range(1000000)) % 97)"], capture_output=True, check=True).stdout)
    print(f"total {total}", flush=True)
    os.execv(sys.executable, [sys.executable, "-c", "print('executed', sum(k * k for k in range(3000000)) % 1009)"])


held = threading.Event()


def main():
    if sys.argv[1:] == ["churn"]:
        print("ready", flush=True)
        sys.stdin.readline()
        churn()
    begin("sleeper", sleep_with_lock)
    held.wait()
    begin("waiter", wait_for_lock)
    threads = [begin("spin", spin), begin("native", native), begin("tasks", run_tasks)]
    print("ready " + json.dumps(TIDS), flush=True)
    for _ in sys.stdin:
        threads.append(begin("late", spin))
        print("late " + json.dumps(TIDS), flush=True)
    STOP.set()
    for t in threads:
        t.join()
    print("done " + json.dumps(CPU), flush=True)


if __name__ == "__main__":
    main()
