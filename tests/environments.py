# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The PyTorch environments of tools/setup.sh, by the name that tests, markers and `pytest --env` use."""

import os

import support

NAMES = ("main", "old", "distribution", "chroot-trixie", "chroot-unstable")


class Environment:
    """name: as in results; python: its interpreter, inside of chroot if that is not None."""

    def __init__(self, name, python, chroot=None):
        self.name, self.python, self.chroot = name, python, chroot

    def why_not(self):
        """The reason why it does not exist on this machine, or None."""
        try:
            with open(os.path.join(support.ENVS, self.name + ".why"), encoding="utf-8") as f:
                return f.readline().strip()
        except OSError:
            pass
        path = self.chroot or self.python
        return None if os.path.exists(path) else f"{path} does not exist: tools/setup.sh legs"


def get(which):
    versions = support.torch_versions()
    if which in ("main", "old"):
        version = versions[which.upper()]
        return Environment(f"torch-{version}", support.venv_python(version))
    if which == "distribution":
        return Environment(which, "/usr/bin/python3")
    return Environment(which, "leg-python", os.path.join(support.ENVS, which))
