# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Payloads of torch.compile; code is compiled while preparing, the compared work only runs it. No payload may reset the
compiler: that would discard the code of the others."""

import shutil

import torch
from torch import nn
from torch.autograd.profiler import record_function

from payloads import Skip, need, payload, seed


def compiled_step(backend):
    need(hasattr(torch, "compile"), "no torch.compile")
    if backend == "inductor":
        need(shutil.which("g++"), "inductor needs g++")
    seed()
    try:
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
        fast = torch.compile(model, backend=backend)
        x = torch.randn(4, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step():
            optimizer.zero_grad()
            loss = fast(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach().mul(1e3).round()

        for _ in range(3):
            step()
    except RuntimeError as err:  # "Dynamo is not supported on Python 3.x", "Python 3.11+ not yet supported"
        if "not supported" in str(err) or "not yet supported" in str(err):
            raise Skip(str(err).splitlines()[0]) from err
        raise

    def run():
        out = []
        for k in range(3):
            with record_function(f"compiled step {k}"):
                out.append(step())
        with torch.no_grad():
            out.append(model(x).shape)
        return out

    return run


@payload(group="compile")
def compile_eager():
    return compiled_step("eager")


@payload(group="compile")
def compile_aot_eager():
    return compiled_step("aot_eager")


@payload(group="compile")
def compile_inductor():
    return compiled_step("inductor")


@payload(group="compile")
def compile_graph_break():
    """One region, a break, another region, as in PyTorch's own test of the region names."""
    need(hasattr(torch, "compile"), "no torch.compile")
    import torch._dynamo as dynamo

    def fn(x, y):
        r = y.sum(dim=1)
        dynamo.graph_break()
        return x * r

    try:
        fast = torch.compile(fn, backend="eager")
        shapes = [torch.ones(10, 10), torch.ones(10, 15), torch.ones(10, 15)]
        for s in shapes:
            fast(torch.ones(10), s)
    except RuntimeError as err:
        raise Skip(str(err).splitlines()[0]) from err

    return lambda: [fast(torch.ones(10), s) for s in shapes]


def dynamic_shapes(backend):
    """As in torch's own test of dynamic shapes under a profiler: one graph, many sizes."""
    need(hasattr(torch, "compile"), "no torch.compile")

    def fn(x, n):
        return torch.cat([x.sin() * x.size(0), x[1:].cos()]).view(-1)[n:].sum() + x.size(1) / 3

    try:
        fast = torch.compile(fn, backend=backend, dynamic=True)
        sizes = [torch.ones(n, n + 1) for n in (3, 5, 8)]
        for x in sizes:
            fast(x, 2)
    except RuntimeError as err:
        raise Skip(str(err).splitlines()[0]) from err

    return lambda: [fast(x, 2) for x in sizes]


@payload(group="compile")
def compile_dynamic_eager():
    return dynamic_shapes("eager")


@payload(group="compile")
def compile_dynamic_aot():
    return dynamic_shapes("aot_eager")
