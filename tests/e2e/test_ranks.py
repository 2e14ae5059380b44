# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ranks of torchrun, recorded one by one, read as one session: one time axis, one trace of each, the slow rank and why it is."""

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess

import pytest

from support import BUILD, PYTHON, WORKLOADS, Process, Tracer, check, load_trace, run_ptbpf, slices, soak, wait_for

SHIFTER = os.path.join(BUILD, "tests", "shift_capture")
OTHER_BOOT = 86400 * 10**9  # another machine's CLOCK_MONOTONIC


def ready(p, count):
    found = {int(rank): int(pid) for pid, rank in re.findall(r"^ready (\d+) (\d)", p.text(), re.M)}
    return [found[r] for r in range(count)] if len(found) == count else None


@contextlib.contextmanager
def job(ws, count):
    """Pids by rank."""
    env = dict(os.environ, OMP_NUM_THREADS="1")
    with Process([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), WORKLOADS + "/skew_work.py", ws],
                 env=env) as p:
        yield wait_for(lambda: ready(p, count), "the ranks")
        with open(ws + "/stop", "w", encoding="utf-8"):
            pass
        check(p.finish() == 0, "\n".join(p.err))


def steps_of(ws, rank):
    with open(f"{ws}/times-{rank}", encoding="utf-8") as f:
        return sum(1 for _ in f)


def record(ws, name, pids, steps):
    """A capture of each rank, at the same time."""
    paths = [f"{ws}/{name}{rank}.ptb" for rank in range(len(pids))]
    with contextlib.ExitStack() as stack:
        tracers = [stack.enter_context(Tracer("attach", "--pid", pid, "-o", path, "--no-table")) for pid, path in zip(pids, paths)]
        for t in tracers:
            t.wait_attached()
        until = steps_of(ws, 0) + steps
        wait_for(lambda: steps_of(ws, 0) >= until, f"{steps} steps")
        for t in tracers:
            t.signal(signal.SIGINT)
        for t in tracers:
            t.expect(0, 3)
    return paths


def skew(paths, *options):
    """The document, and the messages."""
    done = run_ptbpf("report", *paths, "--skew", "--json", *options, expect=(0, 3))
    return json.loads("\n".join(done.out)), "\n".join(done.err)


