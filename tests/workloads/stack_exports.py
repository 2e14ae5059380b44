# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A few training steps of a transformer, under torch.profiler with stacks:  stack_exports.py OUT

Prints "ready", waits for a line, trains, writes OUT: {"stacks": lines of export_stacks() of the operators, "events": [[name, frames
innermost first, whether in the backward pass], ...] of the operators as torch lists them}, prints "done" and ends. torch's file has Python functions as
events, too, which ptbpf's does not: they are left out of the list before torch writes it.
"""

import json
import sys
import tempfile

import torch
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity, profile

STEPS = 12


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(32, 5)

    def forward(self, x, depth=3):
        if depth:  # recursion
            return self.forward(x * 1.5, depth - 1)
        return torch.cat([self.out(part) for part in x.chunk(2)])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True) for _ in range(2))
        self.conv = torch.nn.Conv1d(32, 32, 3, padding=1)
        self.head = Head()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.conv(x.transpose(1, 2)).relu().mean(-1))


def batches():
    for _ in range(STEPS):
        yield torch.randn(8, 12, 32), torch.randint(0, 5, (8,))


def train(model, optimizer):
    for x, y in batches():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


def in_backward(event):
    return event is not None and (event.scope == 1 or in_backward(event.cpu_parent))


def main():
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    train(model, optimizer)
    print("ready", flush=True)
    sys.stdin.readline()
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=verbose) as prof:
        train(model, optimizer)
    operators = EventList([e for e in prof.events() if not getattr(e, "is_python_function", False)])
    with tempfile.NamedTemporaryFile("r") as f:
        operators.export_stacks(f.name, "self_cpu_time_total")
        stacks = f.read().splitlines()
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        json.dump({"stacks": stacks, "events": [[e.key, e.stack, in_backward(e)] for e in operators]}, f)
    print("done", flush=True)


if __name__ == "__main__":
    main()
