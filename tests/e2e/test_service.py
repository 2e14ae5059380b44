# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The unit under systemd: start, windows, the rights of the process, reload, restart after SIGKILL, stop, and a configuration that is not valid.

systemd is the first process of a pid namespace; nothing that it and its services write outlives them."""

import contextlib
import os
import re
import shutil
import signal
import subprocess

import pytest

from support import PTBPF, PYTHON, WORKLOADS, Process, check, children_of, modified_code, run_ptbpf, wait_for
from test_deploy import CONF, UNIT, setting, settings
from test_sample import log_of, read, wait_logged

# Control groups as they are without version 1, and one in which systemd is at the root.
OUTER = """
mount --make-rprivate /
umount -l /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=/sys/fs/cgroup/$1
mkdir "$group" && echo $$ >"$group/cgroup.procs"
setpriv --pdeathsig KILL unshare --mount --cgroup --pid --fork --kill-child --mount-proc sh -ec "$2" || :
echo $$ >/sys/fs/cgroup/cgroup.procs
find "$group" -depth -type d -exec rmdir {} +
"""
# Nothing of this machine can be changed, and systemd finds no other units and generators: those of a machine's start clean /tmp and more.
INNER = """
umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup
for mount in $(findmnt -rno TARGET | grep -Ev '^/(proc|sys|dev)'); do
	mount -o remount,bind,ro "$mount"
done
mount -t tmpfs tmpfs /run
for d in etc tmp usr/local/bin var/cache var/lib var/tmp; do
	mkdir -p /run/changed/$d /run/scratch/$d
	mount -t overlay -o lowerdir=/$d,upperdir=/run/changed/$d,workdir=/run/scratch/$d overlay /$d
done
mkdir /run/units /run/generators
for target in sysinit basic shutdown test; do
	printf '[Unit]\\nDefaultDependencies=no\\n' >/run/units/$target.target
done
export container=ptbpf-test SYSTEMD_UNIT_PATH=/run/units SYSTEMD_GENERATOR_PATH=/run/generators
exec /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=0
"""
# The manager has no journal; a restart within the test's time.
DROP_IN = """[Service]
StandardError=append:/run/ptbpf.log
RestartSec=1
"""


class Systemd(Process):
    """self.root: the root directory of what it manages, as this machine sees it."""

    def __init__(self):
        super().__init__(["unshare", "--mount", "sh", "-ec", OUTER, "sh", f"ptbpf-test-{os.getpid()}", INNER])
        self.init = wait_for(self.first_process, "systemd to start")
        self.root = f"/proc/{self.init}/root"
        wait_for(lambda: self.systemctl("is-active", "test.target", check_exit=False) == "active", "systemd to be ready")

    def __exit__(self, *exc):
        os.kill(self.init, signal.SIGKILL)  # all of its processes end, and the group is removed
        self.finish()
        super().__exit__(*exc)

    def first_process(self):
        check(self.alive(), self.text())
        for unshare in children_of(self.pid):
            for pid in children_of(unshare):
                with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                    if f.read() == "systemd\n":
                        return pid
        return None

    def within(self, *argv):
        return ["nsenter", "-t", str(self.init), "--mount", "--pid", "--cgroup", *map(str, argv)]

    def systemctl(self, *args, check_exit=True):
        done = subprocess.run(self.within("systemctl", *args), capture_output=True, text=True)
        check(not check_exit or done.returncode == 0, f"systemctl {' '.join(args)}: {done.stderr}\n{self.log()}\n{self.text()}")
        return done.stdout.strip()

    def show(self, name):
        return self.systemctl("show", "-P", name, "ptbpf")

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        with open(self.root + path, "w", encoding="utf-8") as f:
            f.write(text)

    def log(self):
        return read(self.root + "/run/ptbpf.log") or ""

    def windows(self):
        return log_of(self.root + "/var/lib/ptbpf")

    def main_pid(self):
        """As this machine numbers it."""
        inner = self.show("MainPID")
        for pid in children_of(self.init):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as f:
                if re.search(rf"^NSpid:.*\t{inner}$", f.read(), re.MULTILINE):
                    return pid
        return None


@pytest.fixture
def systemd():
    with Systemd() as s:
        shutil.copy(PTBPF, s.root + "/usr/local/bin/ptbpf")
        shutil.copy(UNIT, s.root + "/run/units/ptbpf.service")
        s.write("/run/units/ptbpf.service.d/test.conf", DROP_IN)
        s.systemctl("daemon-reload")
        yield s
        s.systemctl("stop", "ptbpf")


def configure(s, **changes):
    """The example's file with other values of these options."""
    with open(CONF, encoding="utf-8") as f:
        conf = {**settings(f.read()), "schedule": "wait=2s,active=500ms", "max-overhead": "100000%", **changes}
    s.write("/etc/ptbpf.conf", "".join(f"{name}={value}\n" for name, value in conf.items()))


