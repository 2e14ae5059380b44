# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""rank_work.py FOLDER: a rank of a job of torchrun. Exports torch.profiler's trace as FOLDER/torch-RANK.json, prints `ready PID RANK`,
then reduces a tensor with the others again and again, until the launcher has ended."""

import os
import sys
import time

import torch
import torch.distributed as dist


def main():
    launcher = os.getppid()
    dist.init_process_group("gloo")
    x = torch.ones(8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        dist.all_reduce(x)
    prof.export_chrome_trace(f"{sys.argv[1]}/torch-{dist.get_rank()}.json")
    dist.barrier()
    # one write: the ranks share the pipe
    os.write(1, f"ready {os.getpid()} {dist.get_rank()}\n".encode())
    while os.getppid() == launcher:
        dist.all_reduce(x)
        torch.neg(x)
        time.sleep(0.001)


if __name__ == "__main__":
    main()
