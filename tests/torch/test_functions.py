# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions of ptbpf and of the agent against torch's own code in each environment: the same input through both."""

import os
import subprocess

import pytest

import environments
import gpu_programs
from support import AGENT, BUILD, check, soak

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(BUILD, "tests")
WHEELS = ("main", "old")
AGENTS = {"agent": AGENT, "haste": os.path.join(TESTS, "libagent_haste.so"),
         "dump": os.path.join(TESTS, "workloads", "libagent_dump.so"), "cfg": os.path.join(TESTS, "agent_cfg")}


def marked(names):
    return [pytest.param(n, marks=getattr(pytest.mark, n)) for n in names]


def run(which, program, *args, env=None):
    """Runs a program of this folder under the Python of an environment; returns its output."""
    environment = environments.get(which)
    if environment.why_not():
        pytest.skip(environment.why_not())
    done = subprocess.run([environment.python, os.path.join(HERE, program), *map(str, args)], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **(env or {})))
    if "No module named 'torch'" in done.stdout:
        pytest.skip("no torch")
    check(done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


@pytest.mark.parametrize("which", marked(WHEELS))
def test_gpu_rows(which, ws, detail):
    """Sums by name with GPU work."""
    detail(run(which, "same_gpu_rows.py", os.path.join(TESTS, "gpu_rows"), *gpu_programs.write(ws, 300 if soak() else 100)))


@pytest.mark.parametrize("which", marked(WHEELS))
def test_table(which, detail):
    """The table, byte for byte."""
    detail(run(which, "same_table.py", os.path.join(TESTS, "table_rows")))


@pytest.mark.parametrize("which", marked((*WHEELS, "distribution")))
def test_schemas(which, detail):
    """The plan's schemas of operators."""
    detail(run(which, "same_schemas.py", os.path.join(TESTS, "plan_schemas")))


@pytest.mark.parametrize("which", marked(WHEELS if soak() else ("main",)))
def test_agent_stress(which, detail):
    """The agent's callback is registered and removed while threads throw, fork and end."""
    detail(run(which, "agent_stress.py", *(word for name, path in AGENTS.items() for word in ("--" + name, path)),
               "--rounds", 10000 if soak() else 2000,
               env={"LD_PRELOAD": f"{AGENTS['haste']}:{AGENTS['agent']}", "OMP_NUM_THREADS": "1"}))
