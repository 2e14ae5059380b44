# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf sample when something fails: it is killed and goes on, disks are full, jobs end in every phase of a window. What was complete
stays, nothing is corrupt, and no probe is left."""

import contextlib
import os
import random
import signal
import subprocess
import sys

from support import ROOT, Tracer, check, children_of, modified_code, report_json, run_ptbpf, soak, wait_for
from test_output import small_disk
from test_sample import Job, links_of, log_of, wait_logged

KILLS = 200 if soak() else 4
ROUNDS = 50 if soak() else 1


def check_windows(folder):
    """All files are whole, and lines of the log have different numbers. Returns the captures' paths."""
    captures = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        check(not name.startswith("."), f"an incomplete file is left: {name}")
        if name.endswith(".ptb"):
            report_json(path)
            captures.append(path)
        elif ".pt.trace.json" in name:
            done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), path], capture_output=True, text=True)
            check(done.returncode == 0, f"{name}: {done.stderr}")
    numbers = [w["window"] for w in log_of(folder)]
    check(len(set(numbers)) == len(numbers), f"numbers of windows: {numbers}")
    return captures


def gone(pids):
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_goes_on(ws, spin):
    """After kill -9 of ptbpf and of its window's process: numbers and log go on, and what the window left is removed."""
    spin.wait_line("rate")
    args = ("sample", "--pid", spin.pid, "--dir", ws + "/w")
    for _ in range(2):
        run_ptbpf(*args, "--schedule", "active=100ms,repeat=1")
    first = open(ws + "/w/windows.jsonl", encoding="utf-8").read()
    with Tracer(*args, "--schedule", "active=60s") as t:
        t.wait_line("recording 1 process", "the window", t.err)
        windows = children_of(t.pid)
        for pid in (t.pid, *windows):
            os.kill(pid, signal.SIGKILL)
        t.finish()
    wait_for(lambda: gone(windows), "the window's process to end")
    check(any(name.endswith(".partial") for name in os.listdir(ws + "/w")), "the window left nothing")
    with open(ws + "/w/windows.jsonl", "a", encoding="utf-8") as f:
        f.write('{"window": 70, "begin_un')
    done = run_ptbpf(*args, "--schedule", "active=100ms,repeat=1")
    check("removed 1 incomplete file" in done.text(), done.text())
    check([w["window"] for w in log_of(ws + "/w")] == [0, 1, 2], f"the log: {log_of(ws + '/w')}")
    check(open(ws + "/w/windows.jsonl", encoding="utf-8").read().startswith(first), "earlier lines have changed")
    check(len(check_windows(ws + "/w")) == 3, "captures")
    check(not modified_code(spin.pid), "probes are left")


