# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Operators at known Python stacks: stack_work.py CASE[,CASE]... | all

Prints `ready`, waits for a line on stdin, runs the cases, and prints for each thread "stacks " and a JSON object: process, thread, what it
called, and the stacks at these calls in their order, innermost frame first, each frame [file, name, line]; then `done`, and waits for
another line. note() is called on the line of each call: of torch.neg(), an allocation of BYTES, or a launch by the mock libcudart in the
folder $STACK_WORK_CUDA.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import select
import sys
import threading
import time

import torch

import cuda_work

BYTES = 12345
CUDA = cuda_work.Cuda(os.environ["STACK_WORK_CUDA"]) if "STACK_WORK_CUDA" in os.environ else None
X = torch.ones(2)
NOTED = {}
KEPT = []


def note(what="operators"):
    found, frame = [], sys._getframe(1)
    while frame:
        code = frame.f_code
        found.append([code.co_filename, code.co_qualname if sys.version_info >= (3, 11) else code.co_name, frame.f_lineno])
        frame = frame.f_back
    NOTED.setdefault((os.getpid(), threading.get_native_id(), what), []).append(found)


def op(x=X):
    note(); return torch.neg(x)  # noqa


def allocate():
    note("allocations"); KEPT.append(torch.empty(BYTES, dtype=torch.uint8))  # noqa


def launch():
    note("launches"); CUDA.runtime.cudaLaunchKernel(CUDA.host(0), cuda_work.Dim3(1, 1, 1), cuda_work.Dim3(1, 1, 1), None, 0, None)  # noqa


def recursion(n=60):
    if n:
        return recursion(
            n - 1)
    return op()


def deep():
    sys.setrecursionlimit(20000)
    recursion(300)


def loop():
    for i in range(3):
        op()
        note() or torch.neg(
            X)
        if i:
            op(
            )


def generators():
    def numbers():
        for i in range(3):
            note(); torch.neg(X)  # noqa
            yield i
            op()

    def delegate():
        yield from numbers()
        return op()
    for _ in delegate():
        op()
    sum(1 for _ in numbers())
    list(map(lambda v: op(), numbers()))


async def leaf(n):
    op()
    await asyncio.sleep(0)
    op()
    return n


async def asynchronous():
    async def agen():
        for i in range(2):
            await asyncio.sleep(0)
            yield op()
    await asyncio.gather(*[leaf(i) for i in range(5)], asyncio.create_task(leaf(7)))
    async for _ in agen():
        op()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(op)
    await asyncio.get_running_loop().run_in_executor(None, op)
    asyncio.get_running_loop().call_soon(op)
    await asyncio.sleep(0)


def coroutines():
    asyncio.run(asynchronous())


def exceptions():
    for wrong in range(3):
        try:
            try:
                op()
                if wrong:
                    torch.ones(2, 3) @ torch.ones(2, 3)
            except RuntimeError:
                op()
                raise KeyError from None
            else:
                op()
            finally:
                op()
        except KeyError as e:
            note(); torch.neg(X)  # noqa
            del e
        op()


def decorated(f):
    @functools.wraps(f)
    def inner(*args):
        op()
        return f(*args)
    return inner


class Class:
    op()

    def __init__(self):
        self.x = op()

    @decorated
    @decorated
    def method(self):
        return [op() for _ in range(2)] + [self.prop]

    @property
    def prop(self):
        with self:
            return op()

    @functools.cached_property
    def cached(self):
        return op()

    @staticmethod
    @functools.lru_cache(None)
    def static(_):
        return op()

    def __enter__(self):
        (lambda:
            op())()

    def __exit__(self, *exc):
        op()

    def __lt__(self, other):
        op()
        return True

    def __getattr__(self, name):
        return op()

    def __call__(self):
        return op()

    def __del__(self):
        op()


def classes():
    a, b = Class(), Class()
    a.method()
    sorted([a, b])
    a.cached, a.nothing, a(), Class.static(1), Class.static(1)
    del a, b

    class Meta(type):
        def __new__(mcs, *args):
            op()
            return super().__new__(mcs, *args)

    class Derived(Class, metaclass=Meta):
        op()
    Derived()


def callbacks():
    """Python below native code below Python."""
    sorted([3, 1, 2], key=lambda v: op() is None)
    list(map(op, [X, X]))
    functools.partial(op, X)()
    functools.reduce(lambda a, b: op(), [1, 2, 3])
    list(filter(op and (lambda v: op() is not None), [1]))
    list(itertools.starmap(lambda a, b: op(), [(1, 2)]))
    max([1, 2], key=functools.partial(lambda a, b: (op(), b)[1], 0))
    next(iter(lambda: op() is None, True), None) if False else None
    import re
    re.sub("a", lambda m: (op(), "b")[1], "aaa")
    min(map(functools.partial(lambda k, v: (op(), v)[1], 1), [2, 1]))


def comprehensions():
    return [op() for _ in range(2)], {op() is None for _ in range(2)}, {x: [op() for _ in "a"]
                                                                        for x in "b"}, list(op() for _ in "a"), [
        op()
        for _ in "ab"
        if op() is not None
    ]


