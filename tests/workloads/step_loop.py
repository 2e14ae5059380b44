# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A training loop that numbers its own steps: each is an annotation "NAMEN", which holds its Optimizer.step as those of training
frameworks do. The steps take turns to be short and long.

  step_loop.py MS [NAME] [evaluate]    a long step rests so many milliseconds; evaluate: without an optimizer
"""

import itertools
import sys
import time

import torch
from torch.profiler import record_function


def main():
    rest = float(sys.argv[1]) / 1000
    name = sys.argv[2] if len(sys.argv) > 2 else "iteration "
    trains = sys.argv[3:] != ["evaluate"]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 16)
    for n in itertools.count():
        with record_function(f"{name}{n}"):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            with record_function("stage even" if n % 2 == 0 else "stage odd"):
                loss.backward()
                torch.neg(x)
            if n % 2:
                time.sleep(rest)
            if trains:
                optimizer.step()
        if n in (3, 100):
            print(f"step {n}", flush=True)


if __name__ == "__main__":
    main()
