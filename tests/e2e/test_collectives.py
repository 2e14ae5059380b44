# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Collectives: the threads, names and arguments that torch.profiler has of them in the same process at the same time."""

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
        rank.source = source
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
