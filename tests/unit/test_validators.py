# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The validators of tools/ accept the exporters' output, and find falsifications (falsify.py)."""

import os
import subprocess
import sys

import pytest

from support import PTBPF, check

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("program", ("trace", "et", "gpu"))
def test_falsifications(program, detail):
    done = subprocess.run([sys.executable, os.path.join(HERE, f"falsify_{program}.py")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, "PTBPF": PTBPF})
    check(done.returncode == 0, done.stdout[-6000:])
    detail(done.stdout.strip().splitlines()[-1])
