# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target in other namespaces, as in a container: traced from outside by its outer pid. A container that is paused."""

import contextlib
import os
import shutil
import signal
import subprocess

import pytest

from own_torch import own_torch
from support import (AGENT, PTBPF, PYTHON, WORKLOADS, Process, Skip, check, children_of, load_trace, require_root, run_ptbpf, slices,
                     wait_for, workload)


def in_container(ws):
    """The environment is bound to a path that exists only inside; pids are those of the container."""
    prefix = subprocess.run([PYTHON, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True,
                            check=True).stdout.strip()
    inside = "/mnt/inside"
    script = (f"mount -t tmpfs tmpfs /mnt && mkdir {inside} && mount --bind {prefix} {inside} && "
              f"mount --bind {WORKLOADS} /srv && umount -l /proc/sys/fs/binfmt_misc 2>/dev/null; "
              f"exec {inside}/bin/{os.path.basename(PYTHON)} -u /srv/spin.py")
    return Process(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script], cwd=ws)


def test_container(ws):
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode:
        raise Skip("namespaces cannot be made here")
    with in_container(ws) as p:
        p.wait_line("rate")
        pid = wait_for(lambda: children_of(p.pid), "the inner process")[0]
        with open(f"/proc/{pid}/maps") as f:
            check("/mnt/inside" in f.read() and not os.path.exists("/mnt/inside"), "the namespace is not another one")
        run_ptbpf("attach", "--pid", pid, "-d", "700ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json")
        events = slices(load_trace(ws + "/a.json"), "aten::neg")
        check(len(events) > 1000, "no operators")
        check({e["pid"] for e in events} == {pid}, "the pid is not the one of ptbpf's namespace")
        done = run_ptbpf("doctor", "--pid", pid)
        check(any("container" in line for line in done.out), f"doctor does not mention the namespace\n{done.text()}")
        os.kill(pid, 9)
        p.finish()


@contextlib.contextmanager
def in_overlay():
    """A target with its own PyTorch and agent in an overlay, as in an image of a container, and the folder of these as root sees it."""
    require_root()
    where = "/mnt/layers/merged"
    with own_torch() as env:
        low = env["PYTHONPATH"]
        shutil.copy(AGENT, low)
        mount = (f"mount -t tmpfs tmpfs /mnt && mkdir /mnt/layers /mnt/layers/up /mnt/layers/work {where} && mount -t overlay overlay "
                 f"-o lowerdir={low},upperdir=/mnt/layers/up,workdir=/mnt/layers/work {where}")
        if subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True).returncode:
            raise Skip("overlays cannot be made here")
        env = {"PYTHONPATH": where, "LD_PRELOAD": f"{where}/{os.path.basename(AGENT)}"}
        start = mount + "".join(f" && export {name}={value}" for name, value in env.items()) + ' && exec "$@"'
        with workload("spin.py", wrap=["unshare", "--mount", "sh", "-c", start, "sh"]) as p:
            p.wait_line("rate")
            yield p, f"/proc/{p.pid}/root{where}"


def test_copied_up(ws):
    """A library that was changed in an overlay is another file than the mapped one: it is refused, where no probe would hit."""
    with in_overlay() as (p, files):
        args = ("attach", "--pid", p.pid, "-d", "500ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table")
        run_ptbpf(*args)
        check(load_trace(ws + "/a.json")["ptbpf"]["agents"], "the agent is not used")
        os.utime(f"{files}/{os.path.basename(AGENT)}")
        t = run_ptbpf(*args)
        check(any("runs other code than that of the file" in line for line in t.err), f"the agent\n{t.text()}")
        check(len(slices(load_trace(ws + "/a.json"), "aten::neg")) > 1000, f"no operators without the agent\n{t.text()}")
        os.utime(f"{files}/torch/lib/libtorch_cpu.so")
        for links in (), ("--perf-uprobes",):
            t = run_ptbpf(*args, *links, expect=1)
            check(any("libtorch_cpu.so' of process" in line and "runs other code" in line for line in t.err), t.text())
        check(p.alive(), "the target died")


IN_THE_FUTURE = ["unshare", "--time", "--monotonic", "86400", "--boottime", "86400"]


def need_time_namespaces():
    require_root()
    if subprocess.run([*IN_THE_FUTURE, "true"], capture_output=True).returncode:
        raise Skip("time namespaces cannot be made here")


@pytest.mark.parametrize("agent", (False, True))
def test_time_namespace(ws, agent):
    """A process whose clock is a day ahead is recorded by the kernel's clock; its agent, which reads its own, is not used."""
    need_time_namespaces()
    env = dict(os.environ, LD_PRELOAD=AGENT) if agent else None
    with workload("spin.py", wrap=IN_THE_FUTURE, env=env) as p:
        p.wait_line("rate")
        t = run_ptbpf("attach", "--pid", p.pid, "-d", "500ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json")
        check(any("another time namespace" in line for line in t.err) == agent, t.text())
        check(len(slices(load_trace(ws + "/a.json"), "aten::neg")) > 1000, f"no operators\n{t.text()}")
        doctor = run_ptbpf("doctor", "--pid", p.pid).text()
        check(("another time namespace" in doctor) == agent, doctor)


def test_own_time_namespace(ws):
    """ptbpf itself reads another clock than the kernel's: it says so and records nothing."""
    need_time_namespaces()
    with workload("spin.py") as p:
        p.wait_line("rate")
        t = Process([*IN_THE_FUTURE, PTBPF, "attach", "--pid", str(p.pid), "-d", "1s", "-o", ws + "/a.ptb"])
        check(t.finish() == 1 and "time namespace" in t.text() and not os.listdir(ws), t.text())


def freezers():
    """(group, how to freeze it, how to thaw it) of both versions of control groups, as far as the machine has them."""
    for root, file, freeze, thaw in (("/sys/fs/cgroup", "cgroup.freeze", "1", "0"), ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
                                     ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED")):
        group = f"{root}/ptbpf-pause-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(group)
            if os.path.exists(f"{group}/{file}"):
                yield group, f"{group}/{file}", freeze, thaw
            os.rmdir(group)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(str(text))


def test_stopped(ws, spin):
    """A target that SIGSTOP or a freezer (docker pause) has stopped is said to be, and one that runs is not."""
    spin.wait_line("rate")

    def attach(expect=3):
        return run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "-o", ws + "/a.ptb", "--no-table", expect=expect).text()
    os.kill(spin.pid, signal.SIGSTOP)
    try:
        text = attach()
    finally:
        os.kill(spin.pid, signal.SIGCONT)
    check(f"pid {spin.pid} is stopped by a signal" in text, text)
    frozen = 0
    for group, file, freeze, thaw in freezers():
        home = group.rpartition("/")[0] + "/cgroup.procs"
        write(group + "/cgroup.procs", spin.pid)
        write(file, freeze)
        try:
            text = attach()
        finally:
            write(file, thaw)
            write(home, spin.pid)
        check(f"pid {spin.pid} is stopped by the freezer" in text, f"{group}\n{text}")
        frozen += 1
    check(frozen or not os.path.exists("/sys/fs/cgroup/cgroup.freeze"), "no freezer was tried")
    text = attach(0)
    check("is stopped" not in text, text)
