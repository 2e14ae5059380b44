# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Annotations that cross what torch opens around them, or each other. `crossings.py TRACE`: at each line of input all of them once under
torch.profiler, which writes TRACE."""

import asyncio
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

torch.set_num_threads(1)
SECONDS = 0.02  # of each annotation at least
X = torch.ones(64, 64)


class Pass(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        done = func(*args, **(kwargs or {}))
        return done


def dispatch_mode():
    with Pass(), record_function("outer"), record_function("inner"):
        X @ X
        time.sleep(SECONDS)


def selective_checkpoint():
    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

    def block(x):
        with record_function("attention"):
            time.sleep(SECONDS)
            return (x @ X).relu().sum()

    x = torch.ones(64, 64, requires_grad=True)
    checkpoint(block, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy)).backward()


def flop_counter():
    with FlopCounterMode(display=False), record_function("forward"):
        (X @ X).relu()
        time.sleep(SECONDS)


def backward_hooks():
    module, opened = torch.nn.Linear(64, 64), []

    def begin(module, grads):
        opened.append(record_function("backward of the module"))
        opened[0].__enter__()
        time.sleep(SECONDS)

    def end(module, grads, outputs):
        with record_function("hook"):
            X @ X
            time.sleep(SECONDS)
        opened[0].__exit__(None, None, None)

    module.register_full_backward_pre_hook(begin)
    module.register_full_backward_hook(end)
    module(torch.ones(64, 64, requires_grad=True)).sum().backward()


def generators():
    def rows(name):
        with record_function(name):
            while True:
                X.cos()
                time.sleep(SECONDS / 4)
                yield

    first, second = rows("first generator"), rows("second generator")
    for _ in range(3):
        next(first), next(second)
    first.close()
    X.sin()
    time.sleep(SECONDS)
    second.close()


def coroutines():
    async def work(name, rounds):
        with record_function(name):
            for _ in range(rounds):
                X.tan()
                await asyncio.sleep(SECONDS / 4)

    async def together():
        await asyncio.gather(*(work(f"coroutine {n}", 5 + n) for n in range(3)))

    asyncio.run(together())


def run():
    for kind in (dispatch_mode, selective_checkpoint, flop_counter, backward_hooks, generators, coroutines):
        kind()


run()
print("ready", flush=True)
for _ in sys.stdin:
    with profile(activities=[ProfilerActivity.CPU]) as p:
        run()
    p.export_chrome_trace(sys.argv[1])
    print("answer", flush=True)
