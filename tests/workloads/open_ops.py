# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
Threads with a known operator, for samples. Prints their thread ids as JSON when they run, and again after a line on stdin, when one more
has begun; ends at the end of stdin. "late": imports torch after a first line.
"""

import json
import sys
import threading
import time

STOP = threading.Event()
TIDS = {}


def multiply():
    a = torch.ones(600, 600)
    while not STOP.is_set():
        for _ in range(5):
            torch.mm(a, a)


def nested():
    """aten::linear around aten::addmm."""
    layer = torch.nn.Linear(600, 600)
    x = torch.ones(600, 600)
    with torch.no_grad():
        while not STOP.is_set():
            layer(x)


def raising():
    """Operators that end by an exception, and time outside of operators."""
    a, b = torch.ones(2, 3), torch.ones(4, 5)
    while not STOP.is_set():
        for _ in range(100):
            try:
                torch.mm(a, b)
            except RuntimeError:
                pass
        spin()


def spin():
    until = time.monotonic() + 0.1
    while time.monotonic() < until:
        pass


def outside():
    while not STOP.is_set():
        torch.ones(3) + 1
        with torch.profiler.record_function("an annotation"):
            STOP.wait(0.2)


def idle():
    torch.ones(3) + 1
    STOP.wait()


def hangs():
    """In an operator, as in a collective whose other side does not come."""
    torch.ops.ptbpf_test.wait(torch.ones(3))


def backward():
    """On threads of autograd, which have no Python frames."""
    w = torch.ones(500, 500, requires_grad=True)
    while not STOP.is_set():
        (w @ w @ w).sum().backward()


def short_lived():
    while not STOP.is_set():
        t = threading.Thread(target=lambda: torch.ones(200, 200) @ torch.ones(200, 200))
        t.start()
        t.join()


def begin(work):
    known = threading.Event()

    def run():
        TIDS[work.__name__] = threading.get_native_id()
        known.set()
        work()

    t = threading.Thread(target=run, daemon=True)
    t.start()
    known.wait()
    return t


def main():
    if sys.argv[1:] == ["late"]:
        print("ready", flush=True)
        sys.stdin.readline()
    global torch
    import torch
    torch.set_num_threads(1)
    lib = torch.library.Library("ptbpf_test", "DEF")
    lib.define("wait(Tensor x) -> Tensor")

    def wait(x):
        STOP.wait()
        return x
    lib.impl("wait", wait, "CPU")
    threads = [begin(f) for f in (multiply, nested, raising, outside, idle, backward, short_lived)]
    print("running " + json.dumps(TIDS), flush=True)
    for _ in sys.stdin:
        threads.append(begin(hangs))
        print("more " + json.dumps(TIDS), flush=True)
    STOP.set()
    for t in threads:
        t.join()
    print("done", flush=True)


if __name__ == "__main__":
    main()
