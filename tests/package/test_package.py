# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The Debian packages of tools/package.sh, built for each release and tried in a clean Debian of it: check.sh. That takes minutes and downloads compilers: only under a soak.
"""

import glob
import os
import shutil
import subprocess
import tempfile

import pytest

from support import check, say

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ENV_DIR = os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs")
PYTHONS = {"bookworm": "311", "trixie": "313"}  # of the release
# The tree is unpacked, PyTorch is mounted in it for as long as the check runs.
IN_CLEAN_DEBIAN = """
. "$1/tools/env.sh"; . "$1/tools/apt.sh"; . "$1/tools/chroot.sh"
debian_tree "$2" "$3"
if [ -n "$4" ]; then mkdir -p "$3/opt/torch"; mount --bind "$4" "$3/opt/torch"; torch=/opt/torch; fi
in_chroot "$3" /packages/check.sh /packages ${torch:-}
"""


def torch_for(release):
    """A folder with a PyTorch that the release's own Python can load."""
    found = glob.glob(f"{ENV_DIR}/*/opt/torch/torch/_C.cpython-{PYTHONS[release]}-*.so")
    found += glob.glob(f"{ENV_DIR}/*/lib/python3*/site-packages/torch/_C.cpython-{PYTHONS[release]}-*.so")
    return os.path.dirname(os.path.dirname(max(found))) if found else ""


def check_release(release):
    """What went wrong, or nothing."""
    built = subprocess.run([ROOT + "/tools/package.sh", release], capture_output=True, text=True)
    if built.returncode:
        return "tools/package.sh failed\n" + built.stdout[-2000:] + built.stderr[-4000:]
    tree = tempfile.mkdtemp(prefix="ptbpf-package-", dir="/var/tmp")
    try:
        shutil.copytree(f"{ROOT}/build-package/{release}", tree + "/packages")
        for path in (HERE + "/check.sh", ROOT + "/tests/workloads/spin.py"):
            shutil.copy(path, tree + "/packages")
        tried = subprocess.run(["unshare", "--mount", "bash", "-ec", IN_CLEAN_DEBIAN, "bash", ROOT, release, tree,
                                torch_for(release)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", tree], check=True)
    return "" if tried.returncode == 0 else f"check.sh failed\n{tried.stdout[-6000:]}"


@pytest.mark.soak
@pytest.mark.parametrize("release", PYTHONS)
def test_release(release):
    why = check_release(release)
    check(not why, why)
    say("PASS", f"package.{release}")
    if not torch_for(release):
        say("SKIP", f"package.{release}.attach", f"no PyTorch for CPython {PYTHONS[release]} in {ENV_DIR}")
