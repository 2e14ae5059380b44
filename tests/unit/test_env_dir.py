# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/env.sh: root executes nothing that another user has put, or could put, where the environments are."""

import os
import re
import subprocess

import pytest

from support import ROOT, check, require_root

OTHER = 4177  # a user id that owns nothing here
TOOLS = ("tools/setup.sh main", "tools/demo.sh", "tools/test.sh checks", "tools/package.sh", "tools/kernels/fetch.sh 6.1",
         "tools/kernels/run.sh --kernel 6.1 units", "tests/fuzz/campaign.sh /nonexistent")


@pytest.fixture
def folder(ws):
    """Sticky, as /var/tmp: anybody can make a directory in it."""
    require_root()
    os.chmod(ws, 0o1777)
    return ws


def run(envs, command):
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=dict(os.environ, PTBPF_ENV_DIR=envs), capture_output=True, text=True)
    return done.returncode, done.stderr


def plant(envs, owner=OTHER, mode=0o755):
    """A program in the place of the main environment's Python. What it creates if it runs."""
    programs = os.path.join(envs, "torch-2.15.0", "bin")
    os.makedirs(programs)
    with open(programs + "/python", "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\n>{envs}/it-ran\n")
    os.chmod(programs + "/python", 0o755)
    os.chmod(envs, mode)
    os.chown(envs, owner, owner)
    return envs + "/it-ran"


@pytest.mark.parametrize("tool", TOOLS)
def test_planted_by_another_user(folder, tool):
    envs = folder + "/envs"
    ran = plant(envs)
    code, text = run(envs, tool)
    check(code == 1 and "is not used: it is a link, or another user owns it" in text, f"{tool}: exit {code}: {text}")
    check(not os.path.exists(ran), f"{tool} executed it")


@pytest.mark.parametrize("owner, mode", ((0, 0o777), (0, 0o775), (OTHER, 0o755)))
def test_others_can_write(folder, owner, mode):
    plant(folder + "/envs", owner, mode)
    check(run(folder + "/envs", ". tools/env.sh")[0] == 1, "it is used")


@pytest.mark.parametrize("slash", ("", "/"))
def test_link(folder, slash):
    plant(folder + "/real", 0)
    os.symlink(folder + "/real", folder + "/envs")
    check(run(folder + "/real", ". tools/env.sh")[0] == 0, "the directory itself is refused")
    check(run(folder + "/envs" + slash, ". tools/env.sh")[0] == 1, "a link is used")


def test_below_another_users_directory(folder):
    plant(folder + "/theirs/envs", 0)
    os.chown(folder + "/theirs", OTHER, OTHER)
    code, text = run(folder + "/theirs/envs", ". tools/env.sh")
    check(code == 1 and f"another user can replace {folder}/theirs" in text, f"exit {code}: {text}")


def test_made_by_root(folder):
    """With any mask, so that it is used from then on."""
    code, text = run(folder + "/envs", "umask 0; . tools/env.sh; need_root test")
    check(code == 0 and os.stat(folder + "/envs").st_mode & 0o777 == 0o755, f"exit {code}: {text}")


def test_programs_of_the_current_directory(folder):
    """import torch and -m venv take no file from where somebody else has put one."""
    for name in ("torch", "venv"):
        with open(f"{folder}/{name}.py", "w", encoding="ascii") as f:
            f.write(f"open('{folder}/it-ran', 'w')\n")
    code, text = run(folder + "/envs", f"cd {folder}; . {ROOT}/tools/env.sh; user_python")
    check(code == 0 and not os.path.exists(folder + "/it-ran"), f"exit {code}: {text}; it ran")
    with open(ROOT + "/tools/setup.sh", encoding="utf-8") as f:
        bare = [line for line in f if re.search(r'python3?"? (-c|-m (venv|pip)) ', line)]
    check(not bare, f"without -I: {bare}")
