# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The Debian packages of tools/package.sh, built for each release and tried in a clean Debian of it by check.sh, and the image
of tools/deploy/Dockerfile with them. That takes minutes and downloads compilers: only under a soak."""

import functools
import glob
import json
import os
import shutil
import subprocess

import pytest
import yaml

from support import ENVS, ROOT, WORKLOADS, bounding_set, check, torch_versions

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHONS = {"bookworm": "311", "trixie": "313"}  # of the release
# The tree is unpacked; PyTorch is mounted in it for as long as the check runs.
IN_CLEAN_DEBIAN = """
. "$1/tools/env.sh"; . "$1/tools/apt.sh"; . "$1/tools/chroot.sh"
debian_tree "$2" "$3"
if [ -n "$4" ]; then mkdir -p "$3/opt/torch"; mount --bind "$4" "$3/opt/torch"; torch=/opt/torch; fi
in_chroot "$3" /packages/check.sh /packages ${torch:-}
"""
# By buildah, as `docker build` would: its base is the clean Debian, as no registry may be reached, and its container the tree
# that ptbpf sees, with the pids of this machine.
IN_IMAGE = """
. "$1/tools/env.sh"; . "$1/tools/apt.sh"; . "$1/tools/chroot.sh"
cd "$1"
apt_install buildah
dir=$2 pid=$3 caps=$4
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
b() { buildah --root "$dir/root" --runroot "$dir/run" "$@"; }
mkdir "$dir/base"
debian_tree bookworm "$dir/base"
base=$(b from scratch)
b add --quiet "$base" "$dir/base" /
b commit --quiet "$base" docker.io/library/debian:bookworm-slim
b bud --pull-never --network host -t image -f tools/deploy/Dockerfile build-package/bookworm
tree=$(b mount "$(b from --pull-never image)")
in_chroot "$tree" setpriv --no-new-privs --bounding-set "$caps" ptbpf sample --pid "$pid" --dir /var/lib/ptbpf \\
	--schedule active=300ms,repeat=1
cat "$tree/var/lib/ptbpf/windows.jsonl"
"""


def torch_for(release):
    """A folder with the newest wheel that the release's own Python can load, or nothing."""
    folders = (f"{ENVS}/torch-{torch_versions()['MAIN']}/lib/python3*/site-packages", f"{ENVS}/chroot-*/opt/torch")
    found = [p for folder in folders for p in glob.glob(f"{folder}/torch/_C.cpython-{PYTHONS[release]}-*.so")]
    return os.path.dirname(os.path.dirname(found[0])) if found else ""


@functools.lru_cache
def build(release):
    """Once for all tests. The folder that has the packages."""
    done = subprocess.run([ROOT + "/tools/package.sh", release], capture_output=True, text=True)
    check(done.returncode == 0, f"tools/package.sh failed\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return f"{ROOT}/build-package/{release}"


@pytest.fixture
def packages(release):
    return build(release)


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


@pytest.mark.soak
@pytest.mark.parametrize("release", ["bookworm"])
def test_image(packages, tree, spin):
    """It is built, and what it has records a window of a process outside of it with the rights that the manifest gives it."""
    spin.wait_line("rate")
    with open(ROOT + "/tools/deploy/daemonset.yaml", encoding="utf-8") as f:
        pod = next(doc for doc in yaml.safe_load_all(f) if doc["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    caps = bounding_set(pod["containers"][0]["securityContext"]["capabilities"]["add"])
    done = subprocess.run(["unshare", "--mount", "bash", "-ec", IN_IMAGE, "bash", ROOT, tree, str(spin.pid), caps],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, f"the image failed\n{done.stdout[-6000:]}")
    window = json.loads(done.stdout.splitlines()[-1])
    check(window["exit"] == 0 and window["slices"] > 50, f"window: {window}")
