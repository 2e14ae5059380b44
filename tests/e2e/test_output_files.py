# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Outputs in directories that others control: ptbpf does not follow their links, an old file is kept until the new one is
complete, and the result belongs to the user who ran ptbpf."""

import contextlib
import fcntl
import glob
import os
import signal
import stat
import struct
import subprocess
import termios
import time

from support import PTBPF, Tracer, check, report_json, require_root, run_ptbpf, shared, wait_for, workload, workspace

OTHER = 12345  # a user with fewer privileges


def put(path, text):
    with open(path, "w") as f:
        f.write(text)


def get(path):
    with open(path) as f:
        return f.read()


def printed(tracer, text):
    check(any(text in line for line in tracer.err), f"the message does not say {text!r}\n{tracer.text()}")


@contextlib.contextmanager
def home():
    """(workspace, a directory in it that belongs to another user, a file of root that this user wants to have overwritten)"""
    require_root()
    with workspace() as ws:
        os.chmod(ws, 0o755)
        theirs = ws + "/home"
        os.mkdir(theirs)
        os.chown(theirs, OTHER, OTHER)
        put(ws + "/precious", "precious\n")
        yield ws, theirs, ws + "/precious"


def plant(path, target):
    os.symlink(target, path)
    os.lchown(path, OTHER, OTHER)


def test_planted_links():
    """No link of another user is followed, by the capture, the trace, or an export; nothing is attached."""
    with home() as (ws, theirs, precious):
        p = shared(workload, "spin.py")
        p.wait_line("rate")
        os.mkdir(ws + "/etc")
        plant(theirs + "/a.ptb", precious)
        plant(theirs + "/b.ptb", ws + "/etc/made.ptb")
        plant(theirs + "/a.json", precious)
        plant(theirs + "/dir", ws + "/etc")
        for args in (["-o", theirs + "/a.ptb"], ["-o", theirs + "/b.ptb"], ["-o", theirs + "/dir/c.ptb"],
                     ["-o", ws + "/ok.ptb", "--trace", theirs + "/a.json"],
                     ["-o", ws + "/ok.ptb", "--et", theirs + "/a.json"],
                     ["-o", ws + "/ok.ptb", "--trace", theirs + "/dir/x.json"]):
            done = run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", *args, expect=1)
            printed(done, "another user")
            check(not any("attached" in line for line in done.err), f"attached all the same\n{done.text()}")
        run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "-o", theirs + "/plain.ptb", "--trace", theirs + "/plain.json.gz")
        done = run_ptbpf("export", theirs + "/plain.ptb", "--format", "chrome", "-o", theirs + "/a.json", expect=1)
        printed(done, "another user")
        check(get(precious) == "precious\n", "root's file was written to")
        check(os.listdir(ws + "/etc") == [], f"files were made where a link led: {os.listdir(ws + '/etc')}")
        check(not os.path.lexists(ws + "/ok.ptb"), "a capture was left")


def test_planted_pipe():
    """A pipe or device under an output's name is neither waited for nor written to."""
    with home() as (ws, theirs, _):
        p = shared(workload, "spin.py")
        p.wait_line("rate")
        os.mkfifo(theirs + "/a.ptb")
        os.mkfifo(theirs + "/a.json")
        for args in (["-o", theirs + "/a.ptb"], ["-o", ws + "/ok.ptb", "--trace", theirs + "/a.json"]):
            printed(run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", *args, expect=1), "not a regular file")
        for args in (["report", theirs + "/a.ptb"], ["export", theirs + "/a.ptb", "--format", "chrome", "-o", ws + "/x.json"],
                     ["report", "/dev/zero"]):
            printed(run_ptbpf(*args, expect=1), "not a regular file")


def test_reader_that_reads_nothing(ws, spin):
    """A pipe of the same user is written to; a signal ends the wait for its reader."""
    spin.wait_line("rate")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "500ms", "-o", ws + "/a.ptb", "--no-table")
    os.mkfifo(ws + "/pipe")
    export = ("export", ws + "/a.ptb", "--format", "chrome", "-o", ws + "/pipe")
    run_ptbpf(*export, expect=1)  # nobody has it open
    reader = os.open(ws + "/pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Tracer(*export) as t:
            wait_for(lambda: struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0] >= 65536, "the pipe to be full")
            t.signal(signal.SIGTERM)
            t.expect(1)
    finally:
        os.close(reader)


def test_old_capture_is_kept(ws, spin):
    """A window that never begins replaces no file."""
    spin.wait_line("rate")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "-o", ws + "/old.ptb", "--no-table")
    with open(ws + "/old.ptb", "rb") as f:
        old = f.read()
    for sig in (signal.SIGTERM, signal.SIGINT):
        with workload("late.py", ws + "/never") as idle:
            idle.wait_line("ready")
            with Tracer("attach", "--pid", idle.pid, "--wait", "-o", ws + "/old.ptb") as t:
                t.wait_line("waiting", stream=t.err)
                t.signal(sig)
                t.expect(1)
    with Tracer("attach", "--pid", spin.pid, "-o", ws + "/old.ptb", "--no-table") as t:
        t.wait_attached()
        t.signal(signal.SIGKILL)
        t.finish()
    with open(ws + "/old.ptb", "rb") as f:
        check(f.read() == old, "the old capture was changed")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "-o", ws + "/old.ptb", "--no-table")
    with open(ws + "/old.ptb", "rb") as f:
        check(f.read() != old, "a complete capture does not replace the old one")


