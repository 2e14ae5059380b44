# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf gets 5 % of a processor: the default rings absorb about a second of it, and lost records are counted exactly.

The amount of work is fixed, because what four threads do in a second differs between machines."""

import contextlib
import os
import signal
import threading
import time

from support import AGENT, PYTHON, WORKLOADS, CommandTarget, Tracer, check, load_trace, loss_counters, require_root, run_ptbpf, soak, workspace

CYCLE, SHARE = 0.1, 0.05
THREADS = 4
# A second of probes, 0.4 s of the agent at full speed; less with shapes, whose records are larger: a machine that is busy
# otherwise may run the target mostly on one processor, whose ring then takes most of it.
PROBES, AGENTS, AGENTS_SHAPES = 1000000, 1500000, 1000000


class Busy(CommandTarget):
    def __init__(self, agent=False):
        super().__init__([PYTHON, "-u", WORKLOADS + "/starve_work.py"], env={"LD_PRELOAD": AGENT} if agent else None)
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
    return loss_counters(load_trace(ws + "/x.json"))


def record(ws, p, rounds, share, *options):
    """One window in which the target runs its rounds while ptbpf is starved; the capture and the exit code."""
    out = f"{ws}/{len(os.listdir(ws))}.ptb"
    with Tracer("attach", "--pid", p.pid, "--no-table", "-o", out, *options) as t:
        t.wait_attached()
        with starved(t.pid) if share else contextlib.nullcontext():
            p.ask(rounds)
        code = t.stop((0, 3))
        return out, code, t.err[-1]


def test_counted(detail):
    """A small ring: the same work gives the same number of records, received and lost ones together."""
    with workspace() as ws, Busy() as p:
        rounds = 400000 if soak() else 60000
        out, code, last = record(ws, p, rounds, False, "--ringbuf", "64M")
        whole = counters(ws, out)
        check(code == 0 and not whole.get("RING_FULL"), f"the window without starvation lost records: {last}")
        os.unlink(out)
        out, code, last = record(ws, p, rounds, True, "--ringbuf", "64K")
        c = counters(ws, out)
        lost = c.get("RING_FULL", 0)
        check(code == 3 and lost > 1000, f"exit {code}, {lost} lost: the ring was not too small for this")
        check(c["HITS"] + lost == whole["HITS"],
              f"{c['HITS']} records and {lost} lost are {c['HITS'] + lost}, not {whole['HITS']}")
    detail(f"{lost} of {whole['HITS']} lost, all counted")


def absorbed(operators, *options, agent=False):
    require_root()
    with workspace() as ws, Busy(agent) as p:
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--no-table", *options) as t:
            t.wait_attached()
            with starved(t.pid):
                took = float(p.ask(operators // THREADS))
            code = t.stop((0, 3))
            last = t.err[-1]
        check(code == 0, f"{took:.2f} s of {operators} operators, while ptbpf had {SHARE:.0%} of a processor: {last}")
    return f"{took:.2f} s of {THREADS} threads, {operators} operators, nothing lost"


def test_probes(detail):
    detail(absorbed(PROBES))


def test_probes_shapes(detail):
    detail(absorbed(PROBES, "--record-shapes"))


def test_agent(detail):
    detail(absorbed(AGENTS, agent=True))


def test_agent_shapes(detail):
    detail(absorbed(AGENTS_SHAPES, "--record-shapes", agent=True))
