# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A plan is used only for the files from which it was made: an unprivileged user's copy of torch's library, with the wheel's
build-id and other code, must not decide where another user's process is probed."""

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import tempfile

import doctored
from support import PTBPF, PYTHON, WORKLOADS, Process, check, load_trace, run_ptbpf, slices, wait_for, workload

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@contextlib.contextmanager
def private_cache():
    """A mount namespace with an empty /var/cache; yields the command prefix that enters it."""
    keeper = Process(["unshare", "-m", "sh", "-c",
                      "mount -t tmpfs -o mode=755 tmpfs /var/cache && echo ready && exec sleep 10000"])
    with keeper:
        keeper.wait_line("ready")
        yield ["nsenter", "-m", "-t", str(keeper.pid)]


def ptbpf(wrap, *args, expect=(0,)):
    with Process([*wrap, PTBPF, *map(str, args)]) as t:
        code = t.finish(300)
        check(code in expect, f"exit {code}: {t.name()}\n{t.text()}")
        return t


def torch_lib():
    out = subprocess.run([PYTHON, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
                         capture_output=True, text=True, check=True)
    return out.stdout.strip() + "/lib"


def doctored_copy(lib, _made=[]):
    """Made once, because it has half a gigabyte."""
    if not _made:
        folder = tempfile.mkdtemp(prefix="ptbpf-test-")
        atexit.register(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "libtorch_cpu.so")
        count = doctored.make(os.path.join(lib, "libtorch_cpu.so"), copy)
        check(count > 1000, f"only {count} operators were doctored")
        _made.append(copy)
    return _made[0]


@contextlib.contextmanager
def attacker(victim):
    """A process of nobody with a doctored libtorch_cpu and the victim's other libraries."""
    with open(f"/proc/{victim.pid}/maps") as f:
        runtime = next(line.split()[5] for line in f if "libstdc++" in line)
    lib = torch_lib()
    copy = doctored_copy(lib)
    argv = [*NOBODY, "/usr/bin/python3", "-u", os.path.join(WORKLOADS, "map_libs.py"), os.path.join(lib, "libc10.so"),
            runtime, copy, os.path.join(lib, "libtorch_python.so")]
    read, write = os.pipe()
    with Process(["bash", "-c", 'exec "$@" <&' + str(read), "bash", *argv], pass_fds=(read,)) as p:
        os.close(read)
        try:
            p.wait_line("ready")
            yield p
        finally:
            os.close(write)


@contextlib.contextmanager
def started(victim):
    victim.wait_line("step 1 ")
    yield


def sites(dry_run):
    """Offsets of libtorch_cpu's probes in the output of --dry-run."""
    return {m.group(1) for m in (re.search(r"\b0x([0-9a-f]+)\b", line) for line in dry_run.out) if m}


def losses(p):
    return [line for line in p.out if line.startswith("step ")]


def survives(victim, reference):
    """The victim survives and computes the same results as an undisturbed process."""
    victim.wait_news("^step ", 3)
    check(victim.alive(), f"the victim died\n{victim.text()}")
    upto = len(losses(victim))
    wait_for(lambda: len(losses(reference)) >= upto, "the reference to come so far")
    check(losses(victim)[:upto] == losses(reference)[:upto], "the victim computed something else")


def has_operators(trace, pid):
    found = slices(load_trace(trace), cat="cpu_op", pid=pid)
    check(len(found) > 100, f"the victim's trace has {len(found)} operators")


def test_poisoned_cache(ws, detail):
    """The doctored copy is analysed first (--dry-run), then the owner of the wheel is traced."""
    with private_cache() as wrap, workload("train_loop.py") as victim, \
            workload("train_loop.py") as reference, started(victim), attacker(victim) as a:
        other = sites(ptbpf(wrap, "attach", "--dry-run", "--pid", a.pid))
        trace = os.path.join(ws, "v.json")
        ptbpf(wrap, "attach", "--pid", victim.pid, "-d", "1s", "-o", os.path.join(ws, "v.ptb"), "--trace", trace,
              expect=(0, 3))
        survives(victim, reference)
        has_operators(trace, victim.pid)
        own = sites(ptbpf(wrap, "attach", "--dry-run", "--pid", victim.pid))
        check(len(other - own) > 1000, f"the copy's probes are not elsewhere: {len(other - own)}")
        detail(f"{len(other - own)} places differ")


def test_shared_plan(ws):
    """Both processes in one run, without a cache."""
    with private_cache() as wrap, workload("train_loop.py") as victim, \
            workload("train_loop.py") as reference, started(victim), attacker(victim) as a:
        trace = os.path.join(ws, "v.json")
        ptbpf(wrap, "attach", "--no-cache", "--pid", f"{a.pid},{victim.pid}", "-d", "1s", "-o",
              os.path.join(ws, "v.ptb"), "--trace", trace, expect=(0, 3))
        survives(victim, reference)
        has_operators(trace, victim.pid)


def test_changed_code(ws):
    """A process that has changed its code at a site of the plan is not probed."""
    with workload("train_loop.py") as p:
        p.wait_line(r"step 1 ")
        rows = run_ptbpf("attach", "--dry-run", "--pid", p.pid).out
        row = next(line for line in rows if "aten::bartlett_window" in line and "0x" in line)
        off = int(re.search(r"0x([0-9a-f]+)", row).group(1), 16)
        with open(f"/proc/{p.pid}/maps") as f:
            for line in f:
                span, perms, start, _, _, *path = line.split()
                low, high = (int(x, 16) for x in span.split("-"))
                start = int(start, 16)
                if "x" in perms and path and path[0].endswith("libtorch_cpu.so") and start <= off < start + high - low:
                    break
        with open(f"/proc/{p.pid}/mem", "r+b", buffering=0) as mem:
            mem.seek(low + off - start)
            mem.write(b"\x90")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "1s", "-o", os.path.join(ws, "x.ptb"), expect=1)
        text = "\n".join(done.err)
        check("libtorch_cpu.so" in text and f"{off:x}" in text and "not probed" in text, f"no clear sentence:\n{text}")
        p.wait_news("^step ", 3)
        check(p.alive(), f"the process died\n{p.text()}")
