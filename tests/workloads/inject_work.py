# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A crowd of threads that compute, raise, wait and are signalled, each with a digest of all that it computed.

  inject_work.py THREADS [BYSTANDERS]     until a line on stdin. Prints `ready PID`, then at the end for each thread
                                          `final STEPS DIGEST...`, a digest of everything up to each tenth step.

Two runs have the same digests for as many steps as both have done, whatever happens around them. BYSTANDERS is the
number of threads that wait with every blocking function of Python, and check that they wait long enough.
"""

import hashlib
import os
import queue
import select
import signal
import socket
import sys
import threading
import time

import torch

torch.set_num_threads(2)
STOP = threading.Event()
FAULTS = []


def one_step(k, state, digest):
    x = torch.full((48, 48), 0.5 + k % 5, requires_grad=True)
    loss = (torch.tanh(x @ state) * state.sin()).sum()
    loss.backward()
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as e:
        digest.update(str(e)[:40].encode())
    big = torch.arange(200000, dtype=torch.float32).mul(k + 1.5).cumsum(0)  # in the thread pool
    state = state * 0.999 + x.grad * 1e-6
    for t in (loss.detach(), x.grad, big[::1000].contiguous(), state):
        digest.update(t.numpy().tobytes())
    return state


class Worker(threading.Thread):
    def __init__(self, seed):
        super().__init__()
        self.seed, self.done = seed, 0
        self.digests = []

    def run(self):
        torch.manual_seed(self.seed)
        digest = hashlib.sha256()
        state = torch.linspace(-1, 1, 48 * 48).reshape(48, 48) * (self.seed + 1)
        while not STOP.is_set():
            state = one_step(self.done, state, digest)
            self.done += 1
            if self.done % 10 == 0:
                self.digests.append(digest.hexdigest()[:16])


def bystander(kind):
    a, b = socket.socketpair()
    a.settimeout(0.03)
    q, ep = queue.Queue(), select.epoll()
    waits = [lambda: time.sleep(0.03), lambda: select.select([], [], [], 0.03), lambda: ep.poll(0.03),
             lambda: a.recv(1), lambda: q.get(timeout=0.03), lambda: select.poll().poll(30)]
    while not STOP.is_set():
        begin = time.monotonic()
        try:
            waits[kind % len(waits)]()
        except (TimeoutError, queue.Empty):
            pass
        except OSError as e:
            FAULTS.append(f"{kind}: {e}")
        if time.monotonic() - begin < 0.029:
            FAULTS.append(f"{kind}: back after {time.monotonic() - begin:.4f} s")


def main():
    # Libraries of torch initialize themselves in the first step. If two threads do it at once, one of some 2,000
    # processes has other results.
    one_step(0, torch.eye(48), hashlib.sha256())
    ticks = []
    signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    workers = [Worker(i) for i in range(int(sys.argv[1]))]
    others = [threading.Thread(target=bystander, args=(i,), daemon=True)
              for i in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0)]
    for t in workers + others:
        t.start()
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    STOP.set()
    for w in workers:
        w.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if not ticks or FAULTS:
        print("faults", len(ticks), FAULTS[:3], flush=True)
    for w in workers:
        print("final", w.done, *w.digests, flush=True)


if __name__ == "__main__":
    main()
