# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every payload in every PyTorch environment under torch's own observers and under ptbpf, compared (run_leg.py).

A leg is one test of thousands of comparisons, each with a result line of its own. `-m old` or `-k old` selects a leg.
"""

import gc
import os

import pytest

import environments
import run_leg
from support import AGENT, check, require_root, soak

WITH_AGENT = ["--agent", AGENT]
# What runs by default with torches other than the main one: every kind of operator, thread, compiled region and value once.
SOME = ("elementwise", "backward", "custom_function", "exceptions", "annotations", "views_inplace", "strings",
        "lists_of_numbers", "results", "two_threads", "raising_threads", "thread_churn", "optimizers", "transformer",
        "script_unfused", "compile_eager", "compile_inductor")
# What runs with the main torch under other CPythons: what is written in Python, or where ptbpf reads Python's objects.
OF_PYTHON = ("custom_function", "exceptions", "annotations", "strings", "lists_of_numbers", "results", "two_threads",
             "compile_eager")


def repeated(option, words):
    return [w for word in words for w in (option, word)]


def options(which):
    """`names` covers all threads, `full` arguments and Execution Traces, `held` memory: `shapes` and `memory` are parts of these. All
    payloads on the main leg, of the 82,000 calls of the broad one one window; of its agent all windows in one turn of four. The agent and
    memory only with torches other than the main one."""
    if which == "main":
        agent = "full" if os.environ.get("PTBPF_TURN", "0") != "0" else "names,full,held"
        return [*([] if soak() else ["--brief", "--windows", "names,full,held"]), *WITH_AGENT, "--agent-windows", agent]
    if soak():
        return ["--brief", *WITH_AGENT, "--agent-windows", "full", *repeated("--agent-payload", SOME)]
    if which.startswith("chroot"):
        return ["--brief", "--windows", "names,full", *repeated("--payload", OF_PYTHON)]
    return ["--brief", *WITH_AGENT, "--windows", "names,full,held", "--agent-windows", "full", *repeated("--payload", SOME)]


@pytest.fixture
def no_gc():
    """Millions of values, no cycles."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("which", [pytest.param(n, marks=getattr(pytest.mark, n.replace("-", "_")))
                                   for n in environments.NAMES])
def test_leg(which, no_gc):
    require_root()
    env = environments.get(which)
    if env.why_not():
        pytest.skip(env.why_not())
    args = [env.python, env.name, *(["--chroot", env.chroot] if env.chroot else []), *options(which)]
    check(run_leg.Leg(run_leg.parser().parse_args(args)).run(), "comparisons failed: see the lines FAIL in the output")


def test_differences_are_documented():
    """Every excuse of a comparison has a row in differences.md."""
    run_leg.check_rows()