def check_overlap(ws, paths, *options):
    """Calls of one collective of all ranks: none of them begins after another rank's next one."""
    run_ptbpf("export", *paths, "--format", "chrome", "-o", ws + "/all.json", *options, expect=(0, 3))
    calls = {}
    for e in slices(load_trace(ws + "/all.json"), "c10d::allreduce_"):
        calls.setdefault(e["pid"], []).append(e["ts"])
    first, *others = [sorted(c) for c in calls.values()]
    check(len(first) > 10, f"{len(first)} collectives")
    for other in others:
        begin = min(range(len(first)), key=lambda i: abs(first[i] - other[0])) if other[0] >= first[0] else 0
        skip = 0 if other[0] >= first[0] else min(range(len(other)), key=lambda i: abs(other[i] - first[0]))
        best = None
        for lag in (-1, 0, 1):
            pairs = [(first[i + begin + lag], other[i + skip]) for i in range(len(other) - skip) if 0 <= i + begin + lag < len(first)]
            # both ranks begin the next one after both began this one
            bad = sum(max(a, b) > min(c, d) for (a, b), (c, d) in zip(pairs, pairs[1:]))
            best = bad if best is None else min(best, bad)
        check(best == 0, f"{best} collectives of {len(other)} do not overlap")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Captures of two ranks in which none is slow, one is in its loader, one in an operator."""
    ws = str(tmp_path_factory.mktemp("ranks"))
    out = {"ws": ws}
    with job(ws, 2) as pids:
        out["even"] = record(ws, "even", pids, 30)
        for name, slow in (("load", "1 load 80"), ("op", "0 op 80")):
            with open(ws + "/slow.new", "w", encoding="utf-8") as f:
                f.write(slow)
            os.rename(ws + "/slow.new", ws + "/slow")
            out[name] = record(ws, name, pids, 16)
    return out


def test_one_machine(two):
    """All collectives match, and overlap; the ranks keep their pids."""
    doc, _ = skew(two["even"])
    how, captures = doc["merged"]["how"], doc["merged"]["captures"]
    check((how["machines"], how["processes_matched"], how["processes_unmatched"]) == (1, 1, 0), f"{how}")
    check(not captures[1]["contradicts_clock"] and captures[1]["collectives_least_ns"] <= 0 <= captures[1]["collectives_most_ns"],
          f"{captures[1]}")
    check([t["pid"] for t in doc["targets"]] == [t["recorded_pid"] for t in doc["targets"]], "pids were moved")
    check(how["collectives_matched"] > 20, f"{how}")
    check_overlap(two["ws"], two["even"])


def test_other_machine(two):
    """A capture as of another machine: with a right clock all is as before; with a wrong one collectives show it, and mend it on request."""
    ws, (first, second) = two["ws"], two["even"]
    for wrong_ms in (0, 400):
        subprocess.run([SHIFTER, second, ws + "/other.ptb", "other", str(OTHER_BOOT), str(wrong_ms * 10**6)], check=True)
        doc, messages = skew([first, ws + "/other.ptb"])
        capture = doc["merged"]["captures"][1]
        check(capture["contradicts_clock"] == bool(wrong_ms), f"{wrong_ms} ms: {capture}")
        check(("is fast by at least" in messages) == bool(wrong_ms), messages)
        check(doc["targets"][1]["pid"] - doc["targets"][1]["recorded_pid"] == 4194304, f"{doc['targets']}")
        check(capture["collectives_least_ns"] <= -wrong_ms * 10**6 <= capture["collectives_most_ns"], f"{capture}")
        if not wrong_ms:
            check_overlap(ws, [first, ws + "/other.ptb"])
    doc, _ = skew([first, ws + "/other.ptb"], "--align", "collectives")
    capture = doc["merged"]["captures"][1]
    check(abs(capture["correction_ns"] + 400 * 10**6) < 20 * 10**6, f"{capture}")
    check_overlap(ws, [first, ws + "/other.ptb"], "--align", "collectives")


def test_none_slow(two):
    doc, _ = skew(two["even"])
    check(not any(r["slow"] for r in doc["ranks"]), f"{doc['ranks']}")


def own_account(ws, rank, name, column):
    """By the program's own clock: how long the part of the step and the step took while it was slow, in ns."""
    with open(f"{ws}/times-{rank}", encoding="utf-8") as f:
        rows = [line.split() for line in f if line.startswith(name)]
    return statistics.median(int(r[column]) for r in rows), statistics.median(int(r[3]) for r in rows)


@pytest.mark.parametrize("name, rank, what, column", (("load", 1, "data loading", 1), ("op", 0, "skew::rest", 2)))
def test_slow(two, name, rank, what, column, detail):
    """The slow rank, with what it does longer, and for how long."""
    doc, _ = skew(two[name])
    slow = [r for r in doc["ranks"] if r["slow"]]
    check([r["rank"] for r in slow] == [rank], f"{doc['ranks']}")
    cause = slow[0]["causes"][0]
    check(cause["what"] == what, f"{slow[0]['causes']}")
    part, step = own_account(two["ws"], rank, name, column)
    part -= own_account(two["ws"], rank, "None", column)[0]
    # on a busy machine parts of the others take longer, too
    check(abs(cause["excess_ns"] - part) < 0.25 * part + 3e6, f"{slow[0]}, the program says {part / 1e6:.1f} ms")
    check(abs(slow[0]["share"] - part / step) < 0.25, f"share {slow[0]['share']}, the program says {part / step:.2f}")
    check(slow[0]["before"]["collective"].startswith("c10d::allreduce_") and slow[0]["before"]["number"] == 1, f"{slow[0]['before']}")
    detail(f"{name}: {cause['excess_ns'] / 1e6:.1f} ms, {slow[0]['share']:.2f} of a step; by the program {part / 1e6:.1f} ms, {part / step:.2f}")


@pytest.mark.skipif(not soak(), reason="two processors: eight ranks take minutes")
def test_eight(ws):
    with job(ws, 8) as pids:
        with open(ws + "/slow", "w", encoding="utf-8") as f:
            f.write("5 op 300")
        paths = record(ws, "r", pids, 20)
    doc, _ = skew(paths)
    check(doc["merged"]["how"]["processes_matched"] == 7, f"{doc['merged']}")
    check([r["rank"] for r in doc["ranks"] if r["slow"]] == [5], f"{doc['ranks']}")
