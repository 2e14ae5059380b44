# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A memory cgroup with a limit, of version 2 or 1, depending on the machine; Skip with the reason if neither is available."""

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


def candidates():
    """(folder in which a cgroup can be made, names of its files)"""
    for where, kind, options in mounts():
        if kind == "cgroup2" and "memory" in read(where, "cgroup.subtree_control").split():
            yield where, {"limit": "memory.max", "swap": "memory.swap.max", "used": "memory.current"}
        elif kind == "cgroup" and "memory" in options:
            yield where, {"limit": "memory.limit_in_bytes", "swap": "memory.swappiness", "used": "memory.usage_in_bytes"}


def make():
    reasons = []
    for where, names in candidates():
        path = os.path.join(where, f"ptbpf-test-{os.getpid()}")
        try:
            os.mkdir(path)
            return path, names
        except OSError as why:
            reasons.append(f"{where}: {why.strerror}")
    raise Skip("no memory cgroup can be made here: " + ("; ".join(reasons) or "no memory controller is mounted and enabled"))


class Limited:
    """A cgroup whose processes share `mib` MiB of memory allocated from now on, without swap."""

    def __init__(self, mib):
        self.path, self.names = make()
        try:
            self.write("limit", str(mib << 20))
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
