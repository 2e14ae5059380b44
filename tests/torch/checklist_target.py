# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The program of test_checklist.py: obeys one-line commands on stdin and answers "done" or one line of JSON.

  loop FROM TO   loops named as torch's own tests of the Execution Trace name them
  do NAME        one of the functions below
  torch NAME     the same under torch.profiler; answers its key_averages()
  stacks NAME    the same under torch.profiler with stacks; answers calls()
"""

import json
import os
import queue
import sys
import tempfile
import threading

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


def doubled(fn):
    def twice(x):
        return fn(x) + fn(x)
    return twice


@doubled
def recursive(x, depth=3):
    return torch.sin(x) if not depth else recursive.__closure__[0].cell_contents(x, depth - 1).neg()


def generated(x):
    for factor in (2, 3):
        yield x * factor


class Scope:
    """An annotation that outlives the function which begins it."""

    def __enter__(self):
        torch.ones(1)
        self.scope = record_function("outlives __enter__")
        self.scope.__enter__()

    def __exit__(self, *exc):
        torch.zeros(1)
        self.scope.__exit__(None, None, None)


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, grad):
        return grad / 2


encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
sgd = torch.optim.SGD(encoder.parameters(), lr=0.01, momentum=0.9)


def source():
    """A training step of a model of torch's own, and what calls functions in other ways."""
    with record_function("forward"):
        out = encoder(torch.ones(2, 3, 16))
    with Scope():
        loss = Half.apply(recursive(out)).sum()
    loss.backward()
    sgd.step()
    sgd.zero_grad()
    sum(generated(torch.ones(1)))
    sorted([2, 1], key=lambda n: torch.tensor(n).item())
    [torch.ones(n) for n in (1, 2)]


work, done = [queue.SimpleQueue() for _ in range(2)], queue.SimpleQueue()


def old_thread(mine):
    while True:
        mine.get()
        for _ in range(3):
            torch.cos(u)
        done.put(None)


def new_thread():
    for _ in range(3):
        torch.cos(u)


def source_threads():
    torch.sin(u)
    for one in work:
        one.put(None)
    threads = [threading.Thread(target=new_thread) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for _ in work:
        done.get()


def calls(events):
    """[operator, its Python functions inside this one's caller, innermost first] in order of begin, of torch's own trace."""
    found = sorted((e["ts"], e["name"], e["args"].get("Call stack", "")) for e in events if e.get("cat") == "cpu_op")
    return [[name, stack.split(";")[:-1]] for _, name, stack in found]


def under_stacks(fn):
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True,
                                experimental_config=verbose) as p:
        fn()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.json")
        p.export_chrome_trace(path)
        with open(path, encoding="utf-8") as f:
            return calls(json.load(f)["traceEvents"])


def under_profiler(fn):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True) as p:
        fn()
    rows = p.key_averages(group_by_input_shape=True)
    return {"by_shape": [[r.key, str(r.input_shapes), r.count] for r in rows],
            "flops": [[r.key, str(r.input_shapes), int(r.flops)] for r in rows if r.flops], "table": p.key_averages().table()}


WORK = {fn.__name__: fn for fn in (payload, event_args, strides, jagged, dynamic, flops, long_text, steps, source, source_threads)}


def main():
    for one in work:
        threading.Thread(target=old_thread, args=(one,), daemon=True).start()
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
        elif verb == "stacks":
            answer = json.dumps(under_stacks(WORK[words[0]]))
        else:
            answer = json.dumps(under_profiler(WORK[words[0]]))
        print("answer " + answer, flush=True)


if __name__ == "__main__":
    main()
