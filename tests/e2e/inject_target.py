# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes into which tests/unit/inject_tool.c loads libraries."""

import contextlib
import glob
import os
import shutil
import subprocess

from support import BUILD, ENVS, PYTHON, WORKLOADS, Child, Failure, Skip, check, require_root, wait_for

TOOL = os.path.join(BUILD, "tests", "inject_tool")
TARGET = os.path.join(BUILD, "tests", "workloads", "target_inject")
LIBRARY = os.path.join(BUILD, "tests", "workloads", "libinject_lib.so")
LIMIT_MS = 20000
SLOW = 600


class Target(Child):
    """A process that ends when it reads a line from stdin, and then prints its results."""

    def __init__(self, argv, env=None, **kw):
        super().__init__(argv, env, **kw, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

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

    def check_loaded(self, libs):
        maps = self.maps()
        check(all(os.path.basename(p) in maps for p in libs), "a library is not mapped")


def copies(ws, cnt, stem="lib"):
    """Of the library, with names that no other run of pytest uses in the directories that all processes share."""
    paths = [os.path.join(ws, f"{stem}{i}-{os.getpid()}.so") for i in range(cnt)]
    for p in paths:
        shutil.copy(LIBRARY, p)
    return paths


def inject(pid, method, libs, limit_ms=LIMIT_MS, wrap=()):
    """The tool's output lines as (loaded, words or sentence)."""
    done = subprocess.run([*wrap, TOOL, str(pid), method, str(limit_ms), *libs], capture_output=True, text=True, timeout=SLOW)
    lines = done.stdout.splitlines()
    check(len(lines) == len(libs), f"inject_tool ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return [(line.startswith("loaded"), line.split(None, 1)[1]) for line in lines]


def load_all(target, method, libs, expected_method=None, limit_ms=LIMIT_MS):
    got = inject(target.pid, method, libs, limit_ms)
    bad = [text for ok, text in got if not ok]
    check(not bad, f"{len(bad)} of {len(libs)} were refused: {bad[:2]}")
    numbers = [[int(x) for x in text.split()] for _, text in got]
    check(expected_method is None or all(n[0] == expected_method for n in numbers), f"another method: {numbers[:3]}")
    target.check_loaded(libs)
    tries, us = sorted(n[1] for n in numbers), sorted(n[2] for n in numbers)
    return f"{len(libs)} loaded, tries up to {tries[-1]}, median {us[len(us) // 2]} us, longest {us[-1]} us"


def need_tools():
    require_root()
    for path in (TOOL, TARGET, LIBRARY):
        check(os.path.exists(path), f"{path} is not built")


def torch_target(threads, others=0):
    return Target([PYTHON, os.path.join(WORKLOADS, "inject_work.py"), str(threads), str(others)])


def finals(target):
    """The digests of the results of each thread."""
    out = target.finish()
    check(not any(line.startswith("faults") for line in out), "\n".join(out)[:2000])
    check(not target.err.strip(), f"the target complains: {target.err[-400:]}")
    return [line.split()[2:] for line in out if line.startswith("final")]


def same_as_undisturbed(start, method, libs, expected_method):
    """Starts two processes and injects into one: the results of both must be bit-identical for as many steps as both have
    done."""
    with start() as t, start() as alone:
        t.ready()
        alone.ready()
        began = [cpu_of(t), cpu_of(alone)]
        text = load_all(t, method, libs, expected_method)
        wait_for(lambda: min(cpu_of(t) - began[0], cpu_of(alone) - began[1]) > 3, "the other to compute", SLOW)
        disturbed, undisturbed = finals(t), finals(alone)
    steps = [min(len(a), len(b)) for a, b in zip(disturbed, undisturbed)]
    check(len(steps) == len(disturbed) == len(undisturbed) and min(steps) >= 3, f"too few results: {steps}")
    same = [next((i for i in range(n) if a[i] != b[i]), n) for a, b, n in zip(disturbed, undisturbed, steps)]
    check(same == steps, f"other results: the same up to digest {same} of {steps}")
    return f"{text}; {len(steps)} threads bit-identical over {10 * min(steps)} steps and more"


def cpu_of(target):
    """Processor time in seconds."""
    with open(f"/proc/{target.pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def refused(pid, lib, text, method="any"):
    (ok, why), = inject(pid, method, [lib], 1500)
    check(not ok and text in why, f"expected a refusal with {text!r}: {why}")


def python_target(code, *wrap, env=None):
    return Target([*wrap, PYTHON, "-c", "import os, sys\nprint('ready', flush=True)\n" + code], env)


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
    left = [path for name in ("ptbpf-*.py", "lib*-*.so") for path in glob.glob(os.path.join(root, "tmp", name))]
    check(not left, f"files are left behind: {left}")
