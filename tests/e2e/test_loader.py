# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A program that the dynamic loader runs (ld-linux-x86-64.so.2 python ...): /proc calls it by the loader's name."""

import os
import re
import signal
import subprocess

import pytest

from support import PYTHON, WORKLOADS, Process, Tracer, check, load_trace, run_ptbpf


def loader():
    """The interpreter of Python's program."""
    try:
        text = subprocess.run(["readelf", "-lW", os.path.realpath(PYTHON)], capture_output=True, text=True, check=True).stdout
    except OSError:
        pytest.skip("needs readelf")
    return re.search(r"interpreter: (\S+)]", text)[1]


def started_by_the_loader(program):
    # argv[0] is where Python finds its environment
    return Process([loader(), "--argv0", PYTHON, program, "-u", os.path.join(WORKLOADS, "spin.py")])


def process_names(trace, pid):
    return {e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name" and e["pid"] == pid}


def test_started_by_the_loader(ws):
    """Its name is its own, its agent can be loaded, and its Python's frames are read."""
    program = os.path.realpath(PYTHON)
    with started_by_the_loader(program) as target:
        target.wait_line("rate")
        run = run_ptbpf("attach", "--pid", target.pid, "-d", "500ms", "-o", ws + "/c.ptb", "--trace", ws + "/t.json", "--with-stack",
                        "--agent", "inject", "--no-table", expect=(0, 3))
        check(target.alive(), target.text())
    text = "\n".join(run.err)
    check("static" not in text and "Operators by the agent" in text, f"not by the agent: {text}")
    trace = load_trace(ws + "/t.json")
    names = process_names(trace, target.pid)
    check(names == {os.path.basename(program)[:15]}, f"it is called {names}")
    frames = {e["name"] for e in trace["traceEvents"] if e.get("cat") == "python_function"}
    check(any("spin.py" in name for name in frames), f"frames: {frames}")


def test_ends_in_the_window(ws):
    """The kernel's last word about it is the loader's name again."""
    program = os.path.realpath(PYTHON)
    with started_by_the_loader(program) as target:
        target.wait_line("rate")
        with Tracer("attach", "--pid", target.pid, "-o", ws + "/c.ptb", "--trace", ws + "/t.json", "--no-table") as tracer:
            tracer.wait_attached()
            os.kill(target.pid, signal.SIGKILL)
            tracer.expect(0, 3)
    names = process_names(load_trace(ws + "/t.json"), target.pid)
    check(names == {os.path.basename(program)[:15]}, f"it is called {names}")
