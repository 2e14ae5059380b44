# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target in another pid and mount namespace, as in a container: traced from outside by its outer pid."""

import os
import subprocess

from support import PYTHON, WORKLOADS, Process, Skip, check, children_of, load_trace, run_ptbpf, slices, wait_for


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
