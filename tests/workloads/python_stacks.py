# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that wait in known chains of calls, and what they say of their own stacks: python_stacks.py [subinterpreter]

Prints "stacks " and a JSON list: for each thread that waits the list of its frames, innermost first, each [file, name, line]; then "ready".
"""

import asyncio
import functools
import json
import sys
import threading
import time

WAITING = []


def wait():
    WAITING.append(threading.get_ident())
    while True:
        time.sleep(1000)


def recursion(n):
    if n:
        recursion(
            n - 1)
    else:
        wait()


def numbers():
    for i in range(3):
        yield i
        if i == 1:
            wait()


def delegate():
    yield from numbers()


def generator():
    for _ in delegate():
        pass


class Class:
    def method(self):
        return [self.prop for _ in range(2)]

    @property
    def prop(self):
        with self:
            return 1

    def __enter__(self):
        (lambda:
            wait())()

    def __exit__(self, *exc):
        pass


def decorated(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    return inner


@decorated
@decorated
def decorators():
    Class().method()


class Key:
    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        wait()


def callback():
    """Python below native code below Python."""
    sorted(map(Key, [2, 1]))


def exception():
    try:
        try:
            raise ValueError
        except ValueError:
            raise KeyError from None
        finally:
            len("")
    except KeyError:
        wait()
    finally:
        len("")


def comprehension():
    return {x: [wait() for _ in "a"]
            for x in "b"}


async def inner_task():
    await asyncio.sleep(0)
    wait()


async def outer_task():
    await asyncio.gather(inner_task())


def coroutine():
    asyncio.run(outer_task())


def run_text(text, file, name):
    scope = {"wait": wait}
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def evaluated():
    eval("[0,\n\n wait()]")


# 255 and more lines in one step, lines backwards, and a code object with a large table
LONG = "def long():\n" + "".join(f"    x{i} = {i}\n" for i in range(3000)) + "\n" * 700 + "    wait(\n    )\n" + "    y = 1\n" * 3000
STEPS = "def steps():\n    return (\n" + "\n" * 400 + "      wait\n" + "\n" * 300 + "    )(\n    )\n"

THREADS = [
    functools.partial(recursion, 0), functools.partial(recursion, 300), generator, decorators, callback, exception, comprehension, coroutine,
    evaluated,
    run_text("def na\u00efve():\n\n\n  wait()\n", "caf\u00e9.py", "na\u00efve"),
    run_text("def \u03bb():\n  wait()\n", "\u65e5\u672c.py", "\u03bb"),
    run_text("def emoji(): wait()\n", "\U0001f600/\u65e5.py", "emoji"),
    run_text("def long_path(): wait()\n", "/p" * 1000 + ".py", "long_path"),
    run_text(LONG, "long.py", "long"), run_text(STEPS, "steps.py", "steps"),
]


def stack_of(frame):
    found = []
    while frame:
        code = frame.f_code
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        found.append([code.co_filename, name, frame.f_lineno])
        frame = frame.f_back
    return found


def spin():
    while True:
        sum(i for i in range(100))


def new_interpreter():
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    return interpreters.create()


def report():
    """Runs beside the threads that wait, the main one among them."""
    while len(WAITING) < len(THREADS) + 1:
        time.sleep(0.01)
    while True:  # the last one that said so is on its way into sleep()
        before = {i: stack_of(f) for i, f in sys._current_frames().items() if i in WAITING}
        time.sleep(0.05)
        if before == {i: stack_of(f) for i, f in sys._current_frames().items() if i in WAITING}:
            break
    print("stacks " + json.dumps(list(before.values())), flush=True)
    print("ready", flush=True)
    while True:
        time.sleep(1000)


def main():
    kept = new_interpreter() if "subinterpreter" in sys.argv else None
    threading.stack_size(16 << 20)
    for target in [spin, report, *THREADS]:
        threading.Thread(target=target, daemon=True, name=getattr(target, "__name__", None)).start()
    wait()
    del kept


if __name__ == "__main__":
    main()
