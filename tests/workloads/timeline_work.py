# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Trains small models, for the truth of memory timelines.

  timeline_work.py --torch DIR    three steps of each model under torch.profiler, its raw timeline in DIR/KIND.raw.json.gz
  timeline_work.py                prints `ready`; for each line KIND a child that prints `set`, takes the same three steps at the line `go`, prints
                                  `done`, and ends at the line `end`

Each kind runs in a child of its own, so that no memory of another one is there.
"""

import os
import sys

import torch
from torch import nn

STEPS = 3
KINDS = ("sgd", "adam", "conv", "attention", "frozen", "same_batch", "kept_gradients", "no_step", "inference")


def model(kind):
    if kind == "conv":
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1),
                             nn.Linear(8 * 30 * 30, 10))
    if kind == "attention":
        return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    if kind == "frozen":
        net[0].requires_grad_(False)
    return net


class Work:
    def __init__(self, kind):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.kind = kind
        self.model = model(kind)
        adam = kind == "adam"
        self.optimizer = (torch.optim.Adam(self.model.parameters()) if adam else
                          torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9))
        self.same = self.batch()

    def batch(self):
        if self.kind == "conv":
            return torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
        if self.kind == "attention":
            return torch.randn(4, 16, 64), torch.zeros(4, 16, 64)
        return torch.randn(32, 64), torch.randint(0, 10, (32,))

    def step(self):
        x, y = self.same if self.kind == "same_batch" else self.batch()
        if self.kind == "inference":
            with torch.no_grad():
                self.model(x).sum()
            return
        self.optimizer.zero_grad(set_to_none=self.kind != "kept_gradients")
        out = self.model(x)
        loss = (nn.functional.mse_loss if self.kind == "attention" else nn.functional.cross_entropy)(out, y)
        loss.backward()
        if self.kind != "no_step":
            self.optimizer.step()

    def steps(self):
        for _ in range(STEPS):
            self.step()


def prepared(kind):
    work = Work(kind)
    work.steps()
    work.optimizer.zero_grad()
    return work


def profiled(kind, folder):
    work = prepared(kind)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        work.steps()
    prof.export_memory_timeline(os.path.join(folder, kind + ".raw.json.gz"), device="cpu")


def traced(kind):
    work = prepared(kind)
    print("set", os.getpid(), flush=True)
    check_line("go")
    work.steps()
    print("done", flush=True)
    check_line("end")


def check_line(word):
    if sys.stdin.readline().strip() != word:
        os._exit(1)


def in_child(function, *args):
    pid = os.fork()
    if not pid:
        function(*args)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"{args[0]}: its process ended ill")


def main():
    if sys.argv[1:2] == ["--torch"]:
        for kind in KINDS:
            in_child(profiled, kind, sys.argv[2])
        return
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        in_child(traced, line.strip())


if __name__ == "__main__":
    main()
