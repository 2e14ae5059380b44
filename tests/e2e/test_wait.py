# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--wait: attached before torch is there, it traces from the moment torch is loaded."""

from common import Tracer, check, load_trace, main, require_root, slices, workload, workspace


def touch(path):
    with open(path, "w"):
        pass


def loads_later():
    require_root()
    with workspace() as ws, workload("late.py", ws + "/go") as p:
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


def never_loads():
    """The waiting ends when the target does."""
    require_root()
    with workspace() as ws, workload("late.py", ws + "/go") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "--wait", "-o", ws + "/a.ptb") as t:
            t.wait_line("waiting", stream=t.err)
            p.proc.kill()
            p.proc.wait()
            t.expect(1)


if __name__ == "__main__":
    main([loads_later, never_loads])
