# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--wait: attaches before torch is loaded, and traces from the moment it is."""

from support import Tracer, check, load_trace, slices, workload


def touch(path):
    with open(path, "w"):
        pass


def test_loads_later(ws):
    with workload("late.py", ws + "/go") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "--wait", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_line("waiting", stream=t.err)
            touch(ws + "/go")
            t.wait_attached()
            p.wait_line("worked")
            t.stop()
        doc = load_trace(ws + "/a.json")
        check(slices(doc, "late work") and slices(doc, "aten::neg"), "nothing was traced after torch had been loaded")
        touch(ws + "/go.stop")
        check(p.finish() == 0, f"the target failed\n{p.text()}")


def test_never_loads(ws):
    """The wait ends when the target ends."""
    with workload("late.py", ws + "/go") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "--wait", "-o", ws + "/a.ptb") as t:
            t.wait_line("waiting", stream=t.err)
            p.proc.kill()
            p.proc.wait()
            t.expect(1)
