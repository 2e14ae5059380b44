# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The memory timeline compared with torch's, for the same steps: every block, and every category that ptbpf knows."""

import collections
import gzip
import json
import os
import signal
import subprocess

from support import PYTHON, WORKLOADS, Skip, Tracer, check, require_root, run_ptbpf, workload, workspace

PREEXISTING, CREATE, VERSION, DESTROY = 1, 2, 3, 4
PARAMETER, STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, DETAIL, UNKNOWN = range(8)


def torch_rows(ws, kind):
    path = ws + "/torch.raw.json.gz"
    argv = [PYTHON, os.path.join(WORKLOADS, "timeline_work.py"), kind, "--torch", path]
    p = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=dict(os.environ, KINETO_LOG_LEVEL="99"))
    if "No module named 'torch'" in p.stderr:
        raise Skip("no torch")
    check(p.returncode == 0, f"torch's own run ended with {p.returncode}\n{p.stderr}")
    with gzip.open(path) as f:
        return json.load(f)


def capture(ws, kind, *options):
    go, path = ws + "/go", ws + "/a.ptb"
    with workload("timeline_work.py", kind, go) as p:
        p.wait_line("^ready$")
        with Tracer("attach", "--pid", p.pid, "-o", path, "--no-table", "--profile-memory", *options) as t:
            t.wait_attached()
            open(go, "w").close()
            p.wait_line("^done$")
            t.signal(signal.SIGINT)
            t.expect(0)
        os.unlink(go)
        check(p.finish() == 0, f"the target ended ill\n{p.text()}")
    return path


def export(ws, path, form, name):
    out = os.path.join(ws, name)
    run_ptbpf("export", path, "--format", form, "-o", out)
    with gzip.open(out, "rt") if out.endswith(".gz") else open(out) as f:
        return f.read()


def in_order(rows, *actions):
    return [r[1:] for r in rows if r[1] in actions]


def compare(kind, theirs, ours):
    """Compares blocks in order of time, versions in order of time, and blocks from before the window as a set."""
    pairs = collections.Counter()
    for actions in ((CREATE, DESTROY), (VERSION,), (PREEXISTING,)):
        a, b = in_order(theirs, *actions), in_order(ours, *actions)
        if actions == (PREEXISTING,):  # several blocks of the same size: torch orders them by its numbers
            a, b = sorted(a), sorted(b)
        check([r[:2] for r in a] == [r[:2] for r in b],
              f"{kind}: rows of {actions} are not the same: {len(a)} of torch's, {len(b)} of ours")
        for x, y in zip(a, b):
            pairs[x[2], y[2]] += 1
    wrong = {k: n for k, n in pairs.items() if k[0] != k[1] and k[1] != UNKNOWN}
    check(not wrong, f"{kind}: categories (torch's, ours): {wrong}")
    missing = {k[0] for k in pairs if k[1] == UNKNOWN} - {UNKNOWN}
    check(not missing, f"{kind}: categories that torch knows and we do not: {missing}")
    return pairs


def truth(kind, *expected):
    require_root()
    with workspace() as ws:
        theirs = torch_rows(ws, kind)
        ours = json.loads(export(ws, capture(ws, kind, "--execution-trace"), "memory-raw", "a.raw.json.gz"))
        pairs = compare(kind, theirs, ours)
    seen = {k[1] for k in pairs}
    check(seen >= set(expected), f"{kind}: of {expected} only {seen} were seen")
    return f"{len(ours)} rows"


TRAINED = (PARAMETER, INPUT, ACTIVATION, GRADIENT, DETAIL)


def test_sgd(detail):
    detail(truth("sgd", *TRAINED, TEMPORARY))


def test_adam(detail):
    detail(truth("adam", *TRAINED, TEMPORARY))


def test_convolution(detail):
    detail(truth("conv", *TRAINED, TEMPORARY))


def test_attention(detail):
    detail(truth("attention", *TRAINED, TEMPORARY))


def test_frozen_layer(detail):
    detail(truth("frozen", *TRAINED))


def test_same_batch(detail):
    """A batch from before the window, similar to a frozen parameter."""
    detail(truth("same_batch", *TRAINED))


def test_kept_gradients(detail):
    detail(truth("kept_gradients", *TRAINED))


def test_no_step(detail):
    """No parameter is changed: by data flow alone it would be an input."""
    detail(truth("no_step", *TRAINED))


def test_inference(detail):
    detail(truth("inference", PARAMETER, INPUT, ACTIVATION))


def test_without_tensors(ws):
    """With --profile-memory only: the blocks are the same, all of unknown category; all three formats."""
    theirs = torch_rows(ws, "sgd")
    path = capture(ws, "sgd")
    ours = json.loads(export(ws, path, "memory-raw", "a.raw.json"))
    a, b = in_order(theirs, CREATE, DESTROY), in_order(ours, CREATE, DESTROY)
    check([r[:2] for r in a] == [r[:2] for r in b], f"{len(a)} blocks of torch's, {len(b)} of ours")
    check({r[3] for r in ours} == {UNKNOWN}, "a category without anything that it could follow from")
    times, sizes = json.loads(export(ws, path, "memory", "a.json"))
    check(len(times) == len(sizes) and times == sorted(set(times)), "times are not in order, each once")
    check(all(len(s) == 9 and s[0] == 0 for s in sizes), "sizes are not a foot and eight categories")
    live = sum(-r[2] if r[1] == DESTROY and r[2] > 0 else r[2] for r in ours if r[1] != VERSION)
    check(sum(sizes[-1]) == live, f"{sum(sizes[-1])} bytes live at the end, the rows say {live}")
    page = export(ws, path, "memory-html", "a.html")
    check("peak: " in page and "aten::" in page and "http" not in page, "the page lacks its peak or its owners")
