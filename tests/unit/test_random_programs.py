# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Random programs in a Chrome trace: the Python functions around each operator are those of its stack; CUDA calls nest among operators."""

import json
import os
import random
import sys

import pytest

from support import ROOT, check, run_ptbpf

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import run  # noqa: E402

DEPTH = 38


def slice_lines(name, number, now, stack):
    yield f'stack {now} "{"".join(letter + str(place) for letter, place in stack)}"'
    yield f'rf_begin rf={number} seq=-1 scope={0 if name == "op" else 7} "{name}" @{now}'


def program(rand, actions):
    """The text of a capture: functions call, return and go on, in them operators and annotations begin and end."""
    stack, opened, now = [["Z", 0]], [], 1000  # opened: (name, number, depth of the stack)
    yield "include stacks.def"
    for number in range(1, actions):
        now += rand.randint(200, 1199)
        if not (opened and opened[-1][0] == "op" and opened[-1][2] == len(stack)):  # an operator's caller stays where it is
            stack[-1][1] = (stack[-1][1] + 1) % 10  # another place each time: what is drawn is then exact
        action = rand.randrange(10)
        if action < 3 and len(stack) < DEPTH:
            stack.append([rand.choice("ABCDFGHIJK"), 0])
        elif action < 5 and len(stack) > 1 and all(name != "op" or depth < len(stack) for name, _, depth in opened):
            stack.pop()
        elif 5 <= action < 7 and len(opened) < DEPTH:
            opened.append(("op" if action == 5 else "note", number, len(stack)))
            yield from slice_lines(*opened[-1][:2], now, stack)
        elif opened and (opened[-1][0] == "note" or opened[-1][2] == len(stack)):
            yield f"rf_end rf={opened.pop()[1]} @{now}"
    while opened:
        now += 1000
        yield f"rf_end rf={opened.pop()[1]} @{now}"
    yield f"window reason=1 @{now + 1000}"


def times(e):
    begin = run.ns(e["ts"])
    return begin, begin + run.ns(e["dur"])


def slices_with_those_around(doc):
    """Each, and those that it lies in; they nest, and no two begin at once."""
    around = []
    for e in sorted((e for e in doc["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"), key=times):
        begin, end = times(e)
        while around and times(around[-1])[1] <= begin:
            around.pop()
        check(begin < end and (not around or times(around[-1])[0] < begin and end <= times(around[-1])[1]), f"{e} in {around[-1:]}")
        yield e, around
        around.append(e)


def check_functions(doc):
    """The chain of functions around each slice is that of its stack, of an annotation the outer part of it."""
    numbers = 0
    for e, around in slices_with_those_around(doc):
        args = e["args"]
        functions = [f for f in around if f["cat"] == "python_function"]
        chain = "".join(f["name"] + ";" for f in reversed(functions))
        if e["cat"] == "python_function":
            numbers += 1
            check(args["Python id"] == numbers and args.get("Python parent id") == (functions[-1]["args"]["Python id"] if functions else None), str(e))
        else:
            check(args["Call stack"] == chain if e["name"] == "op" else args["Call stack"].endswith(chain), f"{e}: {chain}")
    check(numbers > 100 and doc["ptbpf_totals"]["python"]["functions_not_drawn"] == 0, "functions were left out")


def trace_of(lines, ws):
    wrong = run.make({"a": [*lines]}, ws)
    check(not wrong, wrong)
    run_ptbpf("export", os.path.join(ws, "a.ptb"), "-o", os.path.join(ws, "a.trace.json"))
    with open(os.path.join(ws, "a.trace.json"), encoding="utf-8") as f:
        return json.load(f)


@pytest.mark.parametrize("seed", range(6))
def test_functions(ws, seed):
    check_functions(trace_of(program(random.Random(seed), 2000), ws))


CALLS = 1500


def calls(rand):
    """Operators with one inside, and calls whose times are off by anything."""
    yield from ("window begin=1 @1000000", 'meta "gpu\\0true"', 'p10 process comm="python"')
    yield from (f"t10 gpu_clock gpu_ns={at} mono_ns={at} err_ns=500 @{at}" for at in (1000000, 9000000))
    now = 1000000
    for rf in range(1, 1200, 2):
        begin = now + 50
        inner = begin + 100 + rand.randrange(500)
        yield f'rf_begin rf={rf} seq=-1 "outer" @{begin}'
        yield f'rf_begin rf={rf + 1} seq=-1 "inner" @{inner}'
        yield f"rf_end rf={rf + 1} @{begin + 900 + rand.randrange(500)}"
        yield f"rf_end rf={rf} @{begin + 2000}"
        now = begin + 2000 + rand.randrange(300)
    for i in range(CALLS):
        begin = 1000000 + i * 850 + rand.randrange(800)
        yield f'gpu_api begin={begin} end={begin + 10 + rand.randrange(1500)} correlation={i + 1} name="cudaStreamQuery" @9000000'
    yield "window reason=1 @9000000"


@pytest.mark.parametrize("seed", range(3))
def test_calls(ws, seed):
    doc = trace_of(calls(random.Random(seed)), ws)
    gpu = doc["ptbpf_totals"]["gpu"]
    shown = [e for e, _ in slices_with_those_around(doc) if e["cat"] == "cuda_runtime"]
    check(len(shown) + gpu["calls_left_out"] == CALLS and len(shown) > 1400, f"{len(shown)} calls, {gpu}")
    check(gpu["calls_clipped"] > 50 and gpu["calls_clipped_beyond_clock_error"] > 50, str(gpu))
    check(all(run.ns(e["dur"]) <= 1510 for e in shown), "a call has become longer")
