# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Operators that are registered in the window, called once, and removed: their memory is reused by the next one."""

import collections
import json
import os

from support import AGENT, PYTHON, WORKLOADS, Tracer, check, load_trace, run_ptbpf, slices, workload

CNT = 8


def same_names(path, lines):
    names = json.loads(next(line for line in lines if line.startswith("{")))["names"]
    seen = collections.Counter(e["name"] for e in slices(load_trace(path)) if e["name"].startswith(("brief", "operator ")))
    check(seen == collections.Counter(names), f"called {names}, traced {dict(seen)}")


def test_recorded(ws):
    """ptbpf record with probes, from before the first operator is registered to after the last one."""
    # The names of what runs while the target exits may be gone before they are read; brief operators run long before.
    done = run_ptbpf("record", "--agent", "off", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", "--", PYTHON,
                     os.path.join(WORKLOADS, "brief_ops.py"), "-", str(CNT), expect=(0, 3))
    same_names(ws + "/r.json", done.out)


def attached(ws, agent):
    with workload("brief_ops.py", ws + "/go", CNT, env={"LD_PRELOAD": AGENT} if agent else None) as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table", "--record-shapes") as t:
            t.wait_attached()
            open(ws + "/go", "w").close()
            p.wait_line("^{")
            t.stop((0, 3))
        check(p.finish() == 0, f"the target failed\n{p.text()}")
        same_names(ws + "/a.json", p.out)


def test_attached(ws):
    attached(ws, False)


def test_by_agent(ws):
    """The agent sends each name once, although its address may belong to another operator later."""
    attached(ws, True)
