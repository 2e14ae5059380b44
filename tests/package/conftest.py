# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Fixtures of packages' tests."""

import subprocess
import tempfile

import pytest


@pytest.fixture
def tree():
    """An empty folder outside of /tmp, which may be small."""
    path = tempfile.mkdtemp(prefix="ptbpf-package-", dir="/var/tmp")
    yield path
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)
