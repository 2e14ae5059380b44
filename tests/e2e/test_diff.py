# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`ptbpf diff` of pairs of running programs that differ by one known thing, or by nothing. Both are recorded at the same time, so that what else the machine does concerns both."""

import json
import os
import subprocess
import sys

import pytest

from support import PYTHON, ROOT, WORKLOADS, Process, Skip, Tracer, check, require_root, run_ptbpf

# the difference: what a cause is called, and what it is within. The first is none: other calls do the same work.
PAIRS = {"addmm": None, "slow_operator": "aten::cumsum", "loader": "enumerate(DataLoader)"}
RUNS = 20
SILENT = 3  # of so many runs without a difference so many may name one: at a confidence of 95 % more do in 2 of 100 campaigns


def program(difference):
    return Process([PYTHON, "-u", f"{WORKLOADS}/pairs.py", difference], stdin=subprocess.PIPE)


def record(ws, name, before, after, *durations):
    """Records both at the same time, for longer where a busy machine makes too few steps; the difference as a document."""
    for duration in durations or ("3s", "12s", "40s"):
        doc = record_for(ws, name, before, after, duration)
        if not doc.get("reason", "").startswith("too few steps"):
            return doc
    raise Skip(f"the machine is too busy: {doc['reason']}")


def record_for(ws, name, before, after, duration):
    paths = [f"{ws}/{name}.{side}.ptb" for side in "ab"]
    words = ("-d", duration, "--sched", "--no-table", "-q", "-o")
    with Tracer("attach", "-p", before.pid, *words, paths[0]) as a, Tracer("attach", "-p", after.pid, *words, paths[1]) as b:
        a.expect(0, 3)
        b.expect(0, 3)
    text = "\n".join(run_ptbpf("diff", *paths, "--json", expect=(0, 3)).out)
    with open(f"{ws}/{name}.json", "w", encoding="utf-8") as f:
        f.write(text)
    return json.loads(text)


def causes(doc):
    """Without waits for a CPU, which a busy machine makes."""
    return [f"{c.get('within', '')} > {c['name']}" for c in doc.get("causes", ()) if c["name"] != "waits: CPU"]


def brief(doc):
    d, own = doc.get("difference", {}), doc.get("own_time", {"diff": 0, "a": 1, "low": 0, "high": 0})
    shares = [100 * d.get(k, 0) for k in ("share", "low", "high")] + [100 * own[k] / doc["a"].get("mean_ns", 1) for k in ("diff", "low", "high")]
    return "{} {:+.1f}% ({:+.1f} to {:+.1f}), own {:+.1f}% ({:+.1f} to {:+.1f}) {}".format(doc["verdict"], *shares, causes(doc))


def check_sums(doc):
    """Parts sum to each step and to their difference, but for rounding."""
    for key, whole in (("a", doc["a"]["mean_ns"]), ("b", doc["b"]["mean_ns"])):
        sum_ns = sum(p[key] for p in doc["parts"])
        check(abs(sum_ns - whole) <= len(doc["parts"]) + 1e-9 * whole, f"parts of {key}: {sum_ns}, a step: {whole}")


def test_pairs(ws, detail):
    """What differs is named; where nothing does, nothing is."""
    require_root()
    with program("none") as a, program("none") as b:
        for p in (a, b):
            p.wait_line("^ready")
        for difference, cause in PAIRS.items():
            b.send(difference)
            b.wait_line(f"^now {difference}")
            doc = record(ws, difference, a, b)
            detail(f"{difference}: {brief(doc)}")
            check_sums(doc)
            if cause:
                check(doc["verdict"] == "slower" and any(cause in c for c in causes(doc)), f"{difference}: {brief(doc)}")
            else:
                check(not any("linear" in c or "addmm" in c for c in causes(doc)), f"{difference}: {brief(doc)}")
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), f"{ws}/loader.json"], check=True)


@pytest.mark.soak
@pytest.mark.parametrize("before, after, cause", (("none", "none", None), ("none", "addmm", None), ("none", "slow_operator", "aten::cumsum"), ("none", "copy", "aten::copy_"),
                                                  ("none", "loader", "enumerate(DataLoader)"), ("two_threads", "one_thread", "threads that work")))
def test_many_pairs(ws, detail, before, after, cause):
    """Each in new processes, twenty times: a difference is named in nearly all runs, and none where there is none, at the confidence of 95 %."""
    require_root()
    named, verdicts = 0, []
    for i in range(RUNS):
        with program(before) as a, program(after) as b:
            for p in (a, b):
                p.wait_line("^ready")
            doc = record(ws, f"{after}{i}", a, b, "10s", "40s")
        found = causes(doc) + [c["what"] for c in doc["configuration"] if c["what"] != "command"]
        named += any(cause in c for c in found) if cause else bool(found)
        verdicts.append(doc["verdict"])
        detail(f"{before} and {after}: {brief(doc)}")
    detail(f"{before} and {after}: named in {named} of {RUNS}; {verdicts}")
    check(named >= RUNS - 1 if cause else named <= SILENT, f"{before} and {after}: named in {named} of {RUNS}: {verdicts}")