def test_old_capture_survives_a_signal(ws):
    """Whenever Ctrl-C is pressed while ptbpf starts, there is a capture under the name: the old one or a new one."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "-o", ws + "/old.ptb", "--no-table")
        for moment in range(16):
            with Tracer("attach", "--pid", p.pid, "-o", ws + "/old.ptb", "--no-table") as t:
                time.sleep(moment * 0.025)
                t.signal(signal.SIGINT)
                t.finish()
            run_ptbpf("report", ws + "/old.ptb", "--row-limit", "1")
            check(os.listdir(ws) == ["old.ptb"], f"left behind: {os.listdir(ws)}")


def test_capture_is_not_replaced_by_an_export(ws):
    """Neither by an export of itself, under any name, nor by a trace that attach writes."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "-o", ws + "/a", "--trace", ws + "/./a", expect=1)
        printed(done, "is not replaced")
        with open(ws + "/a", "rb") as f:
            old = f.read()
        for form in ("chrome", "et", "memory"):
            run_ptbpf("export", ws + "/a", "--format", form, "-o", ws + "/a", expect=1)
        with open(ws + "/a", "rb") as f:
            check(f.read() == old, "the capture was changed")
        check(os.listdir(ws) == ["a"], f"left behind: {os.listdir(ws)}")


def test_replaced_when_it_is_named(ws):
    """Another file is put where the capture has just got its name: the trace is still that of the recording."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        put(ws + "/a.ptb.other", "somebody else's\n")
        env = dict(os.environ, LD_PRELOAD=os.path.join(os.path.dirname(PTBPF), "tests", "workloads", "libswap_capture.so"))
        with Tracer("attach", "--pid", p.pid, "-d", "200ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", env=env) as t:
            t.expect(0)
        check(get(ws + "/a.ptb") == "somebody else's\n", "the capture was not replaced")
        check(get(ws + "/a.json").count("aten::") > 10, "the trace has no operators")


def test_neighbours_are_kept(ws, spin):
    """Files with names that look temporary belong to somebody and are kept."""
    spin.wait_line("rate")
    names = ("i.json.tmp", "i.ptb.tmp", ".i.json.partial", ".i.ptb.0123456789abcdef.partial")
    for name in names:
        put(f"{ws}/{name}", "unrelated\n")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "-o", ws + "/i.ptb", "--trace", ws + "/i.json", "--no-table")
    check(all(get(f"{ws}/{name}") == "unrelated\n" for name in names), "an unrelated file was changed")
    check(sorted(os.listdir(ws)) == sorted((*names, "i.ptb", "i.json")), f"left behind: {sorted(os.listdir(ws))}")


def test_partial_of_a_killed(ws, spin):
    """kill -9 leaves the capture under its temporary name; report prints that name, and reads the file."""
    spin.wait_line("rate")
    with Tracer("attach", "--pid", spin.pid, "-o", ws + "/a.ptb", "--no-table") as t:
        t.wait_attached()
        wait_for(lambda: any(os.path.getsize(f) > 600000 for f in glob.glob(ws + "/.a.ptb.*.partial")), "blocks of operators in the file")
        t.signal(signal.SIGKILL)
        t.finish()
    partial, = glob.glob(ws + "/.a.ptb.*.partial")
    check("aten::neg" in str(report_json(partial)), "the partial capture is not readable")
    done = run_ptbpf("report", ws + "/a.ptb", expect=1)
    printed(done, os.path.basename(partial))


def test_private_and_the_callers():
    """Mode 0600 whatever the umask is; under sudo the file belongs to the caller, who can read it without root."""
    with home() as (ws, theirs, _):
        p = shared(workload, "spin.py")
        p.wait_line("rate")
        env = dict(os.environ, SUDO_UID=str(OTHER), SUDO_GID=str(OTHER))
        files = [f"{theirs}/a.{end}" for end in ("ptb", "json.gz", "et.json")]
        old = os.umask(0)
        try:
            run_ptbpf("attach", "--pid", p.pid, "-d", "300ms", "-o", files[0], "--trace", files[1], "--et", files[2], "--no-table",
                      env=env)
        finally:
            os.umask(old)
        for path in files:
            st = os.lstat(path)
            check(stat.S_IMODE(st.st_mode) == 0o600, f"{path} has mode {st.st_mode:o}")
            check((st.st_uid, st.st_gid) == (OTHER, OTHER), f"{path} belongs to {st.st_uid}:{st.st_gid}")
        if os.access(PTBPF, os.X_OK) and subprocess.run(["setpriv", "--reuid", str(OTHER), "--clear-groups", PTBPF, "--version"],
                                                        capture_output=True).returncode == 0:
            done = subprocess.run(["setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups", PTBPF, "report", files[0]],
                                  capture_output=True, text=True)
            check(done.returncode == 0 and "aten::neg" in done.stdout, f"report without root: {done.stderr}")
