# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes that keep `ptbpf sample` waiting or busy: it leaves them out, goes on to serve, and others have their windows."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

from fuse_server import FuseServer
from support import PYTHON, WORKLOADS, Process, Tracer, check, run_ptbpf
from test_sample import Job, wait_logged


def worst_scrape(t, until, seconds):
    """How long a scrape took at most until until(), for so many seconds at most."""
    url = t.wait_line("metrics: (.*)$", "the server", t.err)[1]
    end, worst = time.monotonic() + seconds, 0
    while time.monotonic() < end and not until():
        begin = time.monotonic()
        with urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
        worst = max(worst, time.monotonic() - begin)
        time.sleep(0.1)
    check(until(), f"not within {seconds} s\n" + "\n".join(t.err))
    return worst


def left_out(t):
    return [line for line in t.err if "is left out for" in line]


def test_thousands_of_mappings(ws, detail):
    """A process whose mappings take seconds to read is left out, scrapes are answered, and another process has windows. With a second one
    all of that program are left out, which a message says."""
    with Job("pt_maps_job") as job, contextlib.ExitStack() as stack:
        def map_many():
            p = stack.enter_context(Process([PYTHON, "-u", f"{WORKLOADS}/many_maps.py", ws, "60000"], stdin=subprocess.PIPE))
            p.wait_line("^mapped")
        run_ptbpf("attach", "--pid", job.pid, "--dry-run", expect=(0, 3))
        map_many()
        with Tracer("sample", "--comm", "pt_maps*", "--dir", ws + "/w", "--schedule", "wait=4s,active=1s", "--metrics", "0") as t:
            worst = worst_scrape(t, lambda: left_out(t), 60)
            wait_logged(ws + "/w", lambda w: job.pid in w["pids"] and w["exit"] in (0, 3) and "capture" in w, "a window of the other one")
            map_many()
            t.wait_line("is left out for .*other processes of the same program", "the message", t.err)
            t.signal(signal.SIGTERM)
            t.expect(0, 1, 3)
    check(worst < 5, f"a scrape took {worst:.1f} s")
    detail(f"scrapes took {worst:.2f} s at most; {left_out(t)}")


def test_slow_library(ws, detail):
    """A process whose libraries take longer to analyse than they may, and are new each time: one window is lost, the next ones are without it, in full, and then it is
    left out."""
    with Job("pt_slow_job") as job, Process([PYTHON, "-u", f"{WORKLOADS}/heavy_lib.py", ws]) as heavy:
        run_ptbpf("attach", "--pid", job.pid, "--dry-run", expect=(0, 3))
        heavy.wait_line("^mapped")
        with Tracer("sample", "--pid", f"{heavy.pid},{job.pid}", "--dir", ws + "/w", "--agent", "off", "--schedule", "wait=6s,active=1s", "--metrics", "0") as t:
            t.wait_line("window 1 is without pid %d" % heavy.pid, "the second window", t.err)
            w = wait_logged(ws + "/w", lambda w: w.get("left_out") == [heavy.pid] and "capture" in w, "a window meanwhile")
            before = left_out(t)
            worst = worst_scrape(t, lambda: left_out(t), 120)
            t.signal(signal.SIGTERM)
            t.expect(0, 1, 3)
    check(w["pids"] == [job.pid] and w["exit"] == 0 and not before, f"the window: {w}; {before}")
    check(re.search(f"pid {heavy.pid} is left out for 60 minutes: to read and attach to it took", left_out(t)[0]), left_out(t))
    check(worst < 5, f"a scrape took {worst:.1f} s")
    detail(f"window {w['window']} began {w['late_seconds']:.3f} s late; scrapes took {worst:.2f} s at most; {left_out(t)}")


def test_lock_of_an_address_space(ws, detail):
    """A process that holds the lock of its own address space, so that reading its environment waits: it is left out, and the rest is served."""
    os.mkdir(ws + "/fuse")
    with FuseServer(ws + "/fuse", "torch.so", b"x" * 8192, 0) as server:
        with Process([PYTHON, "-u", f"{WORKLOADS}/lock_holder.py", ws + "/fuse/torch.so"], stdin=subprocess.PIPE) as holder, contextlib.ExitStack() as stack:
            holder.wait_line("^mapped")
            server.silent.set()
            holder.send("go")
            holder.wait_line("^holds")
            time.sleep(1)
            stack.callback(server.abort)
            with Tracer("sample", "--comm", "pt_lock", "--dir", ws + "/w", "--schedule", "wait=3s,active=300ms", "--metrics", "0") as t:
                worst = worst_scrape(t, lambda: left_out(t), 60)
                begin = time.monotonic()
                t.signal(signal.SIGTERM)
                t.expect(0, 1, 3)
                took = time.monotonic() - begin
    check(worst < 8 and took < 15, f"a scrape took {worst:.1f} s, the end {took:.1f} s")
    check(re.search(f"pid {holder.pid} is left out for 60 minutes", left_out(t)[0]), left_out(t))
    detail(f"scrapes took {worst:.2f} s at most; {left_out(t)}")


NAMED = """
import ctypes, mmap, os, sys, time
with open(sys.argv[1], "rb") as f:
    at = ctypes.CDLL(None).mmap(None, 4096, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, f.fileno(), 0)
ctypes.CDLL(None).prctl(15, b"\\x01" * 15)
for _ in range(255):
    if not os.fork():
        break
else:
    print("mapped", flush=True)
sys.stdin.read()
"""


def test_names_of_control_characters(ws):
    """Names that are six times as long in JSON as they are: the status of as many processes as a window takes is an answer."""
    with open(ws + "/libtorch_cpu.so", "wb") as f:
        f.write(b"x" * 4096)
    env = {**os.environ, "TORCHELASTIC_RUN_ID": "\x02" * 64, "RANK": "100000", "WORLD_SIZE": "200000"}
    with Process([PYTHON, "-c", NAMED, ws + "/libtorch_cpu.so"], stdin=subprocess.PIPE, env=env) as p:
        p.wait_line("^mapped")
        with Tracer("sample", "--comm", "\x01*", "--dir", ws + "/w", "--control", ws + "/s", "--schedule", "none") as t:
            t.wait_line("sampling into", "the start", t.err)
            out = run_ptbpf("status", "--json", "--control", ws + "/s").out
            t.signal(signal.SIGTERM)
            t.expect(0, 1, 3)
    targets = json.loads("\n".join(out))["daemons"][0]["status"]["targets"]
    check(len(targets) == 256, f"{len(targets)} processes")
    check({(x["name"], x["job"]) for x in targets} == {("?" * 15, "torchrun:" + "?" * 64)}, targets[0])
