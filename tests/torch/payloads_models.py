# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Payloads like training and inference: layers, optimizers, recurrent nets, TorchScript."""

import torch
from torch import nn
from torch.nn import functional as F

from payloads import need, payload, seed


def step(model, optimizer, x, target, loss=F.mse_loss):
    optimizer.zero_grad()
    value = loss(model(x), target)
    value.backward()
    optimizer.step()
    return value.detach()


class CustomSGD(torch.optim.SGD):
    """A subclass: its own name must appear in the annotation."""


@payload()
def optimizers():
    makers = [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.01),
              lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.RMSprop(p, lr=0.01),
              lambda p: CustomSGD(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.01, foreach=True)]
    seed()
    x, target = torch.randn(8, 4), torch.randn(8, 2)
    pairs = []
    for make in makers:
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
        pairs.append((model, make(model.parameters())))

    def run():
        return [step(m, o, x, target) for m, o in pairs for _ in range(3)]

    return run


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
                                  nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(channels))

    def forward(self, x):
        return F.relu(self.body(x) + x)


@payload()
def residual_net():
    seed()
    model = nn.Sequential(nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                          Residual(8), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, target = torch.randn(2, 3, 32, 32), torch.tensor([1, 3])

    def run():
        return [step(model, optimizer, x, target, F.cross_entropy).mul(1e3).round() for _ in range(2)]

    return run


@payload()
def transformer():
    seed()
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(50, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 50))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.arange(24).reshape(2, 12)

    def loss(out, target):
        return F.cross_entropy(out.flatten(0, 1), target.flatten())

    def run():
        seed()
        out = [step(model, optimizer, tokens, tokens, loss).mul(1e3).round() for _ in range(2)]
        model.eval()
        with torch.inference_mode():
            out.append(model(tokens).argmax(-1).sum())
        model.train()
        return out

    return run


@payload()
def attention():
    seed()
    q = torch.randn(2, 2, 8, 16, requires_grad=True)
    mha = nn.MultiheadAttention(16, 2, batch_first=True)

    def run():
        q.grad = None
        if hasattr(F, "scaled_dot_product_attention"):
            F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        out, weights = mha(q[0].detach(), q[0].detach(), q[0].detach())
        out.sum().backward()
        return [weights.shape]

    return run


@payload()
def recurrent():
    seed()
    lstm, gru = nn.LSTM(4, 6, 2, batch_first=True), nn.GRU(4, 6, bidirectional=True)
    x = torch.randn(3, 5, 4)

    def run():
        a, (h, _) = lstm(x)
        b, _ = gru(x)
        (a.sum() + b.sum() + h.sum()).backward()
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]), batch_first=True)
        out, _ = lstm(packed)
        return [nn.utils.rnn.pad_packed_sequence(out)[1]]

    return run


@payload()
def vision_layers():
    seed()
    x = torch.randn(1, 4, 12, 12, requires_grad=True)
    conv, up = nn.Conv2d(4, 8, 3, groups=2, dilation=2), nn.ConvTranspose2d(8, 4, 3, stride=2)
    norm, pool = nn.GroupNorm(2, 8), nn.AdaptiveMaxPool2d(4)

    def run():
        y = pool(F.gelu(norm(conv(x))))
        y = F.interpolate(up(y), scale_factor=2, mode="bilinear", align_corners=False)
        y = F.pad(y, (1, 1, 1, 1), mode="reflect") + F.unfold(x, 2).sum()
        F.grid_sample(y, torch.zeros(1, 3, 3, 2), align_corners=False).sum().backward()
        return [tuple(y.shape)]

    return run


def scripted_function(x, y):
    z = x * y + x
    if bool(z.sum() > 0):
        z = torch.relu(z)
    return z.sin() + y


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def helper(self, x):
        return torch.tanh(self.layer(x))

    def forward(self, x):
        for _ in range(2):
            x = self.helper(x)
        return x


def script_payload(optimize, fuse):
    """TorchScript after its profiling runs, with the graph in its final form."""
    state = (torch._C._get_graph_executor_optimize(), torch._C._jit_texpr_fuser_enabled(),
             torch._C._jit_can_fuse_on_cpu())

    def configured(fn):
        torch._C._set_graph_executor_optimize(optimize)
        torch._C._jit_set_texpr_fuser_enabled(fuse)
        torch._C._jit_override_can_fuse_on_cpu(fuse)
        try:
            return fn()
        finally:
            torch._C._set_graph_executor_optimize(state[0])
            torch._C._jit_set_texpr_fuser_enabled(state[1])
            torch._C._jit_override_can_fuse_on_cpu(state[2])

    seed()
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    fn, module = torch.jit.script(scripted_function), torch.jit.script(Scripted())
    traced = torch.jit.trace(lambda v: v.exp().mul(2), (x,))

    def work():
        with torch.no_grad():
            return [fn(x, y), module(x), traced(x)]

    for _ in range(4):
        configured(work)
    return lambda: configured(work)


@payload()
def script_unfused():
    return script_payload(optimize=True, fuse=False)


@payload()
def script_fused():
    need(torch._C._llvm_enabled(), "this build has no CPU fuser (no LLVM)")
    return script_payload(optimize=True, fuse=True)


@payload()
def script_simple_executor():
    return script_payload(optimize=False, fuse=False)


@payload()
def script_backward():
    fn = torch.jit.script(scripted_function)
    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    for _ in range(4):
        fn(x, y).sum().backward()

    def run():
        x.grad = None
        fn(x, y).sum().backward()
        return [x.grad]

    return run
