# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target with stages: annotations "prefill N" and "decode N" around operators. Executes commands from stdin, one a line, and
answers `answer JSON`: what it ran in which stage, {stage: {name: count}}. Operators of one name run in all stages, so that
only counts show where they were recorded; `outside` is what ran in none.
"""

import collections
import json
import sys
import threading

import torch
from torch.autograd.profiler import record_function


class Ran:
    """Counts what it runs."""

    def __init__(self):
        self.lock, self.cnt = threading.Lock(), collections.defaultdict(collections.Counter)
        self.x = torch.ones(3)

    def note(self, stage, name, cnt=1):
        with self.lock:
            self.cnt[stage][name] += cnt

    def op(self, stage, name, cnt=1):
        fn = getattr(torch, name)
        for _ in range(cnt):
            fn(self.x)
        self.note(stage, "aten::" + name, cnt)

    def scope(self, stage, name):
        self.note(stage, name)
        return record_function(name)


class Inside(torch.autograd.Function):
    """An operator in which a stage begins and ends."""

    @staticmethod
    def forward(ctx, x, ran):
        ran.op("outside", "cos")
        with ran.scope("prefill", "prefill inside"):
            ran.op("prefill", "neg", 2)
        ran.op("outside", "cos")
        return x * 1


class Ends(torch.autograd.Function):
    """An operator that begins in a stage, which ends in it."""

    @staticmethod
    def forward(ctx, x, ran, scope):
        ran.op("prefill", "neg")
        scope.__exit__(None, None, None)
        ran.op("outside", "cos", 2)
        return x * 1


def phases(ran, rounds):
    """Two threads that are in different stages at every moment."""
    both = threading.Barrier(2)

    def work(k):
        for n in range(int(rounds)):
            stage = "prefill" if (k + n) % 2 else "decode"
            with ran.scope(stage, f"{stage} {n}"):
                both.wait()
                ran.op(stage, "neg", 3)
                ran.op(stage, "exp" if stage == "prefill" else "sin")
                with ran.scope(stage, "nested"):
                    ran.op(stage, "tanh", 2)
                    both.wait()
                ran.op(stage, "neg")
                both.wait()
            ran.op("outside", "neg", 2)
            with ran.scope("outside", "another"):
                ran.op("outside", "tanh")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def occurrences(ran, cnt):
    """Number N has N + 1 operators, and an annotation of the same kind inside."""
    for n in range(int(cnt)):
        with ran.scope(f"prefill {n}", f"prefill {n}"):
            ran.op(f"prefill {n}", "neg", n + 1)
            with ran.scope(f"prefill {n}", f"prefill {n} inside"):
                ran.op(f"prefill {n}", "tanh")
            ran.op(f"prefill {n}", "neg")
        ran.op("outside", "neg")


def raises(ran, cnt):
    """Exceptions through a stage, and through an operator in it."""
    for n in range(int(cnt)):
        try:
            with ran.scope("prefill", f"prefill {n}"):
                ran.op("prefill", "neg")
                ran.note("prefill", "aten::mm")
                torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        except RuntimeError:
            ran.op("outside", "neg")
        with ran.scope("outside", "another"):
            ran.op("outside", "tanh")


def backward(ran):
    """One backward pass in a stage, one outside."""
    w = torch.ones(3, requires_grad=True)
    for stage, name, fn in (("prefill", "prefill b", torch.exp), ("outside", "decode b", torch.sin)):
        with ran.scope(stage, name):
            fn(w).sum().backward()
        ran.note(stage, fn.__name__.capitalize() + "Backward0")
        ran.note(stage, "aten::" + fn.__name__)


def worker(ran, cnt):
    """A thread without annotations works for one with them."""
    jobs, done = threading.Semaphore(0), threading.Semaphore(0)
    todo = []

    def work():
        while jobs.acquire() and todo:
            ran.op(todo.pop(), "exp", 3)
            done.release()

    t = threading.Thread(target=work)
    t.start()
    for n in range(int(cnt)):
        for stage, name in (("prefill", f"prefill {n}"), ("outside", f"decode {n}")):
            with ran.scope(stage, name):
                todo.append(stage)
                jobs.release()
                done.acquire()
    jobs.release()
    t.join()


def edges(ran):
    """Stages that begin or end in the midst of an operator."""
    Inside.apply(ran.x, ran)
    ran.note("outside", "Inside")
    scope = ran.scope("prefill", "prefill ends")
    scope.__enter__()
    Ends.apply(ran.x, ran, scope)
    ran.note("prefill", "Ends")
    ran.op("outside", "neg")


COMMANDS = {f.__name__: f for f in (phases, occurrences, raises, backward, worker, edges)}


def main():
    torch.set_num_threads(1)
    print('answer "ready"', flush=True)
    for line in sys.stdin:
        ran = Ran()
        for command in line.split(","):
            name, *args = command.split()
            COMMANDS[name](ran, *args)
        print("answer " + json.dumps(ran.cnt), flush=True)


if __name__ == "__main__":
    main()
