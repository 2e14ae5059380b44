# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory that a process maps from a file system whose server does not answer (FUSE): ptbpf says so, removes its probes from all
processes, and leaves out that one."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

from support import Tracer, check, modified_code, require_root, wait_for, workload, workspace
from fuse_server import FuseServer

NOBODY = 65534
BYTES = bytes(64 << 20)  # more than the largest memory that is replaced
STALLED = r"a read of the memory of pid (\d+) is not answered"


@contextlib.contextmanager
def processes(what):
    """(victim, hostile, server, folder); the memory of `hostile` can be replaced."""
    require_root()
    with workspace() as ws:
        os.mkdir(ws + "/mnt")
        with FuseServer(ws + "/mnt", "memory", BYTES, NOBODY) as server, workload("spin.py") as victim:
            victim.wait_line("^ready$")
            with workload("unserved.py", server.file(), what, stdin=subprocess.PIPE) as hostile:
                hostile.wait_line("^ready$")
                server.stop_answering()
                yield victim, hostile, server, ws
                hostile.proc.kill()


@contextlib.contextmanager
def tracer(server, *args):
    """One that may not end before the server does."""
    with Tracer(*args) as t:
        try:
            yield t
        finally:
            server.abort()


def check_victim(victim):
    """It goes on, and has no probes."""
    wait_for(lambda: not modified_code(victim.pid), "the probes of the other process to go")
    victim.wait_news("^rate", 2)


@pytest.mark.parametrize("sig", [None, signal.SIGINT], ids=["alone", "signal"])
def test_at_attach(sig):
    with processes("data") as (victim, hostile, server, ws):
        hostile.send()
        hostile.wait_line("^replaced$")
        with tracer(server, "attach", "--pid", f"{victim.pid},{hostile.pid}", "-o", ws + "/a.ptb") as t:
            wait_for(lambda: server.unanswered, "the memory to be read")
            if sig:
                t.signal(sig)
            found = t.wait_line(STALLED, stream=t.err)
            check(int(found.group(1)) == hostile.pid, t.text())
            check_victim(victim)
            server.abort()  # until then the kernel keeps the thread that waits
            code = t.finish()
        check(code == (128 + sig if sig else 1), f"exit {code}\n{t.text()}")


def test_in_a_window_of_samples():
    """A BPF program reads the stacks."""
    with processes("stack") as (_, hostile, server, ws):
        with tracer(server, "attach", "--pid", hostile.pid, "--sample-stacks", 99, "-o", ws + "/a.ptb") as t:
            t.wait_attached()
            hostile.send()
            t.wait_line(STALLED, stream=t.err)
            server.abort()
            code = t.finish()
        check(code == 1, f"exit {code}\n{t.text()}")
        check([f for f in os.listdir(ws) if f.endswith(".partial")], "what was captured is lost")


def test_left_out_of_later_windows():
    """The next window begins when the read has been given up."""
    with processes("data") as (victim, hostile, server, ws):
        hostile.send()
        hostile.wait_line("^replaced$")
        with tracer(server, "sample", "--pid", f"{victim.pid},{hostile.pid}", "--dir", ws + "/w", "--schedule", "wait=18s,active=1s,repeat=2",
                    "--max-overhead", "50%") as t:
            t.wait_line(STALLED, stream=t.err)
            check_victim(victim)
            code = t.finish()
        with open(ws + "/w/windows.jsonl", encoding="utf-8") as f:
            windows = [json.loads(line) for line in f]
        check([w["pids"] for w in windows] == [[victim.pid, hostile.pid], [victim.pid]], f"{windows}")
        check([w["exit"] for w in windows] == [1, 0] and code == 3, f"exit {code}, {windows}\n{t.text()}")
        check(f"pid {hostile.pid} is not answered" in windows[0]["incomplete"], f"{windows[0]}")
