# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Collectives: the threads, names and arguments that torch.profiler has of them in the same process at the same time."""

import json
from collections import Counter

import pytest

from agent_target import Window
from support import AGENT, PYTHON, WORKLOADS, CommandTarget, check, load_trace, require_root, slices

KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


class Rank(CommandTarget):
    def __init__(self, agent):
        super().__init__([PYTHON, "-u", WORKLOADS + "/collective_work.py"], env={"LD_PRELOAD": AGENT} if agent else None)
        self.line("answer")


@pytest.fixture(name="rank")
def a_rank(request):
    require_root()
    source = getattr(request, "param", "agent")
    with Rank(source == "agent") as rank:
        rank.source = {"probes": "kernel probes"}.get(source, source)
        yield rank


def both(ws, rank, *commands):
    """What ptbpf and torch.profiler record of the commands; torch's observer writes WS/torch.et.json."""
    with Window(ws, rank, "--et", ws + "/et.json", "--agent", "auto" if rank.source == "agent" else "off") as w:
        rank.ask("profile_start", ws + "/torch.et.json")
        for command in commands:
            rank.ask(*command)
        rank.ask("profile_stop", ws + "/torch.json")
    check(w.sources()[rank.pid][0] == rank.source, f"source: {w.sources()}")
    return w.trace, load_trace(ws + "/torch.json")


def facts(trace, prefix):
    """Slices by thread, name, category and arguments."""
    return Counter((e["tid"], e["name"], e["cat"], *(str(e["args"].get(k)) for k in KEYS))
                   for e in slices(trace) if e["name"].startswith(prefix))


def test_gloo_begins_on_its_worker(ws, rank):
    """gloo constructs its RecordFunction on the caller's thread and begins it on its own: the agent goes on recording."""
    mine, torch = both(ws, rank, ("reduce", 50), ("every",))
    want, got = facts(torch, "gloo:"), facts(mine, "gloo:")
    check(sum(n for k, n in want.items() if k[1] == "gloo:all_reduce") >= 50, f"torch.profiler: {want}")
    check(got == want, f"missing {want - got}, more {got - want}")
    check({k[0] for k in got}.isdisjoint({rank.pid}), "on the caller's thread")


# What the C++ functions of the process group make themselves is not at their entry: copies of vectors, a tensor. They return no results but the Work.
UNKNOWN = {"c10d::alltoall_base_": {3, 4}, "c10d::barrier": {0}}


def without_ids(value):
    """A value of an Execution Trace; a tensor without its numbers and its storage's."""
    if not isinstance(value, list):
        return value
    return value[2:] if len(value) == 6 and value[-1] == "cpu" else [without_ids(v) for v in value]


def same_execution_trace(ws, source):
    nodes = [load_trace(ws + path)["nodes"] for path in ("/torch.et.json", "/et.json")]
    want, got = ([n["inputs"] for n in nodes if n["name"] == "## process_group:init ##"] for nodes in nodes)
    # ptbpf's own, and the one that torch's observer made in the window
    check(len(want) == 1 and got == 2 * want and json.loads(want[0]["values"][0])[0]["group_size"] == 2, f"groups: {got} instead of {want}")
    want, got = ([n for n in nodes if n["name"].startswith("c10d::")] for nodes in nodes)
    check([n["name"] for n in got] == [n["name"] for n in want], f"{len(got)} of {len(want)} nodes")
    for w, g in zip(want, got):
        unknown = UNKNOWN.get(w["name"], set()) if source != "agent" else set()
        objects = {k for k, v in enumerate(w["outputs"]["values"]) if v != "<Object>"} if source != "agent" else set()
        for side, lost in (("inputs", unknown), ("outputs", objects)):
            for key in ("values", "shapes", "types", "strides"):
                a, b = ([without_ids(v) for k, v in enumerate(n[side][key]) if k not in lost] for n in (w, g))
                check(a == b, f"{side}, {key} of {w['name']}: {b} instead of {a}")
            check({k for k, v in enumerate(g[side]["values"]) if v == "<Unknown>"} == lost, f"{side} of {w['name']}: {g[side]}")


@pytest.mark.parametrize("rank", ("agent", "probes"), indirect=True)
def test_collectives_have_arguments(ws, rank):
    """Both sources have the arguments of c10d::*, which C++ callers enter, and say what they do not know of them and of the results."""
    mine, torch = both(ws, rank, ("reduce", 20), ("every",))
    want, got = ([e for e in sorted(slices(t), key=lambda e: e["ts"]) if e["name"].startswith("c10d::")] for t in (torch, mine))
    check([e["name"] for e in got] == [e["name"] for e in want], f"{len(got)} of {len(want)} collectives")
    for w, g in zip(want, got):
        unknown = UNKNOWN.get(w["name"], set()) if rank.source != "agent" else set()
        check(g["args"].get("ptbpf.args_unknown", False) == bool(unknown), f"{w['name']}: {g['args']}")
        for key in KEYS:
            a, b = ([v for k, v in enumerate(e["args"][key]) if k not in unknown] for e in (w, g))
            check(a == b, f"{key} of {w['name']}: {b} instead of {a}")
    same_execution_trace(ws, rank.source)
