# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The program of test_dataflow.py: one step of a model, the same operators in every run.

  dataflow_target.py KIND --go FILE       prepares, prints `ready`, does the step when there is such a file, prints `done`
  dataflow_target.py KIND --torch FILE    does it under torch's ExecutionTraceObserver
  ... --no-free LIBRARY                   with that library's free() (LD_PRELOAD) switched off during the step
"""

import argparse
import copy
import ctypes
import gc
import io
import os
import threading
import time
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.profiler import record_function
from torch.profiler import ExecutionTraceObserver

KINDS = {}


def kind(f):
    KINDS[f.__name__] = f
    return f


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(c, 2))
        a = q @ k.transpose(-2, -1) * (q.size(-1) ** -0.5)
        a = F.softmax(a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), -1)
        x = x + F.dropout(self.out((a @ v).transpose(1, 2).reshape(n, t, c)), 0.1, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)))), 0.1, self.training)


class Gpt(nn.Module):
    def __init__(self, vocabulary=128, width=32, layers=4):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))


def trained(model, optimizer, x, y, loss):
    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss(model(x), y)
        value.backward()
        torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], 1.0)
        optimizer.step()
        return value.item()

    return step


@kind
def gpt2():
    model = Gpt()
    ids = torch.randint(0, 128, (4, 33))
    return trained(model, torch.optim.AdamW(model.parameters(), lr=1e-3), ids[:, :-1], ids[:, 1:],
                   lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()))


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                                  nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.side = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride != 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x), inplace=True)


@kind
def resnet():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), Residual(8, 8, 1),
                          Residual(8, 16, 2), Residual(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4),
                   torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,)), F.cross_entropy)


@kind
def adam():
    """Optimizers tensor by tensor, in lists and fused; recurrent layers."""
    model = nn.LSTM(8, 16, 2)
    x, y = torch.randn(5, 3, 8), torch.randn(5, 3, 16)
    optimizers = [torch.optim.Adam(model.parameters(), foreach=False), torch.optim.Adam(model.parameters(), foreach=True),
                  torch.optim.Adam(model.parameters(), fused=True, amsgrad=True)]
    steps = [trained(lambda x: model(x)[0], o, x, y, F.mse_loss) for o in optimizers]
    return lambda: [s() for s in steps]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y * x

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * g * y


@kind
def aliases():
    """Views, in-place changes, set_data(), tensors made outside of operators, saved results. NumPy and Python allocate more
    than the blocks that they cache, because the truth needs free()."""
    base = torch.arange(48.0)
    weight = torch.randn(16, 16, requires_grad=True)

    def step():
        for i in range(6):
            x = base.clone().view(6, 8)
            a, b = x.split(3)
            a.add_(b.t().reshape(3, 8))
            x.unbind(0)[1].mul_(2)
            x.data = torch.ones(4, 4)
            x += 1
            y = torch.empty(0)
            y.resize_(5 + i).fill_(i)
            torch.add(base[:4], base[4:8], out=y)
            y.set_(torch.zeros(3))
            z = torch.from_numpy(torch.ones(20, 20).numpy().copy()) + torch.frombuffer(bytearray(2048), dtype=torch.float32).sum()
            w = weakref.ref(z)
            z = z.detach().to(torch.float64).to(torch.float32).contiguous()
            assert w() is None
            h = Cube.apply(torch.sigmoid(weight @ weight.t()).tanh().exp())
            g, = torch.autograd.grad(h.sum(), weight, create_graph=True)
            g.pow(2).sum().backward()
            c = copy.deepcopy(weight.detach())
            f = io.BytesIO()
            torch.save(c, f)
            f.seek(0)
            c = torch.load(f) * 2
            s = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, float(i)])
            s = torch.sparse_coo_tensor(*s, (2, 2)).coalesce()
            (s.values() + 1).sum() + s.indices().sum()
            torch.cat([torch.full((2,), float(j)) for j in range(5)]).chunk(2)[0].tolist()
            torch.stack([F.relu(c[j]) for j in range(3)]).max(0).values.cumsum(0).tolist()
            weight.grad = None
        return float(z.sum() + c.sum())

    return step


@kind
def threads():
    """Tensors whose last reference is on another thread than the first."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    x = torch.randn(4, 8)

    def step():
        for _ in range(4):
            box = []

            def work():
                box.append(torch.relu(x * 2) + 1)

            t = threading.Thread(target=work)
            t.start()
            t.join()
            model(box.pop()).sum().backward()

    return step


def observed(path, step, library):
    observer = ExecutionTraceObserver()
    observer.register_callback(path)
    gc.collect()
    if library:
        ctypes.CDLL(library).no_free_begin()
    observer.start()
    try:
        step()
    finally:
        observer.stop()
        observer.unregister_callback()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("kind", choices=KINDS)
    p.add_argument("--torch")
    p.add_argument("--go")
    p.add_argument("--no-free")
    args = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    step = KINDS[args.kind]()
    for _ in range(2):
        step()
    gc.disable()

    def run():
        with record_function("## step ##"):
            step()

    if args.torch:
        observed(args.torch, run, args.no_free)
        return
    print("ready", flush=True)
    while not os.path.exists(args.go):
        time.sleep(0.01)
    run()
    print("done", flush=True)
    while os.path.exists(args.go):
        time.sleep(0.01)


main()
