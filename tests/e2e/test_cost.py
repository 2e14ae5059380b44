# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What ptbpf says its probes cost, against the kernel's own statistics of BPF programs in the same window."""

import contextlib
import ctypes
import os

import pytest

from support import PYTHON, WORKLOADS, CommandTarget, Tracer, check, report_json

SYS_BPF, BPF_ENABLE_STATS = 321, 32
KPROBE = "2"  # BPF_PROG_TYPE_KPROBE, which probes have; tracepoints also run for other processes' forks
ROUNDS = 40000
# The kernel counts the programs alone, ptbpf the trap as well, which takes longer than most of them.
FACTOR_MAX = 30


class Busy(CommandTarget):
    def __init__(self):
        super().__init__([PYTHON, "-u", WORKLOADS + "/starve_work.py"])
        self.line("ready")


@contextlib.contextmanager
def bpf_stats():
    """As kernel.bpf_stats_enabled=1, until this process ends at the latest."""
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)()  # BPF_STATS_RUN_TIME
    fd = libc.syscall(SYS_BPF, BPF_ENABLE_STATS, attr, ctypes.sizeof(attr))
    check(fd >= 0, f"the statistics of BPF programs: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        os.close(fd)


def programs(pid):
    """(run_time_ns, run_cnt) of all probes' programs that the process holds."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as f:
            facts = dict(line.rstrip().split(":\t", 1) for line in f if ":\t" in line)
        if facts.get("prog_type") == KPROBE:
            found[facts["prog_id"]] = int(facts["run_time_ns"]), int(facts["run_cnt"])
    return tuple(sum(v) for v in zip(*found.values()))


@pytest.mark.parametrize("options", [[], ["--record-shapes"], ["--with-stack"]], ids=["names", "shapes", "stacks"])
def test_estimate(ws, detail, options):
    """Every hit is counted, and none costs less than the kernel says that its program took."""
    with bpf_stats(), Busy() as p, Tracer("attach", "--pid", p.pid, "--no-table", "-o", ws + "/w.ptb", "--ringbuf", "64M", *options) as t:
        t.wait_attached()
        before = programs(t.pid)
        p.ask(ROUNDS)
        ns, runs = (b - a for a, b in zip(before, programs(t.pid)))
        t.stop()
    cost = report_json(ws + "/w.ptb")["cost"]
    check(cost["hits"] >= ROUNDS, f"hits: {cost}")
    check(runs <= 1.01 * cost["hits"] + 100, f"the kernel ran programs {runs} times, ptbpf counts {cost['hits']} hits")
    estimate = cost["hits"] * cost["per_hit_ns"]
    check(ns <= 2 * estimate, f"the kernel's {ns} ns for {runs} runs are more than twice {estimate:.0f} ns, the limit's measure")
    check(estimate <= FACTOR_MAX * ns, f"{estimate:.0f} ns are far more than the kernel's {ns}")
    detail(f"{runs} runs, {ns / runs:.0f} ns each; ptbpf: {cost['hits']} hits, {cost['per_hit_ns']:.0f} ns each")
