# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls of modules. Prints "ready" and waits for a line, runs the cases named by its argument, prints "done" and waits for a line, then runs them
again under torch.profiler and prints what its trace has of them."""

import gc
import json
import sys
import tempfile
import threading

import torch
from torch import nn

torch.set_num_threads(1)


class Recursive(nn.Module):
    """Calls itself, and the module that it shares with another one."""

    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def forward(self, x, depth=3):
        x = self.shared(x)
        return self(x, depth - 1) if depth else x


class Dancer(nn.Module):
    """Overrides __call__(); a generator inside."""

    def __call__(self, *args):
        return super().__call__(*args)

    def forward(self, x):
        return sum(part.neg() for part in (x, x + 1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(16, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.nested = nn.Sequential(nn.Linear(16, 16), nn.Sequential(nn.ReLU(), shared, nn.Sequential(nn.Linear(16, 16), nn.ReLU())))
        self.recursive = Recursive(shared)
        self.other = Recursive(shared)
        self.dancer = Dancer()
        self.locals = nn.ModuleList([type("Linear", (nn.Linear,), {})(16, 16), nn.Linear(16, 16)])  # two classes of one name
        self.hooked = nn.Linear(16, 16)
        self.hooked.register_forward_hook(lambda m, args, out: out.relu())
        self.hooked.register_full_backward_hook(lambda m, gi, go: None)

    def forward(self, x):
        x = self.dancer(self.other(self.recursive(self.nested(self.layer(x)))))
        for m in self.locals:
            x = m(x)
        return self.hooked(x)


net = Net()
batch = torch.ones(2, 4, 16)


def model():
    for _ in range(2):
        net(batch).sum().backward()


def part():
    net.nested(batch)


def threads():
    many = [threading.Thread(target=net, args=(batch,)) for _ in range(4)]
    for t in many:
        t.start()
    for t in many:
        t.join()


def unicode():
    for word in ("Tänzer", "踊り子", "💃"):
        type(word, (Dancer,), {})()(batch)


def freed():
    """Classes and modules that take the places of those before."""
    for i in range(400):
        kind = type(f"Class{i % 50:03d}", (nn.Module,), {"forward": lambda self, x, nr=i % 50: torch.add(x, 1, alpha=nr)})
        kind()(batch)
        del kind
        if i % 7 == 0:
            gc.collect()


def deep():
    module = nn.ReLU()
    for _ in range(60):
        module = nn.Sequential(module)
    module(batch)


def profiled():
    """What torch.profiler has of the cases: [thread, begin, duration, name, module's number] of operators and calls of modules.
    None: nothing."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as prof:
        for case in cases:
            case()
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        prof.export_chrome_trace(f.name)
        with open(f.name, encoding="utf-8", errors="replace") as trace:
            trace = json.load(trace)
    if isinstance(trace, list):  # PyTorch without kineto has no Python functions
        return None
    return [[e["tid"], e["ts"], e["dur"], e["name"], e["args"].get("Python module id")] for e in trace["traceEvents"]
            if e.get("cat") == "cpu_op" or e["name"].startswith("nn.Module: ")]


cases = [globals()[case] for case in sys.argv[1].split(",")]
net(batch).sum().backward()
print("ready", flush=True)
sys.stdin.readline()
for case in cases:
    case()
print("done", json.dumps({path: type(m).__name__ for path, m in net.named_modules()}), flush=True)
sys.stdin.readline()
print("profiled", json.dumps(profiled()), flush=True)
sys.stdin.readline()
