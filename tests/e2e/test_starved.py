# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf gets 5 % of a processor: the default rings absorb about a second of it, and what is lost is counted to the last record.

What four threads do in a second differs between machines, so the work is given: OPERATORS, a second of them on two processors under probes.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time

from support import PTBPF, PYTHON, WORKLOADS, AskedTarget, Tracer, check, require_root, run_ptbpf, workspace

AGENT = os.path.join(os.path.dirname(os.path.abspath(PTBPF)), "libptbpf_agent.so")
SOAK = bool(os.environ.get("PTBPF_SOAK"))
CYCLE, SHARE = 0.1, 0.05
THREADS = 4
OPERATORS = {False: 1000000, True: 1500000}  # by source, probes or agent: a second of probes, 0.4 s of the agent at full speed


class Busy(AskedTarget):
    def __init__(self, agent=False):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **({"LD_PRELOAD": AGENT} if agent else {}))
        self.proc = subprocess.Popen([PYTHON, "-u", WORKLOADS + "/starve_work.py"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, env=env)
        self.pid = self.proc.pid
        self.line("ready")


@contextlib.contextmanager
def starved(pid):
    """Stops the process for all but SHARE of each CYCLE."""
    done = threading.Event()

    def cycle():
        while not done.is_set():
            os.kill(pid, signal.SIGSTOP)
            done.wait(CYCLE * (1 - SHARE))
            os.kill(pid, signal.SIGCONT)
            time.sleep(CYCLE * SHARE)

    thread = threading.Thread(target=cycle)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def counters(ws, capture):
    """Counters by name, from the trace."""
    run_ptbpf("export", capture, "--format", "chrome", "-o", ws + "/x.json", expect=(0, 3))
    with open(ws + "/x.json", encoding="utf-8") as f:
        return {c["name"]: c["value"] for c in json.load(f)["ptbpf"]["loss"]["counters"]}


def record(ws, p, rounds, share, *options):
    """One window in which the target does its rounds, ptbpf starved while it does; its capture and exit code."""
    out = f"{ws}/{len(os.listdir(ws))}.ptb"
    with Tracer("attach", "--pid", p.pid, "--no-table", "-o", out, *options) as t:
        t.wait_attached()
        with starved(t.pid) if share else contextlib.nullcontext():
            p.ask(rounds)
        code = t.stop((0, 3))
        return out, code, t.err[-1]


def test_counted(detail):
    """A small ring: the same work gives the same number of records, those that arrived and those that are lost."""
    with workspace() as ws, Busy() as p:
        rounds = 400000 if SOAK else 60000
        out, code, last = record(ws, p, rounds, False, "--ringbuf", "64M")
        whole = counters(ws, out)
        check(code == 0 and not whole.get("RING_FULL"), f"the window that nobody starved lost records: {last}")
        os.unlink(out)
        out, code, last = record(ws, p, rounds, True, "--ringbuf", "64K")
        c = counters(ws, out)
        lost = c.get("RING_FULL", 0)
        check(code == 3 and lost > 1000, f"exit {code}, {lost} lost: the ring was not too small for this")
        check(c["HITS"] + lost == whole["HITS"],
              f"{c['HITS']} records and {lost} lost are {c['HITS'] + lost}, not {whole['HITS']}")
    detail(f"{lost} of {whole['HITS']} lost, all counted")


def absorbed(agent, *options):
    require_root()
    with workspace() as ws, Busy(agent) as p:
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--no-table", *options) as t:
            t.wait_attached()
            with starved(t.pid):
                took = float(p.ask(OPERATORS[agent] // THREADS))
            code = t.stop((0, 3))
            last = t.err[-1]
        check(code == 0, f"{took:.2f} s of {OPERATORS[agent]} operators, while ptbpf had {SHARE:.0%} of a processor: {last}")
    return f"{took:.2f} s of {THREADS} threads, {OPERATORS[agent]} operators, nothing lost"


def test_probes(detail):
    detail(absorbed(False))


def test_probes_shapes(detail):
    detail(absorbed(False, "--record-shapes"))


def test_agent(detail):
    detail(absorbed(True))


def test_agent_shapes(detail):
    detail(absorbed(True, "--record-shapes"))
