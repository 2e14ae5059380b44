# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An ordinary training loop for the consumers' traces: two threads, annotations, an optimizer, an error
that is caught. Runs until it is killed; writes one line when it is warm."""

import threading
import time

import torch
from torch.profiler import record_function

torch.manual_seed(0)
torch.set_num_threads(1)


def side_work():
    while True:
        with record_function("side work"):
            torch.randn(10, 10) @ torch.randn(10, 10)
        time.sleep(0.01)


def main():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                                torch.nn.Linear(16 * 15 * 15, 10))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    threading.Thread(target=side_work, daemon=True).start()
    for i in range(10**9):
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        try:
            torch.ones(2) @ torch.ones(3)
        except RuntimeError:
            pass
        if i == 20:
            print("warm", flush=True)


if __name__ == "__main__":
    main()
