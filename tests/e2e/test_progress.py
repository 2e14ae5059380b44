# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""attach --progress-fd: what a program that starts ptbpf reads of it, line by line."""

import json
import os

import pytest

from support import ROOT, check, run_ptbpf

with open(os.path.join(ROOT, "schemas", "formats", "progress.schema.json"), encoding="utf-8") as schema:
    LINE = json.load(schema)


def attach(*args, expect=0):
    """The lines of one attach."""
    r, w = os.pipe()
    done = run_ptbpf("attach", *args, "--no-table", "--progress-fd", w, expect=expect, pass_fds=(w,))
    os.close(w)
    with open(r, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    for line in lines:
        check(set(LINE["required"]) <= set(line) <= set(LINE["properties"]), f"keys of {line}")
    return lines, done


def test_lines(ws, spin):
    """Each step of a window has its line, in time, with the figures that the summary has."""
    spin.wait_line("rate")
    lines, done = attach("--pid", spin.pid, "-d", "300ms", "-o", ws + "/a.ptb")
    check([x["event"] for x in lines] == ["attached", "begun", "sealed", "done"], lines)
    check([x["mono_ns"] for x in lines] == sorted(x["mono_ns"] for x in lines), "the order of time")
    attached, begun, sealed, end = lines
    check(attached["processes"] == begun["processes"] == 1 and attached["seconds"] > 0, lines)
    check(sealed["capture"] == ws + "/a.ptb" and [c["pid"] for c in sealed["charged"]] == [spin.pid], sealed)
    check(sealed["charged_seconds"] == sealed["charged"][0]["seconds"] > 0, sealed)
    check(end["exit"] == 0 and 0.3 <= end["seconds"] < 5 and end["slices"] > 50 and end["stopped_by"] == "duration reached", end)
    check("Cost to the job" in done.text(), "the summary")


def test_nothing_recorded(ws):
    """The last line says so."""
    lines, _ = attach("--pid", os.getpid(), "-d", "300ms", "-o", ws + "/a.ptb", expect=1)
    check([(x["event"], x["exit"]) for x in lines] == [("done", 1)], lines)


@pytest.mark.parametrize("fd", ["77", "-3", "0x1"])
def test_refused(fd):
    done = run_ptbpf("attach", "--pid", 1, "--progress-fd", fd, expect=2)
    check("--progress-fd" in done.text(), done.text())