def texts():
    KEPT.extend([compile("[0,\n\n op()]", "<string>", "eval"), compile("for i in range(2):\n\n  op()\nop()\n", "<string>", "exec")])
    eval(KEPT[-2], globals())
    exec(KEPT[-1], globals())
    for text, file, name in [("def na\u00efve():\n\n\n  op()\n", "caf\u00e9.py", "na\u00efve"), ("def \u03bb():\n  op()\n", "\u65e5\u672c.py", "\u03bb"),
                             ("def emoji(): op()\n", "\U0001f600/\u65e5.py", "emoji"), ("def long_path(): op()\n", "/p" * 1000 + ".py", "long_path"),
                             ("def long():\n" + "".join(f"    x{i} = {i}\n" for i in range(3000)) + "\n" * 700 + "    op(\n    )\n", "long.py", "long"),
                             ("def steps():\n    return (\n" + "\n" * 400 + "      op\n" + "\n" * 300 + "    )(\n    )\n", "steps.py", "steps")]:
        scope = {"op": op}
        exec(compile(text, file, "exec"), scope)
        KEPT.append(scope)
        scope[name]()


def many():
    """10,000 code objects that live on."""
    scope = {"op": op, "note": note, "torch": torch, "X": X}
    for i in range(10000):
        text = "\n" * (i % 100) + f"def f{i}():\n" + "  pass\n" * (i % 7) + "  note(); torch.neg(X)\n"
        exec(compile(text, f"file{i % 30}.py", "exec"), scope)
    KEPT.append(scope)
    for i in range(10000):
        scope[f"f{i}"]()


def freed():
    """Code objects that are freed after their call: the next one has the same address, with another name, file or line. No two are equal."""
    for i in range(3000):
        scope = {"note": note, "torch": torch, "X": X}
        name = "same" if i % 3 == 0 else f"f{i}"
        text = "\n" * i + f"def {name}():" + "\n" * (i % 40 + 1) + "  note(); torch.neg(X)\n"
        exec(compile(text, "<string>" if i % 5 else f"file{i}.py", "exec"), scope)
        scope[name]()
        del scope


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        op()
        return x * 2

    @staticmethod
    def backward(ctx, g):
        op()
        return g


def autograd():
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: op())
    Square.apply(w).sum().backward()


class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        op()
        return super().__torch_function__(func, types, args, kwargs)


def torch_calls():
    torch.abs(X.as_subclass(Tensor))
    m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Identity())
    m[1].register_forward_hook(lambda *a: op())
    m(X)


def threads():
    """Some were started before the window."""
    for t in BEFORE:
        t.go.set()
    after = [threading.Thread(target=f) for f in (recursion, generators, exceptions, callbacks, functools.partial(recursion, 100))]
    for t in after:
        t.start()
    for t in after + BEFORE:
        t.join()


class Early(threading.Thread):
    def __init__(self, work):
        super().__init__(daemon=True)
        self.go, self.work = threading.Event(), work

    def run(self):
        self.go.wait()
        self.work()


def forks():
    for _ in range(3):
        pid = os.fork()
        if not pid:
            NOTED.clear()
            traced()
            recursion()
            fresh()
            print_noted()
            os._exit(0)
        os.waitpid(pid, 0)


def execs():
    """A child becomes another program, which does the same."""
    pid = os.fork()
    if not pid:
        for _ in range(20):
            torch.neg(X)
        os.execv(sys.executable, [sys.executable, *sys.argv[:1], "traced,recursion,generators", "child"])
    os.waitpid(pid, 0)


def spaced():
    for _ in range(100):
        loop()
        time.sleep(0.01)


def traced():
    """In a child: prints `child PID`, and calls until its probes are there, when a line comes on stdin, and after it."""
    print("child", os.getpid(), flush=True)
    while not select.select([0], [], [], 0.01)[0]:
        loop()
    os.read(0, 1)
    spaced()


def fresh():
    """Code that no other process had before."""
    scope = {"op": op}
    exec(compile(f"def of_child():\n\n op() # {os.getpid()}\n", f"child{os.getpid()}.py", "exec"), scope)
    KEPT.append(scope)
    scope["of_child"]()


def other_points():
    """The same call trees around allocations, and around launches."""
    def down(point, n):
        return down(point, n - 1) if n else point()
    for point in (allocate, launch) if CUDA else (allocate,):
        down(point, 20)
        [point() for _ in range(2)]
        list(map(lambda _: point(), (1, 2)))
        sum(point() is None for _ in "ab")
        t = threading.Thread(target=down, args=(point, 5))
        t.start()
        t.join()


BEFORE = [Early(f) for f in (recursion, loop, coroutines, classes)]
CASES = {f.__name__: f for f in (recursion, deep, loop, generators, coroutines, exceptions, classes, callbacks, comprehensions, texts, many, freed, autograd,
                                 torch_calls, threads, forks, execs, spaced, traced, other_points)}


def print_noted():
    for (pid, tid, what), stacks in NOTED.items():
        sys.stdout.write("stacks " + json.dumps({"pid": pid, "tid": tid, "what": what, "stacks": stacks}) + "\n")
    sys.stdout.flush()


def main():
    torch.set_num_threads(1)
    for t in BEFORE:
        t.start()
    NOTED.clear()  # of the classes' bodies
    child = "child" in sys.argv
    if not child:
        print("ready", flush=True)
        sys.stdin.readline()
    for name in CASES if sys.argv[1] == "all" else sys.argv[1].split(","):
        CASES[name]()
    print_noted()
    if not child:
        print("done", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
