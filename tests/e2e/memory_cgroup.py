# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A cgroup with a limit of memory or CPU time, of version 2 or 1, depending on the machine; Skip with the reason if neither is available."""

import contextlib
import os
import time

from support import Skip


def mounts():
    with open("/proc/self/mounts") as f:
        for line in f:
            _, where, kind, options, *_ = line.split()
            yield where, kind, options.split(",")


def read(*path):
    with contextlib.suppress(OSError), open(os.path.join(*path)) as f:
        return f.read()
    return ""


FILES = { # of controllers, by the version of cgroups
    "memory": {2: {"limit": "memory.max", "swap": "memory.swap.max", "used": "memory.current"},
               1: {"limit": "memory.limit_in_bytes", "swap": "memory.swappiness", "used": "memory.usage_in_bytes"}},
    "cpu": {2: {"limit": "cpu.max"}, 1: {"limit": "cpu.cfs_quota_us"}},
}


def candidates(controller):
    """(folder in which a cgroup can be made, names of its files)"""
    for where, kind, options in mounts():
        if kind == "cgroup2" and controller in read(where, "cgroup.subtree_control").split():
            yield where, FILES[controller][2]
        elif kind == "cgroup" and controller in options:
            yield where, FILES[controller][1]


def make(controller="memory"):
    reasons = []
    for where, names in candidates(controller):
        path = os.path.join(where, f"ptbpf-test-{os.getpid()}")
        try:
            os.mkdir(path)
            return path, names
        except OSError as why:
            reasons.append(f"{where}: {why.strerror}")
    raise Skip(f"no {controller} cgroup can be made here: " + ("; ".join(reasons) or f"no {controller} controller is mounted and enabled"))


class Limited:
    """A cgroup whose processes share `mib` MiB of memory allocated from now on, without swap, or so much of one CPU."""

    def __init__(self, mib=None, share=None):
        self.path, self.names = make("memory" if mib else "cpu")
        try:
            self.write("limit", str(mib << 20 if mib else int(100000 * share)))
            if not mib:
                return
            with contextlib.suppress(OSError):  # a kernel without swap accounting
                self.write("swap", "0")
        except OSError as why:
            os.rmdir(self.path)
            raise Skip(f"{self.path} takes no limit: {why.strerror}") from None

    def write(self, what, text):
        with open(os.path.join(self.path, self.names[what]), "w") as f:
            f.write(text)

    def add(self, pid):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as f:
            f.write(str(pid))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for _ in range(250):  # it is busy until the last process in it is reaped
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
                return
            time.sleep(0.02)
