# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target in other namespaces, as in a container: traced from outside by its outer pid. A container that is paused."""

import contextlib
import os
import signal
import subprocess

import pytest

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

    def attach():
        return run_ptbpf("attach", "--pid", spin.pid, "-d", "200ms", "-o", ws + "/a.ptb", "--no-table").text()
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
    text = attach()
    check("is stopped" not in text, text)
