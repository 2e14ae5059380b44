# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What report and export make of Python stacks compared with torch's own, which records the same steps at the same time."""

import collections
import json
import os
import re
import subprocess

import pytest

from support import Tracer, check, require_root, run_ptbpf, workload, workspace

DEPTH = 16  # frames that --group-by-stack-n compares
# torch has frames of built-in functions, and names the call of a module by its class.
BUILT_IN = re.compile(r"^<built-in ")
MODULE = re.compile(r"^(nn\.Module: .*|torch/nn/modules/module\.py\(\d+\): (_wrapped_call_impl|__call__))$")
# A record_function begins in torch's __enter__(), which has ended when the annotation does: torch takes the frame around it.
ANNOTATION = re.compile(r"^Optimizer\.")


@pytest.fixture(name="run", scope="module")
def record():
    require_root()
    with workspace() as ws:
        out, capture = os.path.join(ws, "truth.json"), os.path.join(ws, "a.ptb")
        with workload("stack_exports.py", out, stdin=subprocess.PIPE) as p:
            p.wait_line("^ready")
            with Tracer("attach", "--pid", p.pid, "--with-stack", "--profile-memory", "-o", capture, "--no-table") as t:
                t.wait_attached()
                p.send()
                p.wait_line("^done")
                t.stop((0, 3))
        with open(out, encoding="utf-8") as f:
            yield json.load(f), capture


def report(capture, *words):
    return json.loads("\n".join(run_ptbpf("report", capture, "--row-limit", "-1", "--json", *words, expect=(0, 3)).out))


def normal(frames):
    """Without what differs: frames that were open when the profiler began, and generators, have the line that they were at in torch."""
    started = re.compile(r"^(stack_exports\.py)\(\d+\): (main|<module>|batches)$")
    return tuple("module" if MODULE.match(f) else started.sub(r"\1: \2", f) for f in frames if not BUILT_IN.match(f))


def names(line):
    """The stack of a line, which has a value."""
    stack, value = line.rsplit(" ", 1)
    check(int(value) > 0, f"no value: {line}")
    return normal(re.sub(r"^(nn\.Module:|<built-in|.*\):)_", r"\1 ", f) for f in stack.split(";"))


def test_stacks(run, ws, detail):
    """The set of stacks is torch's: their names, cleaned as torch does it, and their order."""
    truth, capture = run
    path = os.path.join(ws, "stacks.txt")
    run_ptbpf("export", capture, "--format", "stacks", "-o", path, expect=(0, 3))
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    want, got = {names(line) for line in truth["stacks"]}, {names(line) for line in lines}
    check(len(want) > 20 and max(map(len, want)) > 8, f"torch has only {len(want)} stacks")
    check(want == got, f"torch's only: {sorted(want - got)[:3]}\nptbpf's only: {sorted(got - want)[:3]}")
    detail(f"{len(want)} stacks, {len(truth['stacks'])} lines of torch's, {len(lines)} of ptbpf's")


def test_operators(run, detail):
    """Every operator of torch's has the same stack as often, by --group-by-stack-n; in the backward pass a stack of the forward pass."""
    truth, capture = run
    want, backward, got = collections.Counter(), collections.Counter(), collections.Counter()
    for name, stack, is_backward in truth["events"]:
        if not ANNOTATION.match(name):
            (backward if is_backward else want)[name, normal(stack)[:DEPTH]] += 1
    for r in report(capture, "--group-by-stack-n", str(DEPTH))["rows"]:
        if r["category"] == "cpu_op":
            got[r["key"], normal(r["stack"])] += r["count"]
    rest = got - want
    check(got - rest == want, f"torch's: {list((want - got).items())[:3]}\nptbpf's: {list(rest.items())[:3]}")
    check(by_name(rest) == by_name(backward), f"{by_name(rest) - by_name(backward)}, {by_name(backward) - by_name(rest)}")
    forward = {stack for _, stack in want} | {()}
    check(all(stack in forward for _, stack in rest), "an operator of the backward pass has a stack that no operator had")
    same = sum((rest & backward).values())
    check(same > 0.9 * sum(rest.values()), f"{same} of {sum(rest.values())} in the backward pass are as torch's")
    detail(f"{sum(want.values())} operators, {len(want)} kinds; {same} of {sum(rest.values())} in the backward pass have torch's stack")


def by_name(counts):
    names_only = collections.Counter()
    for (name, _), count in counts.items():
        names_only[name] += count
    return names_only


def test_lines(run):
    """The lines of the program, and what of them is forward, backward and optimizer."""
    doc = report(run[1], "--by", "line")
    mine = {r["function"]: r for r in doc["lines"] if r["file"] == "stack_exports.py"}
    check({"Model.forward", "Head.forward", "train", "main", "<module>", "batches"} <= set(mine), str(set(mine)))
    check(all(not r["library"] for r in mine.values()), "the program is a library")
    whole = mine["<module>"]["total"]
    check(whole["calls"] > 1000 and whole["cpu_memory_allocated"] > 0 and not mine["main"]["self"]["calls"], f"of all: {whole}")
    check(whole["cpu_time"] <= doc["sums"]["cpu_time"] < 1.2 * whole["cpu_time"], "most is below <module>")
    check(mine["Head.forward"]["total"]["calls"] <= whole["calls"], "recursion counts once")


def test_page(run, ws):
    path = os.path.join(ws, "page.html")
    run_ptbpf("export", run[1], "--format", "flamegraph", "-o", path, expect=(0, 3))
    with open(path, encoding="utf-8") as f:
        data = json.loads(re.search(r"^const data = (.*);$", f.read(), re.M)[1])
    check({"Model.forward", "aten::addmm", "AddmmBackward0"} <= set(data["strings"]), "frames and operators")
    check(max(data["parent"]) < len(data["parent"]) and all(p < i for i, p in enumerate(data["parent"])), "parents come first")
