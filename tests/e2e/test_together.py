# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several observers of one process, and several processes of one observer."""

from support import Tracer, check, load_trace, slices, workload


def names(doc):
    return [e["name"] for e in sorted(slices(doc), key=lambda e: e["ts"]) if not e["name"].startswith("ProfilerStep")]


def touch(path):
    with open(path, "w"):
        pass


def test_two_tracers(ws):
    """Two ptbpf on one process see the same operators."""
    with workload("scripted.py", ws + "/go") as p:
        p.wait_line("ready")
        paths = [f"{ws}/{k}.json" for k in "ab"]
        tracers = [Tracer("attach", "--pid", p.pid, "-o", x.replace("json", "ptb"), "--trace", x) for x in paths]
        with tracers[0] as a, tracers[1] as b:
            a.wait_attached()
            b.wait_attached()
            touch(ws + "/go")
            p.wait_line("done")
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            a.expect(0)  # the window has ended with the target: a signal would interrupt the export
            b.expect(0)
        first, second = (names(load_trace(x)) for x in paths)
        check(first == second, f"they differ: {len(first)} and {len(second)} slices")
        check(first.count("aten::neg") == 100, f"{first.count('aten::neg')} of 100 aten::neg")


def test_two_targets(ws):
    """One ptbpf with two processes keeps them apart."""
    with workload("spin.py") as p, workload("train_loop.py") as q:
        p.wait_line("rate")
        q.wait_line("step 20")
        with Tracer("attach", "--pid", f"{p.pid},{q.pid}", "-d", "1s", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            t.expect(0)
        doc = load_trace(ws + "/a.json")
        mine, other = slices(doc, pid=p.pid), slices(doc, pid=q.pid)
        check({e["name"] for e in mine} == {"aten::neg"}, f"the first process has {({e['name'] for e in mine})}")
        check(any(e["name"] == "aten::conv2d" for e in other), "the second process has no convolution")
        check(p.alive() and q.alive(), "a target died")