def test_schedule_goes_on(ws, spin):
    """After kill -9 the same schedule has the windows that are left; when it is complete, it begins anew."""
    spin.wait_line("rate")
    args = ("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "wait=3s,active=100ms,repeat=3,skip_first_wait=1")
    with Tracer(*args) as t:
        wait_for(lambda: log_of(ws + "/w"), "a window")
        windows = children_of(t.pid)
        for pid in (t.pid, *windows):
            os.kill(pid, signal.SIGKILL)
        t.finish()
    wait_for(lambda: gone(windows), "the window's process to end")
    done = len(log_of(ws + "/w"))
    t = run_ptbpf(*args, expect=(0, 3))  # on a busy machine a window may begin too late, which its line says
    check(f"{done} of the 3 windows of this schedule are in" in t.text(), t.text())
    check([w["cycle"] for w in log_of(ws + "/w")] == [0, 1, 2], f"the log: {log_of(ws + '/w')}")
    with Tracer(*args) as t:
        wait_for(lambda: len(log_of(ws + "/w")) > 3, "a window")
        check("are in" not in t.text(), t.text())
    check([w["cycle"] for w in log_of(ws + "/w")][:4] == [0, 1, 2, 0], f"the log: {log_of(ws + '/w')}")


def test_one_writer(ws, spin):
    """A second ptbpf sample does not write to the directory of the first."""
    spin.wait_line("rate")
    args = ("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "wait=1h,active=1s")
    with Tracer(*args) as t:
        t.wait_line("sampling into", "the start", t.err)
        done = run_ptbpf(*args, expect=1)
        check("another ptbpf sample writes windows there" in done.text(), done.text())


def test_killed_at_random(ws, spin, detail):
    """kill -9 at random moments, of ptbpf alone or with the process of its window, as systemd does."""
    spin.wait_line("rate")
    folder, kept = ws + "/w", {}
    for k in range(KILLS):
        with Tracer("sample", "--pid", spin.pid, "--dir", folder, "--traces", "json.gz", "--schedule", "wait=2s,active=300ms,skip_first_wait=1") as t:
            with contextlib.suppress(subprocess.TimeoutExpired):
                t.proc.wait(random.uniform(0, 4))
            windows = children_of(t.pid)
            for pid in (t.pid, *(windows if k % 2 else ())):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            t.finish()
        wait_for(lambda pids=windows: gone(pids), "the window's process to end")
        wait_for(lambda: not modified_code(spin.pid), f"the probes to go after kill {k}")
        for name, size in kept.items():
            check(os.path.getsize(f"{folder}/{name}") == size, f"{name} has changed")
        kept = {n: os.path.getsize(f"{folder}/{n}") for n in os.listdir(folder) if not n.startswith((".", "windows"))} if os.path.exists(folder) else {}
    run_ptbpf("sample", "--pid", spin.pid, "--dir", folder, "--schedule", "active=100ms,repeat=1")
    detail(f"{KILLS} kills, {len(check_windows(folder))} captures, {len(log_of(folder))} lines")


def test_disk_full(ws, spin):
    """Windows that do not fit are reported, what is there of them can be read; when there is room again, they are whole."""
    spin.wait_line("rate")
    with small_disk(ws + "/small", "8m") as small:
        with open(small + "/other", "wb") as other:
            with contextlib.suppress(OSError):
                while other.write(b"x" * 4096):
                    other.flush()
            os.truncate(small + "/other", os.path.getsize(small + "/other") - (256 << 10))
        with Tracer("sample", "--pid", spin.pid, "--dir", small + "/w", "--schedule", "wait=4s,active=400ms,skip_first_wait=1", "--traces", "json.gz") as t:
            w = wait_logged(small + "/w", lambda w: w["exit"] != 0, "a window that does not fit")
            check("incomplete" in w or "capture" not in w, f"window: {w}")
            os.unlink(small + "/other")
            wait_logged(small + "/w", lambda v: v["exit"] == 0 and v["window"] > w["window"], "a whole window")
            t.signal(signal.SIGTERM)
            t.expect(3)
        check("No space left" in "\n".join(t.err), "the reason is not given")
        check_windows(small + "/w")
    check(not modified_code(spin.pid), "probes are left")


def phases(t):
    """What is there when a window is planned, attached to, recorded and exported: {phase: condition}."""
    def exporting(pid):
        with contextlib.suppress(ProcessLookupError):
            return os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        return False

    def recorded():
        return sum("recording" in line for line in t.err)
    before = recorded()
    return {"plan": lambda: children_of(t.pid), "attach": lambda: any(map(links_of, children_of(t.pid))),
            "window": lambda: recorded() > before, "export": lambda: any(map(exporting, children_of(t.pid)))}


def test_target_restarts(ws, detail):
    """The job is killed in every phase of a window, and started again; the last one is recorded."""
    name, folder = f"pt_{os.getpid()}_again", ws + "/w"
    args = ("sample", "--comm", name, "--dir", folder, "--traces", "json.gz", "--schedule", "active=400ms,repeat=1")
    for phase in ("plan", "attach", "window", "export") * ROUNDS:
        with Job(name) as job, Tracer(*args) as t:
            wait_for(phases(t)[phase], f"the {phase} of a window")
            job.proc.kill()
            t.expect(0, 1, 3)
    with Job(name) as job:
        run_ptbpf(*args)
    log = log_of(folder)
    check(log[-1]["pids"] == [job.pid] and log[-1]["slices"] > 50, f"the last job: {log}")
    check(all("capture" in w for w in log if "slices" in w), f"windows without captures: {log}")
    detail(f"{len(check_windows(folder))} captures, exits {[w['exit'] for w in log]}")
