# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Payloads for the comparison of memory: every sequence in which a CPU block is allocated and freed on one thread. Sizes are
odd, so that each block can be identified by its bytes. Run in the windows of memory only."""

import atexit
import os
import tempfile

import torch
from torch import nn

from payloads import need, payload, seed

memory = payload(only="memory")


@memory
def views_and_in_place():
    x = torch.ones(11, 13)

    def run():
        y = x + 1
        v = y.view(-1)[3:17].expand(5, 14)
        y.mul_(2).add_(x).clamp_(0, 9)
        w = v.contiguous()
        del y, v
        return [w, w.t().reshape(-1)]

    return run


@memory
def out_arguments():
    def run():
        out, small = torch.empty(0), torch.empty(3)
        torch.add(torch.ones(101), 1, out=out)
        torch.mul(out, 2, out=out)
        joined = torch.cat([out, small.zero_()], out=torch.empty(0))
        torch.sort(joined, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))
        return [out, joined]

    return run


@memory
def resizing():
    def run():
        x = torch.zeros(7)
        for n in (21, 1001, 1001, 5, 0, 33):
            x.resize_(n)
        y = torch.zeros(55)
        storage = y.storage()
        storage.resize_(155)
        storage.resize_(0)
        z = torch.zeros(9)
        z.set_(torch.ones(77).storage(), 3, (5,), (2,))
        return [x.numel(), z]

    return run


@memory
def sizes():
    def run():
        kept = [torch.empty(n, dtype=torch.uint8) for n in (0, 1, 2, 63, 64, 65, 4095, 4097, 131073, (1 << 21) + 1)]
        torch.empty(0, 5), torch.empty(()), torch.empty((3, 0, 2))
        big = torch.empty((64 << 20) + 1, dtype=torch.uint8)
        del big
        return [len(kept)]

    return run


@memory
def foreign_memory():
    """Blocks of other allocators: none of them may be recorded."""
    try:
        import numpy
    except ImportError:
        numpy = None
    need(numpy is not None, "numpy")
    path = os.path.join(tempfile.gettempdir(), f"ptbpf-memory-{os.getpid()}")
    with open(path, "wb") as f:
        f.write(bytes(4096))
    atexit.register(os.unlink, path)

    def run():
        a = torch.from_numpy(numpy.ones(129, dtype=numpy.float32))
        b = torch.frombuffer(bytearray(520), dtype=torch.float32)
        c = torch.from_file(path, shared=True, size=1024)
        d = (a + 1).numpy()
        e = torch.as_tensor(d) * 2
        return [a, b, c, e]

    return run


@memory
def shared_memory():
    def run():
        x = torch.full((123,), 2.0)
        x.share_memory_()
        y = torch.zeros(17, dtype=torch.int64).share_memory_()
        z = x + 1
        del x
        return [y, z]

    return run


@memory
def graph_and_gradients():
    seed()
    w = torch.randn(19, 23, requires_grad=True)

    def run():
        w.grad = None
        for _ in range(2):  # saved tensors, gradients that are stolen, then accumulated
            h = torch.randn(5, 19) @ w
            h.tanh().pow(2).sum().backward()
        return [w.grad.shape]

    return run


@memory
def new_model_and_state():
    """Parameters, optimizer state and gradients made and dropped."""

    def run():
        seed()
        model = nn.Sequential(nn.Linear(31, 17), nn.ReLU(), nn.Linear(17, 3))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(torch.randn(9, 31)).square().mean()
            loss.backward()
            optimizer.step()
        return [loss.detach()]

    return run


@memory
def allocations_that_fail():
    def run():
        failed = 0
        for size in (1 << 60, (1 << 59) + 8):
            kept = torch.ones(41)
            try:
                torch.empty(size, dtype=torch.uint8)
            except RuntimeError:
                failed += 1
            try:
                kept.resize_(size)
            except RuntimeError:
                failed += 1
            try:
                torch.mm(torch.ones(2, 43), torch.ones(2, 43))  # raises with its arguments still alive
            except RuntimeError:
                failed += 1
        return [failed]

    return run


@memory
def frees_what_was_there_before():
    """Blocks that were allocated before the window: their size is unknown."""
    stock = [torch.ones(1009) for _ in range(64)]

    def run():
        torch.ones(3)
        stock.pop()
        with torch.autograd.profiler.record_function("frees one"):
            stock.pop()
        return [torch.ones(5)]

    return run


@memory
def keeps_from_run_to_run():
    kept = []

    def run():
        kept.append(torch.ones(211) + 1)
        if len(kept) > 2:
            kept.pop(0)
        return [kept[-1]]

    return run


@memory
def outside_of_operators():
    """Blocks that are freed between operators, in annotations, in containers and by reference cycles that are broken."""

    def run():
        box = {"a": torch.ones(61), "b": [torch.ones(67), torch.ones(71)]}
        with torch.autograd.profiler.record_function("drops a"):
            del box["a"]
            with torch.autograd.profiler.record_function("drops b"):
                box["b"].pop()
                kept = torch.ones(73)
        box.clear()
        return [kept]

    return run


@memory
def kernels_with_scratch():
    seed()
    image, weight = torch.randn(2, 3, 15, 15), torch.randn(4, 3, 3, 3)
    a = torch.randn(12, 12)

    def run():
        return [torch.nn.functional.conv2d(image, weight, padding=1).shape, a.sort(dim=1)[1], a.topk(3)[1], a.argsort(),
                torch.unique(torch.tensor([3, 1, 3, 2])), a.nonzero().shape, a[a > 0].shape, torch.tensor([[1.0, 2], [3, 4]]),
                torch.stack([a, a]).shape, a.cumsum(1).shape]

    return run
