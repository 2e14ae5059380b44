# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Payloads with several threads of operators, interleaved tasks, and processes of a data loader."""

import asyncio
import concurrent.futures
import queue
import threading

import torch
from torch.autograd.profiler import record_function

from payloads import payload, seed


def in_threads(cnt, fn):
    """Runs fn(k) on cnt new threads, one after the other has begun; returns results by k."""
    out = [None] * cnt

    def call(k):
        out[k] = fn(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(cnt)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


@payload(observe=True, threads=True)
def two_threads():
    def work(k):
        with record_function(f"thread {k}"):
            x = torch.full((4,), float(k + 1), requires_grad=True)
            for _ in range(20):
                (x.sin() * x).sum().backward()
        return x.grad

    return lambda: in_threads(2, work)


@payload(observe=True, threads=True)
def many_threads():
    def work(k):
        with record_function(f"many {k}"):
            x = torch.ones(4) * k
            for _ in range(30):
                x = x.neg().abs().add(1)
        return x

    return lambda: in_threads(16, work)


@payload(threads=True)
def raising_threads():
    def work(k):
        with record_function(f"raising {k}"):
            for _ in range(5):
                try:
                    torch.mm(torch.ones(k + 1), torch.ones(2))
                except RuntimeError:
                    torch.zeros(2)
        return k

    return lambda: in_threads(4, work)


@payload(observe=True, threads=True)
def thread_churn():
    """Short-lived threads: thread ids are reused inside one window."""

    def run():
        out = []
        for k in range(30):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                out.append(pool.submit(lambda k=k: torch.ones(2).mul(k)).result())
        return out

    return run


@payload(observe=True, threads=True)
def queue_pipeline():
    """A producer thread feeds the main thread."""

    def run():
        q = queue.Queue(2)

        def produce():
            with record_function("producer"):
                for k in range(10):
                    q.put(torch.full((3,), float(k)))
            q.put(None)

        t = threading.Thread(target=produce)
        t.start()
        total = torch.zeros(3)
        while (item := q.get()) is not None:
            total = total + item
        t.join()
        return [total]

    return run


@payload()
def parallel_kernels():
    """Operators large enough for torch's own worker threads."""
    a = torch.arange(400.0 * 400).reshape(400, 400) / 1e5

    def run():
        return [(a @ a).sum().round(), a.sort(dim=0)[1].sum(), a.softmax(0).sum().round(), a.cumsum(0).max().round()]

    return run


@payload()
def asyncio_tasks():
    results = {}

    async def task(k):
        x = torch.full((2,), float(k))
        for _ in range(3):
            with record_function(f"task {k}"):
                x = x.exp().log()
            await asyncio.sleep(0)
        results[k] = x  # not returned: asyncio would print it, which runs operators of its own

    async def main():
        await asyncio.gather(*(task(k) for k in range(4)))

    def run():
        asyncio.run(main())
        return [results[k] for k in range(4)]

    return run


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.tensor([i * i, i], dtype=torch.float32)


def loader_payload(workers):
    def run():
        seed()
        loader = torch.utils.data.DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=workers)
        return [batch.sum(0) for _ in range(2) for batch in loader]

    return run


@payload()
def loader_in_process():
    return loader_payload(0)


@payload(ordered=False)
def loader_two_workers():
    return loader_payload(2)
