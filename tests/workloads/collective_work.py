# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Rank 0 of two that run collectives with gloo, by commands from stdin, one a line; answers each with `answer JSON`, and prints
`answer "ready"` first. Rank 1 is its child and does the same collectives."""

import json
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist


class Commands:
    def __init__(self, rank, path):
        dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
        self.rank = rank
        self.x = torch.ones(1000)

    def reduce(self, cnt):
        """CNT asynchronous collectives, each waited for."""
        for _ in range(int(cnt)):
            dist.all_reduce(self.x, async_op=True).wait()
            torch.neg(self.x)

    def every(self):
        """One call of each collective that gloo has."""
        one, two, first = torch.ones(5), torch.ones(2, 3), not self.rank
        dist.broadcast(one, 0)
        dist.reduce(two, 0)
        dist.all_gather([torch.zeros(2, 3), torch.zeros(2, 3)], two)
        dist.all_gather_into_tensor(torch.zeros(10), one)
        dist.gather(one, [torch.zeros(5), torch.zeros(5)] if first else None)
        dist.scatter(one, [torch.ones(5), torch.ones(5)] if first else None)
        dist.reduce_scatter_tensor(torch.zeros(5), torch.ones(10))
        dist.all_to_all_single(torch.zeros(6), torch.ones(6), [2, 4] if first else [4, 2], [2, 4] if first else [4, 2])
        dist.barrier()

    def profile_start(self, et):
        self.observer = torch.profiler.ExecutionTraceObserver()
        self.observer.register_callback(et)
        self.observer.start()
        self.prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
        self.prof.start()

    def profile_stop(self, path):
        self.prof.stop()
        self.observer.stop()
        self.observer.unregister_callback()
        self.prof.export_chrome_trace(path)


def main():
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        run(Commands(1, sys.argv[1]), None)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/store"
        with subprocess.Popen([sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as other:
            run(Commands(0, path), other.stdin)


def run(commands, other):
    """The other rank does what is a collective."""
    commands.reduce(1)
    print('answer "ready"', flush=True)
    for line in sys.stdin:
        name, *args = line.split()
        if other and name in ("reduce", "every"):
            print(line, end="", file=other, flush=True)
        print("answer", json.dumps(getattr(commands, name)(*args)), flush=True)


if __name__ == "__main__":
    main()
