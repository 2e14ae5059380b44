# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A rank alone that runs collectives with gloo, by commands from stdin, one a line; answers each with `answer JSON`, and prints
`answer "ready"` first."""

import json
import sys

import torch
import torch.distributed as dist


class Commands:
    def __init__(self):
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        self.x = torch.ones(1000)

    def reduce(self, cnt):
        """CNT asynchronous collectives, each waited for."""
        for _ in range(int(cnt)):
            dist.all_reduce(self.x, async_op=True).wait()
            torch.neg(self.x)

    def every(self):
        """One call of each collective that gloo has for one rank."""
        one, two = torch.ones(5), torch.ones(2, 3)
        dist.broadcast(one, 0)
        dist.reduce(two, 0)
        dist.all_gather([torch.zeros(2, 3)], two)
        dist.all_gather_into_tensor(torch.zeros(5), one)
        dist.gather(one, [torch.zeros(5)])
        dist.scatter(one, [torch.ones(5)])
        dist.reduce_scatter_tensor(torch.zeros(5), one)
        dist.all_to_all_single(torch.zeros(5), one)
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
    commands = Commands()
    commands.reduce(1)
    print('answer "ready"', flush=True)
    for line in sys.stdin:
        name, *args = line.split()
        print("answer", json.dumps(getattr(commands, name)(*args)), flush=True)


if __name__ == "__main__":
    main()
