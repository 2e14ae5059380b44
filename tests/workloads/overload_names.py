# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Operators of many overloads under torch.profiler with capture_overload_names:  overload_names.py OUT

Prints "ready", waits for a line, works, prints "done", writes torch's trace to OUT, prints "written" and ends."""

import sys

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

torch.library.define("ptbpf_test::twice.by_number", "(Tensor x, int n) -> Tensor")
torch.library.impl("ptbpf_test::twice.by_number", "cpu", lambda x, n: x * n)


def work():
    a, b = torch.randn(8, 8, requires_grad=True), torch.ones(8, 8)
    c = (a + b) * 2 + b.add(1)
    with record_function("own"):
        (c.sum() + torch.nn.functional.linear(a, b).pow(2).mean()).backward()
    torch.max(b, 0)
    torch.max(b, b)
    torch.cat([a, b]).sum(dim=0)
    torch.where(b > 0, b, a.detach())
    torch.add(b, b, out=torch.empty(8, 8))
    b[1:3].add_(1)
    b.to(torch.float64).to("cpu")
    torch.ops.ptbpf_test.twice.by_number(b, 3)


def main():
    work()
    print("ready", flush=True)
    sys.stdin.readline()
    with profile(activities=[ProfilerActivity.CPU], experimental_config=_ExperimentalConfig(capture_overload_names=True)) as p:
        for _ in range(5):
            work()
    print("done", flush=True)
    p.export_chrome_trace(sys.argv[1])
    print("written", flush=True)


main()
