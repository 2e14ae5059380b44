# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Windows by a schedule: their files, what is attached between them, the quota, jobs that come and go, and every end."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

import memory_cgroup
from support import (PYTHON, ROOT, WORKLOADS, Process, Tracer, check, children_of, load_trace, modified_code, report_json,
                     run_ptbpf, slices, wait_for, workspace)


def read(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as f:
        return f.read()
    return None


with open(os.path.join(ROOT, "schemas", "formats", "window_log.schema.json"), encoding="utf-8") as schema:
    LINE = json.load(schema)


def log_of(folder):
    windows = [json.loads(line) for line in (read(folder + "/windows.jsonl") or "").splitlines()]
    for w in windows:
        check(set(LINE["required"]) <= set(w) <= set(LINE["properties"]), f"keys of a line: {w}")
    return sorted(windows, key=lambda w: w["begin_unix_ns"])


def wait_logged(folder, condition, what):
    return wait_for(lambda: next((w for w in log_of(folder) if condition(w)), None), what)


def links_of(pid):
    """Open BPF links and perf events of a process: probes that are attached as long as it has them."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                name = os.readlink(f"/proc/{pid}/fd/{fd}")
                if "bpf_link" in name or "perf_event" in name or "bpf-link" in name:
                    found.append(name)
    return found


class Job(Process):
    """spin.py under a name of its own, as in /proc/PID/comm."""

    def __init__(self, comm):
        super().__init__([PYTHON, "-u", os.path.join(WORKLOADS, "spin.py"), comm])
        self.wait_line("^rate")


@pytest.fixture
def planned(spin):
    """Its libraries are analysed: the first window is not late for that."""
    spin.wait_line("rate")
    run_ptbpf("attach", "--pid", spin.pid, "--dry-run", expect=(0, 3))
    return spin


def test_windows(ws, planned):
    spin = planned
    run_ptbpf("sample", "--pid", spin.pid, "--dir", ws + "/w", "--traces", "json.gz", "--schedule",
              "wait=9500ms,warmup=100ms,active=300ms,repeat=2,skip_first_wait=1",
              "--on-window", f"echo $PTBPF_WINDOW $PTBPF_EXIT $PTBPF_CAPTURE $PTBPF_TRACE >>{ws}/hook")
    log = log_of(ws + "/w")
    check([w["window"] for w in log] == [0, 1], f"windows: {log}")
    host = re.sub("[^A-Za-z0-9-]", "_", socket.gethostname())
    for w in log:
        stem = f"{ws}/w/{host}_{spin.pid}.{w['begin_unix_ns']}"
        check(w["capture"] == stem + ".ptb" and w["trace"] == stem + ".pt.trace.json.gz", f"names: {w}")
        whole = w["seconds"] >= 0.3 or w["stopped_by"] == "the next window was due"
        check(w["pids"] == [spin.pid] and w["exit"] == 0 and w["lost"] == 0 and whole, f"window: {w}")
        check(len(slices(load_trace(w["trace"]), "aten::neg")) > 50, "the trace lacks operators")
        check("aten::neg" in str(report_json(w["capture"])), "the capture lacks operators")
    gap = log[1]["begin_unix_ns"] - log[0]["begin_unix_ns"]
    check(gap >= 9.8e9, f"windows are {gap} ns apart, not 9.9 s")
    lines = wait_for(lambda: (read(ws + "/hook") or "").count("\n") == 2 and read(ws + "/hook").splitlines(), "the commands")
    check(sorted(lines) == [f"{w['window']} 0 {w['capture']} {w['trace']}" for w in log], f"commands: {lines}")


def test_nothing_attached_between(ws, spin, detail):
    """Probes are there in the window, and gone after it, while sample goes on."""
    spin.wait_line("rate")
    with Tracer("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "wait=1h,active=1500ms,skip_first_wait=1") as t:
        t.wait_line("recording 1 process", "the window", t.err)
        check(any(links_of(p) for p in children_of(t.pid)), "no probes in the window")
        w = wait_logged(ws + "/w", lambda w: True, "the end of the window")
        check(w["exit"] == 0, f"window: {w}")
        check(not children_of(t.pid) and not links_of(t.pid), "something is attached after the window")
        left = modified_code(spin.pid)
        check(not left, f"modified code after the window: {left}")
        with open(f"/proc/{t.pid}/status", encoding="utf-8") as f:
            detail(next(line.strip() for line in f if line.startswith("VmRSS")) + " between windows")
        t.signal(signal.SIGTERM)
        t.expect(0)


def test_quota(ws, spin):
    spin.wait_line("rate")
    run_ptbpf("sample", "--pid", spin.pid, "--dir", ws + "/w", "--max-disk", "1", "--schedule", "wait=9s,active=200ms,repeat=2,skip_first_wait=1")
    log = log_of(ws + "/w")
    check(len(log) == 2, f"the log: {log}")
    left = sorted(f for f in os.listdir(ws + "/w") if f.endswith(".ptb"))
    check([os.path.join(ws, "w", f) for f in left] == [log[-1]["capture"]], f"not the newest window alone: {left}")


def test_costly_warm_up(ws, spin):
    """A warm-up that costs all that is allowed: there is no window, and that is said."""
    spin.wait_line("rate")
    done = run_ptbpf("sample", "--pid", spin.pid, "--dir", ws + "/w", "--max-overhead", "0.05%", "--schedule",
                     "wait=1s,warmup=60s,active=1s,repeat=1,skip_first_wait=1", expect=(1,))
    check("its warm-up cost all" in "\n".join(done.err), f"the message: {done.text()}")
    w, = log_of(ws + "/w")
    check(w["exit"] == 1 and "capture" not in w, f"window: {w}")
    check(not modified_code(spin.pid), "probes are left")


def test_no_overlap(ws, spin):
    """Windows without a pause between them: each ends when the next one is due."""
    spin.wait_line("rate")
    with Tracer("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "active=3s") as t:
        first = wait_logged(ws + "/w", lambda w: w.get("stopped_by") == "the next window was due", "a window that was cut")
        t.signal(signal.SIGTERM)
        t.expect(0, 3)
    begin = first["begin_unix_ns"] + 1e9 * first["late_seconds"]
    # until the loop sees that the next one is due
    check(0 < first["late_seconds"] and begin + 1e9 * first["seconds"] < first["begin_unix_ns"] + 4e9, f"longer than its time: {first}")


def test_sigterm_in_a_window(ws, spin):
    """The window in hand is completed; a second signal ends it."""
    spin.wait_line("rate")
    for second in (False, True):
        folder = f"{ws}/{second}"
        active = "60s" if second else "2s"
        with Tracer("sample", "--pid", spin.pid, "--dir", folder, "--schedule",
                    f"wait=1h,active={active},skip_first_wait=1") as t:
            t.wait_line("recording 1 process", "the window", t.err)
            t.signal(signal.SIGTERM)
            t.wait_line("second signal", "the message", t.err)
            if second:
                spin.wait_news("rate", 5)  # signals within 0.2 s are one
                t.signal(signal.SIGTERM)
            t.expect(0)
        w, = log_of(folder)
        check((w["seconds"] < 60) == second or not second and w["seconds"] >= 2, f"window: {w}")
        check("aten::neg" in str(report_json(w["capture"])), "the capture lacks operators")


def test_killed(ws, spin):
    """kill -9 of sample in a window: the window ends, its capture is complete, nothing stays attached."""
    spin.wait_line("rate")
    with Tracer("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "active=60s") as t:
        t.wait_line("recording 1 process", "the window", t.err)
        child, = children_of(t.pid)
        spin.wait_news("rate", 3)
        t.signal(signal.SIGKILL)
        t.finish()
    wait_for(lambda: not os.path.exists(f"/proc/{child}"), "the window to end")
    capture, = (f for f in os.listdir(ws + "/w") if f.endswith(".ptb") and not f.startswith("."))
    check("aten::neg" in str(report_json(f"{ws}/w/{capture}")), "the capture lacks operators")
    check(not modified_code(spin.pid), "probes are left")


def sampled(ws, start, jobs, *selection):
    """Jobs, one after the other, are in windows of one sample."""
    folder = ws + "/w"
    with Tracer("sample", *selection, "--dir", folder, "--schedule", "wait=5s,active=1s,skip_first_wait=1") as t:
        for _ in range(jobs):
            with start() as job:
                w = wait_logged(folder, lambda w, pid=job.pid: pid in w["pids"] and w["exit"] == 0, "a window of the job")
                check(w["pids"] == [job.pid], f"other processes are in the window: {w}")
        t.signal(signal.SIGTERM)
        t.expect(0, 3)  # 3: on a busy machine windows are skipped


def test_comm(ws, spin):
    spin.wait_line("rate")  # another process with PyTorch, which is not selected
    name = f"pt_{os.getpid()}"
    sampled(ws, lambda: Job(name + "_job"), 2, "--comm", name + "_j?b")


def test_cgroup(ws, spin):
    spin.wait_line("rate")
    path, _ = memory_cgroup.make()
    inner = path + "/inner"

    def start():
        job = Job("pt_job")
        with open(inner + "/cgroup.procs", "w", encoding="utf-8") as f:
            f.write(str(job.pid))
        return job

    os.mkdir(inner)
    try:
        sampled(ws, start, 1, "--cgroup", "/" + os.path.basename(path))
    finally:
        wait_for(lambda: read(inner + "/cgroup.procs") == "", "the group to be empty")
        os.rmdir(inner)
        os.rmdir(path)


def chosen_window(folder):
    """The window whose processes are chosen, and which has not begun; or None."""
    status = json.loads("\n".join(run_ptbpf("status", "--json", "--dir", folder).out))["daemons"][0]["status"]
    return next((w for w in status["windows"]["in_hand"] if w["state"] in ("waiting", "attaching")), None)


def is_whole(w):
    """Nothing is missing: it was recorded, or there was nothing to record."""
    return not w["skipped_before"] and (w["exit"] == 0 or "had ended" in w.get("incomplete", ""))


def kill_chosen(folder, name):
    """Kills a process between its choice and the probes, for which there are 2 s; on a busy machine that takes several attempts.
    The window's line and the process's pid."""
    for _ in range(12):
        with Job(name) as job:
            nr = wait_for(lambda: chosen_window(folder), "the choice")["window"]
            job.proc.kill()
            job.reap()
            w = wait_logged(folder, lambda w, n=nr: w["window"] == n, "the window")
        if w.get("ended") and job.pid in w["pids"] and is_whole(w):
            return w, job.pid
    raise AssertionError(f"no process ended in time: {log_of(folder)}")


def test_ended_before_it_was_attached_to(ws):
    """A process that ends between the choice and the probes is in the log, and nothing is missing: neither of a window of others nor, where
    there is none, of the whole."""
    name = f"pt_{os.getpid()}"
    with Job(name) as other:
        run_ptbpf("attach", "--pid", other.pid, "--dry-run", expect=(0, 3))  # as planned()
        with Tracer("sample", "--comm", name, "--dir", ws + "/w", "--schedule", "wait=4s,active=300ms") as t:
            t.wait_line("^.*sampling into", "the schedule", t.err)
            w, pid = kill_chosen(ws + "/w", name)
            check(w["exit"] == 0 and sorted(w["pids"]) == sorted([pid, other.pid]), f"a window of two: {w}")
            check("--pid" not in json.dumps(report_json(w["capture"])), "a sentence about --pid")
            other.proc.kill()
            other.reap()
            w, pid = kill_chosen(ws + "/w", name)
            check(w["pids"] == [pid] and "had ended" in w["incomplete"], f"a window of one: {w}")
            t.signal(signal.SIGTERM)
            t.expect(*((0,) if all(map(is_whole, log_of(ws + "/w"))) else (0, 3)))
        check(not any("--pid" in line for line in t.err), f"a sentence about --pid: {t.err}")


def test_without_torch(ws):
    """A process that has not loaded PyTorch is named as such, in the message and in the log."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as p:
        with Tracer("sample", "--pid", p.pid, "--dir", ws + "/w", "--schedule", "wait=1h,active=100ms,skip_first_wait=1") as t:
            t.wait_line(f"pid {p.pid}: not recorded: it has not loaded PyTorch", "the reason", t.err)
            w = wait_logged(ws + "/w", lambda w: w["exit"] == 1, "a window")
            check("PyTorch is not loaded in 1 of its 1 processes" in w["incomplete"], f"window: {w}")
            p.kill()
            t.expect(1)


def test_target_ends(ws):
    """--pid: sample ends with its targets."""
    with Job("pt_ends") as job:
        t = Tracer("sample", "--pid", job.pid, "--dir", ws + "/w", "--schedule", "wait=1h,active=200ms,skip_first_wait=1")
        with t:
            wait_logged(ws + "/w", lambda w: w["exit"] == 0, "a window")
            job.proc.kill()
            t.expect(0)


@pytest.mark.parametrize("args, code, text", [
    (["--pid", "1"], 2, "--dir is required"),
    (["--dir", "/w"], 2, "--pid, or --all-torch"),
    (["--pid", "1", "--all-torch", "--dir", "/w"], 2, "--pid, or --all-torch"),
    (["--pid", "1", "--dir", "/w", "--schedule", "active=5.5"], 2, "active=5.5"),
    (["--pid", "1", "--dir", "/w", "--max-overhead", "0.5"], 2, "0.5"),
    (["--pid", "999999999", "--dir", "/w"], 1, "no such process"),
    (["--all-torch", "--dir", "/no/such/dir"], 1, "No such file"),
    (["--all-torch", "--dir", "/tmp"], 1, "every user may write"),
])
def test_usage(args, code, text):
    with workspace() as ws:
        done = run_ptbpf("sample", *(ws + a if a == "/w" else a for a in args), expect=(code,))
    check(text in "\n".join(done.err), f"the message lacks {text!r}\n{done.text()}")
