# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The program of test_checklist.py: obeys one-line commands on stdin and answers "done" or one line of JSON.

  loop FROM TO   loops named as torch's own tests of the Execution Trace name them
  do NAME        one of the functions below
  torch NAME     the same under torch.profiler; answers its key_averages()
"""

import json
import sys

import torch
from torch.autograd.profiler import record_function

torch.manual_seed(0)
u = torch.randn(3, 4, 5, requires_grad=True)
linear = torch.nn.Linear(8, 4)


def loop(i):
    with record_function(f"## LOOP {i} ##"):
        linear(torch.ones(2, 8)).sum().backward()
        with torch.no_grad():
            payload()


def payload():
    handle = torch.autograd._record_function_with_args_enter(
        "## TEST 2 ##", 1, False, 2.5, [u, u], (u, u), "hello", u, float("inf"), -float("inf"), float("nan"))
    torch.cat([u, u.neg()])
    torch.autograd._record_function_with_args_exit(handle)


def event_args():
    a = torch.ones((64, 32), dtype=torch.float32)
    torch.cat([a, a]).sin()


def strides():
    x = torch.arange(200.0)
    torch.add(x.as_strided((4, 3), (17, 1)), x.as_strided((4, 3), (25, 2)))


def jagged():
    n = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    torch.cos(n).values()


def compiled(x):
    return x.sin().sum() * x.size(0)


def dynamic():
    fast = torch.compile(compiled, backend="eager", dynamic=True)
    for n in (3, 5, 8):
        fast(torch.ones(n, n + 1))


def flops():
    image, weight = torch.randn(2, 4, 9, 11), torch.randn(6, 4, 3, 2)
    torch.nn.functional.conv2d(image, weight, stride=2, padding=1)
    torch.nn.functional.conv2d(image, torch.ones(6, 2, 3, 3), groups=2, dilation=(1, 2))
    m = torch.randn(3, 4)
    torch.mm(m, m.t()), torch.addmm(torch.ones(3), m, m.t()), m * m, m + 1, torch.tensor(2.0) * torch.tensor(3.0)
    torch.bmm(m[None], m.t()[None]), torch.baddbmm(torch.ones(1, 3, 3), m[None], m.t()[None])
    torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]) * 2


def long_text():
    with record_function("long text", "0123456789" * 1000):
        torch.ones(1)


def steps():
    for k in range(2):
        with record_function(f"ProfilerStep#{k}"):
            torch.add(u, 1)


def under_profiler(fn):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True) as p:
        fn()
    rows = p.key_averages(group_by_input_shape=True)
    return {"by_shape": [[r.key, str(r.input_shapes), r.count] for r in rows],
            "flops": [[r.key, str(r.input_shapes), int(r.flops)] for r in rows if r.flops], "table": p.key_averages().table()}


WORK = {fn.__name__: fn for fn in (payload, event_args, strides, jagged, dynamic, flops, long_text, steps)}


def main():
    loop(-1)
    for fn in WORK.values():
        fn()
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        answer = "done"
        if verb == "loop":
            for i in range(int(words[0]), int(words[1])):
                loop(i)
        elif verb == "do":
            WORK[words[0]]()
        else:
            answer = json.dumps(under_profiler(WORK[words[0]]))
        print("answer " + answer, flush=True)


if __name__ == "__main__":
    main()
