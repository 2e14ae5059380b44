# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
rank_work.py FOLDER [RANK]: a rank of a job of torchrun, or of two without a launcher. Exports torch.profiler's trace as FOLDER/torch-RANK.json,
prints `ready PID RANK`, then reduces a tensor with the others until its parent has ended, and prints `at PID RANK` every 50 times. Where
FOLDER/more is, it makes one more group, exports FOLDER/more-RANK.json, and prints `more PID RANK`.
"""

import os
import sys
import time

import torch
import torch.distributed as dist


def export(name, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        dist.all_reduce(x)
    prof.export_chrome_trace(f"{sys.argv[1]}/{name}-{dist.get_rank()}.json")


def say(word):
    os.write(1, f"{word} {os.getpid()} {dist.get_rank()}\n".encode())  # one write: the ranks share the pipe


def main():
    launcher = os.getppid()
    if len(sys.argv) > 2:
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=int(sys.argv[2]), world_size=2)
    else:
        dist.init_process_group("gloo")
    dist.new_group([1], group_desc="the last one")
    x = torch.ones(8)
    export("torch", x)
    dist.barrier()
    say("ready")
    more, cnt = False, 0
    while os.getppid() == launcher:
        wanted = torch.tensor(float(os.path.exists(sys.argv[1] + "/more")))
        dist.all_reduce(wanted)
        if wanted and not more:
            more = dist.new_group([0, 1])
            export("more", x)
            say("more")
        torch.neg(x)
        cnt += 1
        if cnt % 50 == 0:
            say("at")
        time.sleep(0.001)


if __name__ == "__main__":
    main()
