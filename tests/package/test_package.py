# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The Debian packages of tools/package.sh, built for each release and tried in a clean Debian of it by check.sh. That takes
minutes and downloads compilers: only under a soak."""

import glob
import os
import shutil
import subprocess
import tempfile

import pytest

from support import ENVS, ROOT, WORKLOADS, check, torch_versions

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHONS = {"bookworm": "311", "trixie": "313"}  # of the release
# The tree is unpacked; PyTorch is mounted in it for as long as the check runs.
IN_CLEAN_DEBIAN = """
. "$1/tools/env.sh"; . "$1/tools/apt.sh"; . "$1/tools/chroot.sh"
debian_tree "$2" "$3"
if [ -n "$4" ]; then mkdir -p "$3/opt/torch"; mount --bind "$4" "$3/opt/torch"; torch=/opt/torch; fi
in_chroot "$3" /packages/check.sh /packages ${torch:-}
"""


def torch_for(release):
    """A folder with the newest wheel that the release's own Python can load, or nothing."""
    folders = (f"{ENVS}/torch-{torch_versions()['MAIN']}/lib/python3*/site-packages", f"{ENVS}/chroot-*/opt/torch")
    found = [p for folder in folders for p in glob.glob(f"{folder}/torch/_C.cpython-{PYTHONS[release]}-*.so")]
    return os.path.dirname(os.path.dirname(found[0])) if found else ""


@pytest.fixture
def packages(release):
    """The folder that has them."""
    done = subprocess.run([ROOT + "/tools/package.sh", release], capture_output=True, text=True)
    check(done.returncode == 0, f"tools/package.sh failed\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return f"{ROOT}/build-package/{release}"


@pytest.fixture
def tree():
    """An empty folder outside of /tmp, which may be small."""
    path = tempfile.mkdtemp(prefix="ptbpf-package-", dir="/var/tmp")
    yield path
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


@pytest.mark.soak
@pytest.mark.parametrize("release", PYTHONS)
def test_life_of_packages(release, packages, tree):
    shutil.copytree(packages, tree + "/packages")
    for path in (HERE + "/check.sh", WORKLOADS + "/spin.py"):
        shutil.copy(path, tree + "/packages")
    torch = torch_for(release)
    done = subprocess.run(["unshare", "--mount", "bash", "-ec", IN_CLEAN_DEBIAN, "bash", ROOT, release, tree, torch],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, f"check.sh failed\n{done.stdout[-6000:]}")
    if not torch:
        pytest.skip(f"all but attach and record: no PyTorch for CPython {PYTHONS[release]} in {ENVS}")
