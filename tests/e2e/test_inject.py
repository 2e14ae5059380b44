# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Libraries loaded into running processes, hundreds of times, into programs that detect any change. Each injection loads a copy
of tests/workloads/inject_lib.c under a new name, so that the loader really loads it."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time

from support import AGENT, check, soak, wait_for, workspace
from inject_target import (LIMIT_MS, TARGET, TOOL, Target, copies, inject, load_all, need_tools, newest_python,
                           python_target, refused, same_as_undisturbed, torch_target)


def some(libs):
    """A part of `count`; all, about 1,000 in this file, under a soak."""
    return libs if soak() else libs // 12


def test_threads_of_every_kind(ws, detail):
    """Threads in the allocator, the loader, exceptions, signals, locks, forks, and every blocking call; no fault, no EINTR."""
    need_tools()
    with Target([TARGET]) as t:
        t.ready()
        text = load_all(t, "ptrace", copies(ws, some(300)), 2)
        out = t.finish()
        check(out[-1].startswith(f"loaded {some(300)} ") and out[-1].endswith(" faults 0"), "\n".join(out))
        detail(f"{text}; {out[-1]}")


def test_torch_crowd(ws, detail):
    need_tools()
    detail(same_as_undisturbed(lambda: torch_target(3, 6), "ptrace", copies(ws, some(160)), 2))


def test_torch_alone(ws, detail):
    """One computing thread, and torch's thread pool."""
    need_tools()
    detail(same_as_undisturbed(lambda: torch_target(1), "any", copies(ws, some(160)), None))


def test_real_agent(ws, detail):
    """The agent itself: loaded once, and twice; it does nothing without a request."""
    need_tools()
    check(os.path.exists(AGENT), "the agent is not built")
    other = os.path.join(ws, "copy.so")
    shutil.copy(AGENT, other)
    detail(same_as_undisturbed(lambda: torch_target(2), "any", [AGENT, AGENT, other], None))


def test_remote_execution(ws, detail):
    need_tools()
    with newest_python(ws) as start:
        detail(same_as_undisturbed(start, "any", copies(ws, some(200)), 1))


def test_newest_python_by_ptrace(ws, detail):
    need_tools()
    with newest_python(ws) as start:
        detail(same_as_undisturbed(start, "ptrace", copies(ws, some(160)), 2))


def test_remote_execution_refused(ws):
    """Remote execution that is disabled, forbidden by an audit hook, or never polled: reported, withdrawn, and then done by
    ptrace."""
    need_tools()
    ready = "import sys, time\nprint('ready', flush=True)\n"
    hook = ("def no(event, args):\n  if event == 'ctypes.dlopen': raise RuntimeError('not here')\n"
            "sys.addaudithook(no)\n")
    asleep_ = "try: time.sleep(600)\nexcept KeyboardInterrupt: print('interrupted', flush=True)"
    cases = [(ready + "sys.stdin.readline()", {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, "disabled"),
             (ready.replace("print", hook + "print") + "while not time.sleep(0.01): pass", None, "not here"),
             (ready + asleep_, None, "did not reach a point")]
    with newest_python(ws) as start:
        for i, (code, env, text) in enumerate(cases):
            with start(("-c", code), env) as t:
                t.ready()
                lib, other = copies(ws, 2, f"case{i}-")
                refused(t.pid, lib, text, "remote")
                load_all(t, "any", [other], 2, 4000)
                check(os.path.basename(lib) not in t.maps(), "it was loaded nevertheless")
                check(t.proc.poll() is None, "the target has ended")
                if i == 2:
                    t.proc.send_signal(signal.SIGINT)
                    check(t.finish() == ["interrupted"], "the interrupt did not arrive")
                    check(not t.err.strip(), t.err)


def test_killed_in_the_middle(ws, detail):
    """The tool is killed by SIGKILL at random moments; the target is not affected, and the next injection works."""
    need_tools()
    rng = random.Random(7)
    with Target([TARGET]) as t:
        t.ready()
        libs = copies(ws, 60)
        killed = 0
        for lib in libs:
            tool = subprocess.Popen([TOOL, str(t.pid), "ptrace", str(LIMIT_MS), lib], stdout=subprocess.DEVNULL)
            time.sleep(rng.random() * 0.04)
            killed += tool.poll() is None
            tool.kill()
            tool.wait()
        load_all(t, "ptrace", copies(ws, 5, "after"), 2)
        out = t.finish((0, 1))
        # the only thing that a kill can leave behind, in a rare moment: inject/inject_priv.h
        check(out[-1].endswith(" faults 0") or out[:-1] == ["fault eintr 1"], "\n".join(out))
        check(killed >= 10, f"only {killed} were still at work")
        detail(f"{killed} killed at work; {out[-1]}")


# ---- refusals ----

def test_refusals(detail):
    need_tools()
    with workspace() as ws:
        lib = copies(ws, 1)[0]
        wait = "sys.stdin.readline()"
        with python_target(wait) as t:
            t.ready()
            os.kill(t.pid, signal.SIGSTOP)
            wait_for(lambda: open(f"/proc/{t.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T", "it to stop")
            refused(t.pid, lib, "stopped")
            check(open(f"/proc/{t.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T", "it is not stopped any more")
            os.kill(t.pid, signal.SIGCONT)
            refused(t.pid, ws + "/no.so", "No such file")
            refused(t.pid, "no.so", "absolute")
            with open(ws + "/text.so", "w") as f:
                f.write("no library")
            refused(t.pid, ws + "/text.so", "could not load", "ptrace")
            refused(t.pid, lib, "Python", "remote")  # too old for remote execution, which this test does not need
            load_all(t, "ptrace", [lib], 2, 2000)
            check(inject(t.pid, "ptrace", [lib]) == [(True, "0 0 0")], "a second time is nothing to do")
            t.finish()
        with python_target("import select; ep = select.epoll()\nwhile 1: ep.poll(60)") as t:
            t.ready()
            time.sleep(0.2)
            refused(t.pid, lib, "must not be interrupted", "ptrace")
        refused(2 ** 22 + 1, lib, "no such process")
    detail("stopped, no file, no library, no process, a call that must not be interrupted")


def test_asleep(ws):
    """Threads that sleep for ever are not woken up."""
    need_tools()
    asleep = {}
    with contextlib.ExitStack() as stack:
        for code in ("import time; time.sleep(12)", "import threading; threading.Event().wait(12)", "import select; select.select([0], [], [])"):
            begin = time.monotonic()
            t = stack.enter_context(python_target(f"{code}; print('slept', flush=True)"))
            t.ready()
            load_all(t, "ptrace", copies(ws, 8, f"a{len(code)}-"), 2, 1500)
            check(t.proc.poll() is None, f"{code}: it woke up")
            asleep[code] = t, begin
        for code, (t, begin) in asleep.items():
            out = t.finish()
            check(out == ["slept"], f"{code}: {out}")
            check("select" in code or time.monotonic() - begin > 12, f"{code}: it slept too short")
