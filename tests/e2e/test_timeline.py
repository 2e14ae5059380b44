# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The memory timeline compared with torch's, for the same steps: every block, and every category that ptbpf knows."""

import collections
import os

from support import Tracer, check, run_ptbpf, shared
from memory_truth import TruthTarget, read

PREEXISTING, CREATE, VERSION, DESTROY = 1, 2, 3, 4
PARAMETER, STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, DETAIL, UNKNOWN = range(8)


class Target(TruthTarget):
    def __init__(self):
        super().__init__("timeline_work.py")

    def capture(self, kind, *options):
        path = os.path.join(self.folder, kind + ".ptb")
        self.send(kind)
        pid = self.line("set")
        with Tracer("attach", "--pid", pid, "-o", path, "--no-table", "--profile-memory", *options) as t:
            t.wait_attached()
            self.send("go")
            self.line("done")
            t.stop()
        self.send("end")
        return path


def export(capture, form, out):
    run_ptbpf("export", capture, "--format", form, "-o", out)
    return read(out)


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
    target = shared(Target)
    ours, _ = target.ours(target.capture(kind, "--execution-trace"))
    pairs = compare(kind, target.theirs(kind), ours)
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
    target = shared(Target)
    theirs, path = target.theirs("sgd"), target.capture("sgd")
    ours = export(path, "memory-raw", ws + "/a.raw.json")
    a, b = in_order(theirs, CREATE, DESTROY), in_order(ours, CREATE, DESTROY)
    check([r[:2] for r in a] == [r[:2] for r in b], f"{len(a)} blocks of torch's, {len(b)} of ours")
    check({r[3] for r in ours} == {UNKNOWN}, "a category without anything that it could follow from")
    times, sizes = export(path, "memory", ws + "/a.json")
    check(len(times) == len(sizes) and times == sorted(set(times)), "times are not in order, each once")
    check(all(len(s) == 9 and s[0] == 0 for s in sizes), "sizes are not a foot and eight categories")
    live = sum(-r[2] if r[1] == DESTROY and r[2] > 0 else r[2] for r in ours if r[1] != VERSION)
    check(sum(sizes[-1]) == live, f"{sum(sizes[-1])} bytes live at the end, the rows say {live}")
    run_ptbpf("export", path, "--format", "memory-html", "-o", ws + "/a.html")
    with open(ws + "/a.html", encoding="utf-8") as f:
        page = f.read()
    check("peak: " in page and "aten::" in page and "http:" not in page and "https:" not in page, "the page lacks its peak or its owners")
