# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Training loops in which windows begin at different points, for the truth of categories of memory.

  category_work.py --torch FOLDER    each kind under torch.profiler, its raw timeline in FOLDER/KIND.raw.json.gz. With
                                     NO_FREE (libno_free.so) free() does nothing: torch confuses a block from before
                                     the window with the next one at its address, since it does not see its free
  category_work.py                   prints `ready`; for each line KIND on stdin prepares it and prints `set`; for the next
                                     line takes the same steps and prints `done`; for a third line frees everything
  category_work.py --running         trains with Adam, then with its fused form; prints `running STATE PARAMETERS`, their
                                     bytes, and for each line `waited` six steps later; `next` switches
"""

import ctypes
import gc
import os
import sys
import threading

import torch
from torch import nn

KINDS = {}


def kind(function):
    """The function prepares what exists before the window and returns what happens in it."""
    KINDS[function.__name__] = function
    return function


class Loop:
    def __init__(self, make_optimizer, model=None):
        torch.manual_seed(0)
        self.model = model or nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
        self.optimizer = make_optimizer(self.model.parameters())

    def forward(self):
        self.loss = nn.functional.cross_entropy(self.model(torch.randn(32, 64)), torch.randint(0, 10, (32,)))

    def backward(self):
        self.loss.backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, count):
        for _ in range(count):
            self.forward()
            self.backward()
            self.update()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def running(make_optimizer, before=2, model=None):
    loop = Loop(make_optimizer, model)
    loop.steps(before)
    return lambda: loop.steps(3)


@kind
def momentum():
    return running(sgd)


@kind
def momentum_foreach():
    return running(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True))


@kind
def momentum_first():
    return running(sgd, 0)


@kind
def momentum_one():
    """A single step creates the state and does not change it."""
    loop = Loop(sgd)
    return lambda: loop.steps(1)


@kind
def adam_first():
    return running(torch.optim.Adam, 0)


@kind
def adamw():
    return running(lambda p: torch.optim.AdamW(p, foreach=False))


@kind
def adamw_foreach():
    return running(lambda p: torch.optim.AdamW(p, foreach=True))


@kind
def adamw_foreach_first():
    return running(lambda p: torch.optim.AdamW(p, foreach=True), 0)


@kind
def adamw_fused():
    return running(lambda p: torch.optim.AdamW(p, fused=True))


@kind
def after_forward():
    """The window begins before backward(), which reads what forward() left."""
    loop = Loop(torch.optim.Adam)
    loop.steps(2)
    loop.forward()

    def run():
        loop.backward()
        loop.update()
        loop.steps(2)
    return run


@kind
def after_backward():
    """The window begins before step(): gradients are older."""
    loop = Loop(torch.optim.Adam)
    loop.steps(2)
    loop.forward()
    loop.backward()

    def run():
        loop.update()
        loop.steps(2)
    return run


@kind
def accumulated():
    """The window begins between two batches of one step."""
    loop = Loop(sgd)
    loop.steps(2)
    loop.forward()
    loop.backward()

    def run():
        for _ in range(2):
            loop.forward()
            loop.backward()
            loop.update()
            loop.forward()
            loop.backward()
    return run


@kind
def normalized():
    """Buffers that forward() changes."""
    return running(torch.optim.Adam, 2, nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 10)))


class Block(nn.Module):
    """A transformer as people write it, with a mask that is a buffer."""

    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(200, 64), nn.Embedding(64, 64)
        self.norm, self.qkv, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)
        self.mlp = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64))
        self.head = nn.Linear(64, 10)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)))

    def forward(self, x):
        x = (x.abs() * 20).long()
        h = self.embed(x) + self.position(torch.arange(x.shape[1]))
        q, k, v = self.qkv(self.norm(h)).chunk(3, dim=-1)
        a = q @ k.transpose(-2, -1) / 8
        a = a.masked_fill(self.mask == 0, float("-inf")).softmax(-1)
        h = h + self.out(a @ v)
        h = h + self.mlp(h)
        return self.head(h.mean(1))


@kind
def transformer():
    return running(torch.optim.AdamW, 2, Block())


@kind
def averaged():
    """A hook of the optimizer changes its own tensors in step()."""
    loop = Loop(torch.optim.Adam)
    shadow = [torch.zeros_like(p) for p in loop.model.parameters()]

    def average(*_):
        for s, p in zip(shadow, loop.model.parameters()):
            s.lerp_(p.detach(), 0.1)
    loop.optimizer.register_step_post_hook(average)
    loop.steps(2)
    return lambda: loop.steps(2)


@kind
def closure():
    """Everything happens inside of step()."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.Linear(128, 10))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, history_size=2)
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def loss():
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(model(x), y)
        value.backward()
        return value
    optimizer.step(loss)
    return lambda: optimizer.step(loss)


@kind
def saved():
    """The state is read outside of step()."""
    loop = Loop(torch.optim.Adam)
    loop.steps(2)

    def run():
        loop.steps(1)
        copies = [s["exp_avg"].clone() for s in loop.optimizer.state.values()]
        del copies
        loop.steps(1)
    return run


def prepared(name):
    gc.collect()  # cycles of the previous kind end here, not in the window
    return KINDS[name]()


def run_on(loop, commands):
    """Steps until the next command."""
    state = [t for s in loop.optimizer.state.values() for t in s.values()]
    print("running", sum(t.nbytes for t in state), sum(p.nbytes for p in loop.model.parameters()), flush=True)
    done, word = 0, ""
    while word != "next":
        loop.steps(1)
        done += 1
        if not word and commands:
            word, done = commands.pop(), 0
        if word and done == 6:
            print("waited", flush=True)
            word = ""


def run_endlessly():
    commands = []
    threading.Thread(target=lambda: [commands.append(line.strip()) for line in sys.stdin], daemon=True).start()
    for fused in (False, True):
        loop = Loop(lambda p: torch.optim.Adam(p, fused=fused))
        loop.steps(1)
        run_on(loop, commands)


def main():
    torch.set_num_threads(1)
    if "NO_FREE" in os.environ:
        ctypes.CDLL(os.environ["NO_FREE"]).no_free_begin()
    if sys.argv[1:] == ["--running"]:
        run_endlessly()
        return
    if len(sys.argv) > 2:
        for name in KINDS:
            run = prepared(name)
            with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
                run()
            try:
                prof.export_memory_timeline(os.path.join(sys.argv[2], name + ".raw.json.gz"), device="cpu")
            except AssertionError as e:  # torch contradicts itself
                print(name, "has no truth:", e)
            del run
        return
    print("ready", flush=True)
    while name := sys.stdin.readline().strip():
        run = prepared(name)
        print("set", flush=True)
        sys.stdin.readline()
        run()
        print("done", flush=True)
        sys.stdin.readline()  # nothing is freed before the window ends
        del run


if __name__ == "__main__":
    main()
