# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Libraries loaded into running processes: hundreds of times, into programs that notice everything.

Each injection loads a copy of tests/workloads/inject_lib.c under a new name, so that the loader has work each time.
"""

import contextlib
import glob
import os
import random
import shutil
import signal
import subprocess
import time

from common import (PTBPF, PYTHON, WORKLOADS, Failure, Skip, check, main, require_root, wait_for, workspace)

BUILD = os.path.dirname(PTBPF)
TOOL = os.path.join(BUILD, "tests", "inject_tool")
TARGET = os.path.join(BUILD, "tests", "workloads", "target_inject")
LIBRARY = os.path.join(BUILD, "tests", "workloads", "libinject_lib.so")
AGENT = os.path.join(BUILD, "libptbpf_agent.so")
ENVS = os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs")
LIMIT_MS = 20000
SLOW = 300


class Target:
    """A process that reads from stdin when it is to end, and then says what it found."""

    def __init__(self, argv, env=None):
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(env or {})))
        self.pid = self.proc.pid

    def ready(self):
        words = self.proc.stdout.readline().split()
        check(words and words[0] == "ready", f"the target did not start: {words}")
        if len(words) > 1 and not os.path.exists(f"/proc/{self.pid}/task/{words[1]}"):
            raise Failure("the target is another process than was started")
        return self

    def finish(self, codes=(0,)):
        try:
            out, err = self.proc.communicate("\n", timeout=SLOW)
        except subprocess.TimeoutExpired:
            raise Failure("the target hangs") from None
        check(self.proc.returncode in codes, f"the target ended with {self.proc.returncode}\n{out}\n{err}")
        self.err = err
        return out.splitlines()

    def maps(self):
        with open(f"/proc/{self.pid}/maps") as f:
            return f.read()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        for s in (self.proc.stdin, self.proc.stdout, self.proc.stderr):
            with contextlib.suppress(OSError):
                s.close()


def copies(ws, cnt, stem="lib"):
    paths = [os.path.join(ws, f"{stem}{i}.so") for i in range(cnt)]
    for p in paths:
        shutil.copy(LIBRARY, p)
    return paths


def inject(pid, way, libs, limit_ms=LIMIT_MS):
    """Lines of the tool as (loaded, words or sentence)."""
    done = subprocess.run([TOOL, str(pid), way, str(limit_ms), *libs], capture_output=True, text=True, timeout=SLOW)
    lines = done.stdout.splitlines()
    check(len(lines) == len(libs), f"inject_tool ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return [(line.startswith("loaded"), line.split(None, 1)[1]) for line in lines]


def load_all(target, way, libs, expect_way=None, limit_ms=LIMIT_MS):
    got = inject(target.pid, way, libs, limit_ms)
    bad = [text for ok, text in got if not ok]
    check(not bad, f"{len(bad)} of {len(libs)} were refused: {bad[:2]}")
    numbers = [[int(x) for x in text.split()] for _, text in got]
    check(expect_way is None or all(n[0] == expect_way for n in numbers), f"another way: {numbers[:3]}")
    maps = target.maps()
    check(all(os.path.basename(p) in maps for p in libs), "a library is not mapped")
    tries, us = sorted(n[1] for n in numbers), sorted(n[2] for n in numbers)
    return f"{len(libs)} loaded, tries up to {tries[-1]}, median {us[len(us) // 2]} us, longest {us[-1]} us"


def need_tools():
    require_root()
    for path in (TOOL, TARGET, LIBRARY):
        check(os.path.exists(path), f"{path} is not built")


def threads_of_every_kind():
    """The allocator, the loader, exceptions, signals, locks, forks, and every waiting call; no fault, no EINTR."""
    need_tools()
    with workspace() as ws, Target([TARGET]) as t:
        t.ready()
        text = load_all(t, "ptrace", copies(ws, 75), 2)
        out = t.finish()
        check(out[-1].startswith("loaded 75 ") and out[-1].endswith(" faults 0"), "\n".join(out))
        return f"{text}; {out[-1]}"


def torch_target(threads, others=0):
    return Target([PYTHON, os.path.join(WORKLOADS, "inject_work.py"), str(threads), str(others)])


def finals(target):
    """For each thread the digests of its results."""
    out = target.finish()
    check(not any(line.startswith("faults") for line in out), "\n".join(out)[:2000])
    check(not target.err.strip(), f"the target complains: {target.err[-400:]}")
    return [line.split()[2:] for line in out if line.startswith("final")]


def same_as_undisturbed(start, way, libs, expect_way):
    """Two of them at a time, one of which is left alone: as far as both come, their results are the same bits."""
    with start() as t, start() as alone:
        t.ready()
        alone.ready()
        text = load_all(t, way, libs, expect_way)
        wait_for(lambda: min(cpu_of(t), cpu_of(alone)) > 3, "the other to compute", SLOW)
        disturbed, undisturbed = finals(t), finals(alone)
    steps = [min(len(a), len(b)) for a, b in zip(disturbed, undisturbed)]
    check(len(steps) == len(disturbed) == len(undisturbed) and min(steps) >= 3, f"too few results: {steps}")
    same = [a[:n] == b[:n] for a, b, n in zip(disturbed, undisturbed, steps)]
    check(all(same), f"other results: {same} of {steps}")
    return f"{text}; {len(steps)} threads bit-identical over {10 * min(steps)} steps and more"


def cpu_of(target):
    """Seconds of processor time."""
    with open(f"/proc/{target.pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def torch_crowd():
    need_tools()
    with workspace() as ws:
        return same_as_undisturbed(lambda: torch_target(3, 6), "ptrace", copies(ws, 40), 2)


def torch_alone():
    """One thread computes, and the pool of torch."""
    need_tools()
    with workspace() as ws:
        return same_as_undisturbed(lambda: torch_target(1), "any", copies(ws, 40), None)


def real_agent():
    """The agent itself: loaded once, and twice; it does nothing unless it is told to."""
    need_tools()
    check(os.path.exists(AGENT), "the agent is not built")
    with workspace() as ws:
        other = os.path.join(ws, "copy.so")
        shutil.copy(AGENT, other)
        return same_as_undisturbed(lambda: torch_target(2), "any", [AGENT, AGENT, other], None)


IN_CHROOT = """
root=$1; mkdir -p "$root$2" "$root/ptbpf-tests"
for m in proc sys dev; do mount --rbind "/$m" "$root/$m"; done
mount --bind "$2" "$root$2"; mount --bind "$3" "$root/ptbpf-tests"
shift 3
exec chroot "$root" "$@"
"""


@contextlib.contextmanager
def newest_python(ws):
    root = os.path.join(ENVS, "chroot-unstable")
    if not os.path.exists(os.path.join(root, "usr/bin/python3")):
        raise Skip(f"no environment {root}")
    tests = os.path.dirname(WORKLOADS)

    def start(args=("/ptbpf-tests/workloads/inject_work.py", "2", "5"), env=None):
        return Target(["unshare", "--mount", "sh", "-ec", IN_CHROOT, "sh", root, ws, tests, "python3", *args],
                      {"PYTHONPATH": "/opt/torch", **(env or {})})

    try:
        yield start
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(root + ws)
    left = glob.glob(os.path.join(root, "tmp", "ptbpf-*.py"))
    check(not left, f"scripts are left behind: {left}")


def remote_execution():
    need_tools()
    with workspace() as ws, newest_python(ws) as start:
        return same_as_undisturbed(start, "any", copies(ws, 50), 1)


def newest_python_by_ptrace():
    need_tools()
    with workspace() as ws, newest_python(ws) as start:
        return same_as_undisturbed(start, "ptrace", copies(ws, 40), 2)


def remote_execution_refused():
    """Switched off, forbidden by an audit hook, or never looked at: said, taken back, and then done by ptrace."""
    need_tools()
    ready = "import sys, time\nprint('ready', flush=True)\n"
    hook = ("def no(event, args):\n  if event == 'ctypes.dlopen': raise RuntimeError('not here')\n"
            "sys.addaudithook(no)\n")
    asleep_ = "try: time.sleep(60)\nexcept KeyboardInterrupt: print('interrupted', flush=True)"
    cases = [(ready + "sys.stdin.readline()", {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, "switched off"),
             (ready.replace("print", hook + "print") + "while not time.sleep(0.01): pass", None, "not here"),
             (ready + asleep_, None, "has not come to a point")]
    with workspace() as ws, newest_python(ws) as start:
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


def killed_in_the_middle():
    """The tool dies by SIGKILL at any moment; the target never notices, and loads what was begun."""
    need_tools()
    rng = random.Random(7)
    with workspace() as ws, Target([TARGET]) as t:
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
        # the one thing that a kill can leave behind, in a moment that is seldom hit: inject/divert.h
        check(out[-1].endswith(" faults 0") or out[:-1] == ["fault eintr 1"], "\n".join(out))
        check(killed >= 10, f"only {killed} were still at work")
        return f"{killed} killed at work; {out[-1]}"


# ---- refusals ----

def refused(pid, lib, text, way="any"):
    (ok, why), = inject(pid, way, [lib], 1500)
    check(not ok and text in why, f"expected a refusal with {text!r}: {why}")


def python_target(code, *wrap, env=None):
    return Target([*wrap, PYTHON, "-c", "import os, sys\nprint('ready', flush=True)\n" + code], env)


def refusals():
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
            refused(t.pid, lib, "Python", "remote")  # too old for that, here
            load_all(t, "ptrace", [lib], 2, 2000)
            check(inject(t.pid, "ptrace", [lib]) == [(True, "0 0 0")], "a second time is nothing to do")
            t.finish()
        with python_target("import select; ep = select.epoll()\nwhile 1: ep.poll(60)") as t:
            t.ready()
            time.sleep(0.2)
            refused(t.pid, lib, "must not be disturbed", "ptrace")
        seccomp = ("import ctypes\nc = ctypes.CDLL(None)\nclass F(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort),"
                   " ('p', ctypes.c_char_p)]\nc.prctl(38, 1, 0, 0, 0)\n"
                   "assert c.prctl(22, 2, ctypes.byref(F(1, b'\\x06\\0\\0\\0\\0\\0\\xff\\x7f'))) == 0\n"
                   "print('filtered', flush=True)\n")
        with python_target(seccomp + wait) as t:
            t.ready()
            check(t.proc.stdout.readline().strip() == "filtered", "no filter")
            refused(t.pid, lib, "seccomp")
            t.finish()
        refused(2 ** 22 + 1, lib, "no such process")
    return "stopped, seccomp, no file, no library, no process, a call that must not be disturbed"


def asleep():
    """Threads that sleep for ever are woken by nobody but go on sleeping as before."""
    need_tools()
    with workspace() as ws:
        for code in ("import time; time.sleep(12); print('slept', flush=True)",
                     "import threading; threading.Event().wait(12); print('slept', flush=True)",
                     "import select; select.select([0], [], []); print('slept', flush=True)"):
            begin = time.monotonic()
            with python_target(code) as t:
                t.ready()
                load_all(t, "ptrace", copies(ws, 8, f"a{len(code)}-"), 2, 1500)
                check(t.proc.poll() is None, "it woke up")
                out = t.finish()
                check(out == ["slept"], f"{out}")
            check("select" in code or time.monotonic() - begin > 12, "it slept too short")


if __name__ == "__main__":
    main([threads_of_every_kind, torch_crowd, torch_alone, real_agent, remote_execution, newest_python_by_ptrace,
          remote_execution_refused, killed_in_the_middle, refusals, asleep])