def wait_window(s, matches=lambda w: True):
    """The next one that was recorded whole; before the first one ptbpf analyses the libraries, and a busy machine may cut others short."""
    known = {w["window"] for w in s.windows()}
    return wait_logged(s.root + "/var/lib/ptbpf", lambda w: w["window"] not in known and w["exit"] == 0 and
                       w["stopped_by"] == "duration reached" and matches(w), "a window")


def check_rights(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    with open("/usr/include/linux/capability.h", encoding="utf-8") as f:
        numbers = dict(re.findall(r"^#define (CAP_\w+)\s+(\d+)$", f.read(), re.MULTILINE))
    granted = [name for name, number in numbers.items() if int(status["CapEff"], 16) >> int(number) & 1]
    check(sorted(granted) == sorted(setting("CapabilityBoundingSet").split()), f"capabilities: {granted}")
    check(status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", "new privileges, or system calls without a filter")


def test_service(systemd):
    s = systemd
    with Process(s.within("setpriv", "--pdeathsig", "KILL", PYTHON, "-u", f"{WORKLOADS}/spin.py")) as job:
        job.wait_line("rate")
        target, = children_of(job.pid)
        configure(s)
        s.systemctl("start", "ptbpf")
        w = wait_window(s)
        check(w["slices"] > 50 and "trace" not in w, f"window: {w}\n{s.log()}")
        run_ptbpf("report", s.root + w["capture"])
        first = s.main_pid()
        check_rights(first)

        configure(s, traces="json", schedule="wait=2s,active=300ms")
        s.systemctl("reload", "ptbpf")
        w = wait_window(s, lambda w: "trace" in w)
        check(os.path.exists(s.root + w["trace"]) and s.main_pid() == first, f"window: {w}")
        configure(s, schedule="sometimes")
        s.systemctl("reload", "ptbpf")
        wait_for(lambda: "the settings remain as they were" in s.log(), "the refusal")
        wait_window(s, lambda w: "trace" in w)

        before = {w["window"] for w in s.windows()}
        os.kill(first, signal.SIGKILL)
        configure(s)
        wait_for(lambda: s.main_pid() not in (first, None), "a restart")
        w = wait_window(s)
        check(w["window"] > max(before), f"window {w['window']} after {max(before)}")

        s.systemctl("stop", "ptbpf")
        check(s.show("Result") == "success" and s.show("ActiveState") == "inactive", f"{s.show('Result')} {s.show('ExecMainStatus')}\n{s.log()}")
        check(not modified_code(target), "probes are left")
        left = os.listdir(s.root + "/var/lib/ptbpf")
        check(all(os.path.basename(w["capture"]) in left for w in s.windows() if "capture" in w), f"files: {left}")
        check(not [name for name in left if name.endswith(".partial")], f"files: {left}")


def test_not_valid(systemd):
    """A configuration that cannot be used is not tried again and again."""
    s = systemd
    configure(s, schedule="sometimes")
    s.systemctl("start", "ptbpf", check_exit=False)
    wait_for(lambda: s.show("ActiveState") == "failed", "the failure")
    check(s.show("ExecMainStatus") == "2" and s.show("NRestarts") == "0", f"{s.show('ExecMainStatus')} {s.show('NRestarts')}")
    check("sometimes" in s.log(), s.log())
