# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The static program and the wheel of tools/package.sh: where there is no library at all, in an environment of pip, and, under a
soak, in other distributions."""

import functools
import os
import subprocess

import pytest

from support import ROOT, check, workload

# A root directory that has the archive's files, /proc and /sys, with the pids of this machine.
IN_ROOT = """
for m in proc sys; do mkdir -p "$1/$m"; mount --rbind "/$m" "$1/$m"; done
exec chroot "$@"
"""
DEBIAN = """. tools/env.sh; . tools/apt.sh; . tools/chroot.sh; debian_tree "$0" "$1" """
MUSL = """. tools/env.sh; . tools/apt.sh; apt_install musl-tools; mkdir "$1/bin" "$1/lib"; cp -L /lib/ld-musl-x86_64.so.1 "$1/lib"
echo 'int main(void) { return 0; }' | musl-gcc -o "$1/bin/ls" -xc -"""


def run(*argv, code=0, **kw):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT, **kw)
    check(done.returncode == code, f"{argv}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


@functools.lru_cache
def package(kind):
    """The file that is built."""
    return run(ROOT + "/tools/package.sh", kind).stdout.split()[-1]


def in_root(root, *argv, code=0):
    return run("unshare", "--mount", "sh", "-ec", IN_ROOT, "sh", root, *argv, code=code, env={})


def use(root, pid):
    run("tar", "--extract", "--file", package("static"), "-C", root, "--strip-components=1")
    check(in_root(root, "/ptbpf", "--version").stdout.startswith("ptbpf "), "--version")
    check("a program loads" in in_root(root, "/ptbpf", "doctor").stdout, "doctor")
    check(f" {pid} " in in_root(root, "/ptbpf", "ps").stdout, "ps")
    for command in (("attach", "--pid", str(pid), "-d", "500ms", "-o", "/a.ptb"), ("report", "/a.ptb")):
        check("aten::neg" in in_root(root, "/ptbpf", *command).stdout, command)
    in_root(root, "/ptbpf", "sample", "--pid", str(pid), "--schedule", "active=300ms,repeat=1", "--dir", "/windows", "--metrics", "0")
    check(any(name.endswith(".ptb") for _, _, names in os.walk(root + "/windows") for name in names), "no window")


def test_no_library(tree, spin):
    spin.wait_line("rate")
    use(tree, spin.pid)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["bullseye", "bookworm", "trixie", "musl"])
def test_distribution(name, tree, spin):
    """Programs that do not use PyTorch load the agent, too, as `record` has them do."""
    run("bash", "-ec", MUSL if name == "musl" else DEBIAN, name, tree)
    spin.wait_line("rate")
    use(tree, spin.pid)
    said = in_root(tree, "/ptbpf", "record", "-o", "/b.ptb", "--", "/bin/ls", code=1).stderr
    check(said == "ptbpf: the program exited before it loaded PyTorch\n", said)


def test_wheel(tree):
    """A user's own environment: sudo finds the program there, and that its agent, which it loads into a job."""
    run("python3", "-m", "venv", tree + "/venv")
    run(tree + "/venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", package("wheel"))
    run("chown", "-R", "nobody", tree)
    with workload("spin.py") as target:
        target.wait_line("rate")
        done = run("bash", "-c", f"sudo $(which ptbpf) attach --pid {target.pid} -d 500ms -o {tree}/a.ptb --agent inject",
                   env={"PATH": f"{tree}/venv/bin:{os.environ['PATH']}"})
    check("aten::neg" in done.stdout and f"loading '{tree}/venv/lib/ptbpf/libptbpf_agent.so'" in done.stderr and
          "kernel probes, not its agent" not in done.stderr, f"not by the agent: {done.stdout}{done.stderr}")
