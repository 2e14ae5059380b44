# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf sample over a job that is started again and again, raises, forks, and changes its speed tenfold: every window is valid and has
the steps that the job itself counted, and ptbpf's descriptors and memory do not grow."""

import os
import signal
import statistics
import subprocess
import sys
import time

from support import ROOT, Tracer, check, children_of, load_trace, slices, soak, wait_for, workload
from test_sample import links_of, log_of

SECONDS = 1800 if soak() else 40
SCHEDULE = "wait=2500ms,active=500ms"
QUOTA = 32 << 20
AT_EDGE_NS = 100000  # clocks of the job and of the trace may differ by so much
GROWTH_KB = 1024


class State:
    """Open descriptors and resident KiB of ptbpf, without what each process of a window takes: a pidfd and two sockets."""

    def __init__(self, pid):
        self.pid, self.fds, self.rss = pid, [], []

    def take(self):
        check(not links_of(self.pid), "ptbpf itself has probes")
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as f:
            self.rss.append(next(int(line.split()[1]) for line in f if line.startswith("VmRSS")))
        before = children_of(self.pid)
        fds = len(os.listdir(f"/proc/{self.pid}/fd"))
        if children_of(self.pid) == before:
            self.fds.append(fds - 3 * len(before))

    def check(self):
        def grown(values):  # medians of both halves: a process may begin or end just now
            half = max(1, len(values) // 2)
            return statistics.median(values[-half:]) - statistics.median(values[:half])

        check(grown(self.fds) <= 0, f"descriptors: {self.fds}")
        check(grown(self.rss) <= GROWTH_KB, f"resident KiB: {self.rss}")
        return f"descriptors {self.fds[0]}, later {self.fds[-1]}; resident KiB {self.rss[0]}, later {self.rss[-1]}"


def marks_of(folder, pid):
    """What the job says of its steps: (Unix time before, after) each call of optimizer.step()."""
    try:
        with open(f"{folder}/{pid}", encoding="utf-8") as f:
            return [tuple(map(int, line.split())) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def compare_steps(document, folder, pid):
    """A step of the trace begins and ends with annotations within optimizer.step(). Returns the number of steps, None: the job
    had not begun to train when the window began."""
    window, marks = document["ptbpf"]["window"], marks_of(folder, pid)
    begin, end = window["begin_unix_ns"], window["begin_unix_ns"] + window["duration_ns"]
    if not marks or marks[0][0] > begin:
        return None
    base = document["baseTimeNanoseconds"]
    steps = [(base + round(s["ts"] * 1000), base + round((s["ts"] + s["dur"]) * 1000))
             for s in slices(document, pid=pid) if s["name"].startswith("ProfilerStep")]
    whole = sum(a >= begin + AT_EDGE_NS and b <= end - AT_EDGE_NS for a, b in marks)
    touched = sum(b >= begin - AT_EDGE_NS and a <= end + AT_EDGE_NS for a, b in marks)
    check(max(0, whole - 1) <= len(steps) <= max(0, touched - 1), f"{len(steps)} steps of {pid}, which did {whole} to {touched} in the window")
    for moment in {t for step in steps for t in step}:
        check(any(a - AT_EDGE_NS <= moment <= b + AT_EDGE_NS for a, b in marks), f"a step of {pid} begins or ends at {moment}, in no call")
    return len(steps)


def check_window(w, folder):
    """[steps of each job in the window]; [] when the quota has taken it already."""
    check(w["exit"] in (0, 3) or "capture" not in w, f"window: {w}")
    if "trace" not in w or not os.path.exists(w["trace"]):
        return []
    done = subprocess.run(["nice", sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), w["trace"]], capture_output=True, text=True)
    if done.returncode and not os.path.exists(w["trace"]):
        return []
    check(done.returncode == 0, f"{w['trace']}: {done.stderr}")
    document = load_trace(w["trace"])
    return [n for n in (compare_steps(document, folder, pid) for pid in w["pids"]) if n is not None] if not w["lost"] else []


def test_soak(ws, detail):
    name, folder, seen, steps = f"pt_{os.getpid()}_soak", ws + "/w", set(), []
    with workload("soak_work.py", name, ws) as jobs:
        jobs.wait_line("^job")
        with Tracer("sample", "--comm", name, "--children", "--dir", folder, "--traces", "json.gz", "--schedule", SCHEDULE,
                    "--max-disk", QUOTA) as t:
            t.wait_line("sampling into", "the start", t.err)
            state, end = State(t.pid), time.monotonic() + SECONDS

            def enough():
                """On a busy machine many windows begin too late, or hold few steps."""
                return time.monotonic() > end and len(steps) >= 3 and sum(steps) > 10

            while not enough():
                wait_for(lambda: {w["window"] for w in log_of(folder)} - seen or enough(), "a window with steps to compare")
                state.take()
                for w in log_of(folder):
                    if w["window"] not in seen:
                        seen.add(w["window"])
                        steps += check_window(w, ws)
                check(t.alive() and jobs.alive(), t.text())
            t.signal(signal.SIGTERM)
            t.expect(0, 3)
    sizes = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if "windows.jsonl" not in f)
    check(sizes <= QUOTA, f"{sizes} bytes of windows, more than the quota")
    detail(f"{len(seen)} windows of {len(jobs.out)} jobs, {len(steps)} compared, {sum(steps)} steps (at most {max(steps)}, at least "
           f"{min(steps)} in a window); {state.check()}")
