# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A training loop that may have one known difference.

  pairs.py DIFFERENCE

  none           it trains
  slow_operator  cumsum() sums along the other dimension, which is slower, of the same shapes
  copy           a batch is copied before it is used
  loader         a batch takes longer to load
  two_threads    operators have two threads, one_thread: one; their matrices are larger than those of the others
  addmm          the layers are called without aten::linear around the product: no difference
  waits          the program sleeps in each step

Prints "ready" when it is warm, then steps until it is killed. A line on stdin is another difference, which "now DIFFERENCE" answers."""

import select
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from measured import end_with_parent

DIFFERENCE = sys.argv[1]
ROWS, WIDTH, LAYERS, WARM = 96, 512, 3, 10
LARGE = 1024 if "thread" in DIFFERENCE else 512  # of the first one, operators that two threads share


class Batches(torch.utils.data.Dataset):
    """A quarter of a batch in each item, which takes a while to make."""

    def __init__(self):
        self.rows = torch.randn(ROWS // 4, WIDTH)

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        until = time.thread_time() + (0.003 if DIFFERENCE == "loader" else 0.0003)
        while time.thread_time() < until:
            pass
        return self.rows


class Layer(nn.Linear):
    def forward(self, x):
        if DIFFERENCE == "addmm":
            return torch.addmm(self.bias, x, self.weight.t())
        return functional.linear(x, self.weight, self.bias)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(WIDTH, WIDTH) for _ in range(LAYERS))
        self.large = torch.randn(LARGE, LARGE)
        self.pages = torch.zeros(1 << 23)
        self.tall = torch.randn(2048, 1024)

    def forward(self, x):
        if DIFFERENCE == "copy":
            x = x + self.pages.clone()[0]
        if DIFFERENCE == "waits":
            time.sleep(0.005)
        x = x + torch.mm(self.large, self.large)[0, 0] * 1e-6
        x = x + torch.cumsum(self.tall, 0 if DIFFERENCE == "slow_operator" else 1)[0, 0] * 1e-6
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def listen():
    """Takes another difference, if there is one."""
    global DIFFERENCE  # pylint: disable=global-statement
    if select.select([sys.stdin], [], [], 0)[0]:
        DIFFERENCE = sys.stdin.readline().strip()
        print("now", DIFFERENCE, flush=True)


def main():
    end_with_parent()
    torch.manual_seed(1)
    torch.set_num_threads(2 if DIFFERENCE == "two_threads" else 1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=False)
    batches = iter(torch.utils.data.DataLoader(Batches(), batch_size=4))
    for i in range(1 << 30):
        if i == WARM:
            print("ready", flush=True)
        optimizer.zero_grad()
        model(next(batches).flatten(0, 1)).square().mean().backward()
        optimizer.step()
        listen()


main()
