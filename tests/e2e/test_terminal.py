# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A process whose name and command line contain terminal control sequences: ptbpf prints them as plain text."""

import os
import unicodedata

from support import PYTHON, WORKLOADS, Process, Tracer, check, run_ptbpf, workload, workspace

EVIL = "\n\rINJECTED\x1b[2J\x1b]0;t\x07\u009b1m\u202e\u200b\u2028"


def plain(tracer):
    """Only text on ptbpf's own lines; these lines as one text."""
    text = "\n".join(tracer.out + tracer.err)
    bad = {f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    check(not bad, f"{tracer.name()!r} prints {sorted(bad)}")
    check(not any(line.lstrip().startswith("INJECTED") for line in text.splitlines()), f"a text of the target's began a line\n{text}")
    return text


def test_command_line(ws):
    """doctor --pid, --dry-run, the table and the messages of an attach."""
    code = "import ctypes, runpy, sys; ctypes.CDLL(None).prctl(15, b'\\x1b[2J\\nINJECTED'); runpy.run_path(sys.argv[1], run_name='__main__')"
    with Process([PYTHON, "-u", "-c", code, os.path.join(WORKLOADS, "spin.py"), EVIL]) as p:
        p.wait_line("rate")
        check("INJECTED" in plain(run_ptbpf("doctor", "--pid", p.pid, expect=(0, 1))), "doctor does not show the command")
        plain(run_ptbpf("attach", "--pid", p.pid, "--dry-run"))
        plain(run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "-o", f"{ws}/a{EVIL}.ptb", "--log", "all"))
        names = os.listdir(ws)
        check(names == [f"a{EVIL}.ptb"], f"the file has another name: {names}")


def test_refused():
    """Messages about a process that cannot be traced."""
    with workspace() as ws, workload("late.py", ws + "/never" + EVIL) as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb") as t:
            t.expect(1)
            plain(t)
    plain(run_ptbpf("export", "x.ptb", "--format", EVIL, expect=2))
    plain(run_ptbpf(EVIL, expect=2))
    plain(run_ptbpf("attach", EVIL, expect=2))
