# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf sample --config: what the file says, what is refused, and SIGHUP, which reads it again."""

import os
import signal

import pytest

from support import Tracer, check, load_trace, report_json, run_ptbpf, slices, wait_for, workspace
from test_sample import log_of, read


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def test_file(ws, spin):
    """Options with values and without; blanks and comments; the command line wins."""
    spin.wait_line("rate")
    conf = write(ws + "/c", f"# comment\n\n all-torch = yes \ndir={ws}/w\nschedule=wait=300ms,active=200ms,repeat=9\r\nrecord-shapes=yes\ntraces=json\n"
                 f"no-steps=no\non-window=echo a=b '#c' >>{ws}/hook\n")
    run_ptbpf("sample", "--config", conf, "--pid", spin.pid, "--schedule", "active=300ms,repeat=1")
    w, = log_of(ws + "/w")
    check(w["pids"] == [spin.pid] and w["exit"] == 0, f"window: {w}")
    check([s for s in slices(load_trace(w["trace"]), "aten::neg") if s["args"].get("Input Dims") == [[4, 4]]], "the trace lacks shapes")
    wait_for(lambda: read(ws + "/hook") == "a=b #c\n", "the command")


def test_reload(ws, spin):
    """The window in hand ends with the old settings, the next one has the new; what is not valid changes nothing."""
    spin.wait_line("rate")
    first = f"schedule=wait=1h,active=2s,skip_first_wait=1\ndir={ws}/w\ncomm=\n"
    conf = write(ws + "/c", first.replace("comm=\n", ""))
    with Tracer("sample", "--config", conf, "--pid", spin.pid) as t:
        t.wait_line("recording 1 process", "the window", t.err)
        for text, message in ((first, f"{conf}:3: '' is not a valid value for comm"),
                              (first.replace("comm=\n", "").replace("/w", "/v"), "'dir' cannot change")):
            write(conf, text)
            t.signal(signal.SIGHUP)
            t.wait_line(message, "the reason", t.err)
            t.wait_line("the settings remain as they were", "the message", t.err)
            t.err.clear()
        write(conf, f"schedule=active=200ms,repeat=1\ndir={ws}/w\ntraces=json\nquiet=yes\non-window=echo $PTBPF_WINDOW >>{ws}/hook\n")
        t.signal(signal.SIGHUP)
        t.expect(0)
    log = log_of(ws + "/w")
    check(log[0]["seconds"] >= 2 and "trace" not in log[0], f"the window in hand: {log[0]}")
    check([w["window"] for w in log] == [0, 1] and log[1]["seconds"] < 2 and "trace" in log[1], f"the next one: {log}")
    check(log[1]["begin_unix_ns"] >= log[0]["begin_unix_ns"] + 1.99e9, "the new schedule begins within the window in hand")
    check(not any("recording" in line for line in t.err), f"not quiet: {t.err}")
    wait_for(lambda: read(ws + "/hook") == "1\n", "the command of the second window alone")
    check("aten::neg" in str(report_json(log[1]["capture"])), "the capture lacks operators")


def test_hangup_without_a_file(ws, spin):
    """SIGHUP ends it, as the end of a terminal does."""
    spin.wait_line("rate")
    with Tracer("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "wait=1h,active=1s") as t:
        t.wait_line("sampling into", "the start", t.err)
        t.signal(signal.SIGHUP)
        t.expect(1)


@pytest.mark.parametrize("text, message", [
    ("dir=/x\nspeed=9\n", ":2: 'speed' is no option of ptbpf sample"),
    ("--dir=/x\n", ":1: '--dir' is no option of ptbpf sample"),
    ("\n\nall-torch\n", ":3: 'all-torch' is no NAME=VALUE"),
    ("all-torch=1\n", ":1: '1' is not a valid value for all-torch (yes or no)"),
    ("max-disk=much", ":1: 'much' is not a valid value for max-disk (64k, 4MiB"),
    ("traces=xml\n", ":1: 'xml' is not a valid value for traces (none, json, json.gz)"),
    ("dir=/x\n\ndir=/y\n", ":3: 'dir' is already in line 1"),
    ("config=/x\n", ":1: 'config' is an option of the command line only"),
    ("all-torch=yes\ndir=/x\nschedule=wait=1s\n", ":3: --schedule wait=1s: active is required"),
    ("all-torch=yes\ndir=/x\nmax-overhead=2\n", ":3: sample: '2' is not a valid value for --max-overhead"),
    ("all-torch=yes\n", ": sample: --dir is required"),
    ("all-torch=yes\ndir=/x\nexact-memory=yes\n", ":3: 'exact-memory' is no option"),
    ("dir=/x\nall-torch=yes\nactivities=gpu\n", ": --activities gpu: valid values are"),
    ("dir=/x\0\n", "Invalid argument"),
])
def test_refused_text(text, message):
    with workspace() as ws:
        done = run_ptbpf("sample", "--config", write(ws + "/c", text), expect=2)
        check(f"{ws}/c{message}" in done.text() or message == "Invalid argument" and message in done.text(), done.text())


@pytest.mark.parametrize("mode, owner, kind, message", [
    (0o666, 0, "file", "other users may write to it"),
    (0o664, 0, "file", "other users may write to it"),
    (0o600, 1000, "file", "it belongs to another user"),
    (0o600, 0, "fifo", "it is not a regular file"),
    (0o600, 0, "none", "No such file"),
])
def test_refused_file(mode, owner, kind, message):
    with workspace() as ws:
        path = ws + "/c"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "file":
            write(path, "all-torch=yes\n", mode)
            os.chown(path, owner, 1000)
        done = run_ptbpf("sample", "--config", path, expect=2)
        check(f"the configuration file '{path}' cannot be used: {message}" in done.text(), done.text())


def test_file_of_sudos_caller():
    with workspace() as ws:
        path = write(ws + "/c", "all-torch=yes\n", 0o660)
        os.chown(path, 1000, 1000)
        done = run_ptbpf("sample", "--config", path, env={"SUDO_UID": "1000", "SUDO_GID": "1000"}, expect=2)
        check("--dir is required" in done.text(), done.text())
