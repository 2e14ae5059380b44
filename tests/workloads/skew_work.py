# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""skew_work.py FOLDER: a rank of a job of torchrun that trains, with a loader and two all-reduces in each step, until the launcher has ended or
FOLDER/stop exists. Prints `ready PID RANK`. FOLDER/slow holds `RANK WHAT MS`: that rank then needs so much longer in each step, in its loader (WHAT: load) or in
the operator skew::rest (op). Nothing here takes much of a processor: others may need them. Every rank adds to FOLDER/times-RANK a line for each step: WHAT, how long
its loader, that operator and the whole step took, in ns."""

import os
import sys
import time

import torch
import torch.distributed as dist

STEP = 0.04  # seconds
LIBRARY = torch.library.Library("skew", "DEF")
LIBRARY.define("rest(Tensor x, float seconds) -> Tensor")


def rest(x, seconds):
    time.sleep(seconds)
    return x.clone()


LIBRARY.impl("rest", rest, "CPU")


class Data(torch.utils.data.IterableDataset):
    def __init__(self):
        self.slow_ms = 0

    def __iter__(self):
        while True:
            time.sleep(STEP + self.slow_ms / 1e3)
            yield torch.ones(16)


def slow_of(folder, rank):
    try:
        with open(folder + "/slow", encoding="utf-8") as f:
            who, what, ms = f.read().split()
    except (OSError, ValueError):
        return None, 0
    return (what, float(ms)) if int(who) == rank else (None, 0)


def main():
    folder, launcher = sys.argv[1], os.getppid()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Data()
    loader = iter(torch.utils.data.DataLoader(data, batch_size=1))
    weights = torch.zeros(16, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.01)
    x, stop = torch.ones(64), torch.zeros(1)
    dist.barrier()
    os.write(1, f"ready {os.getpid()} {rank}\n".encode())  # one write: the ranks share the pipe
    with open(f"{folder}/times-{rank}", "w", encoding="utf-8", buffering=1) as times:
        while os.getppid() == launcher and not stop.item():
            marks = [time.perf_counter_ns()]
            what, ms = slow_of(folder, rank)
            data.slow_ms = ms if what == "load" else 0
            next(loader)
            marks.append(time.perf_counter_ns())
            torch.ops.skew.rest(x, ms / 1e3 if what == "op" else 0.001)
            marks.append(time.perf_counter_ns())
            weights.grad = torch.ones(16)
            stop.fill_(os.path.exists(folder + "/stop"))
            dist.all_reduce(stop)
            dist.all_reduce(x)
            optimizer.step()
            marks.append(time.perf_counter_ns())
            times.write(f"{what} {marks[1] - marks[0]} {marks[2] - marks[1]} {marks[3] - marks[0]}\n")
    # A thread of gloo may still hold a tensor. Where it gives that back while Python ends, the process aborts.
    os._exit(0)


if __name__ == "__main__":
    main()
