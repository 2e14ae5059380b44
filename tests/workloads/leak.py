# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A training loop that keeps one tensor, or a list of strings, of every step, as users do by accident, or the same loop without the mistake.

  leak.py leak|strings|healthy [STEPS]     STEPS 0: until it is stopped; prints `step N` every 20 steps
"""

import sys

import torch
from torch import nn
from torch.profiler import record_function


def main():
    mode, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    history, recent = [], []
    done = 0
    while steps == 0 or done < steps:
        with record_function("forward"):
            hidden = model[:2](torch.randn(32, 64))
            loss = model[2](hidden).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with record_function("update statistics"):
            kept = hidden.detach().cumsum(0)
            recent.append(kept.mean())
            if mode == "leak":
                history.append(kept)
            if mode == "strings":
                history.append([f"step {done}, line {i}: {'x' * 400}" for i in range(400)])
        if len(recent) > 8:  # so that a window of the last few steps has no leak
            recent.pop(0)
        done += 1
        if done == 1 or done % 20 == 0:
            print(f"step {done}", flush=True)


if __name__ == "__main__":
    main()
