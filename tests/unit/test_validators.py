# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The validators of tools/ accept the exporters' output, and find falsifications (falsify.py)."""

import os
import subprocess
import sys

import pytest

from support import PTBPF, check

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.abspath(os.path.join(HERE, "..", "cases", "run.py"))
TESTS = os.path.join(os.path.dirname(os.path.abspath(PTBPF)), "tests")


@pytest.mark.parametrize("program, helper", [("trace", "fake_trace"), ("et", "fake_et"), ("gpu", CASES)])
def test_falsifications(program, helper, detail):
    done = subprocess.run([sys.executable, os.path.join(HERE, f"falsify_{program}.py"), os.path.join(TESTS, helper)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, "PTBPF": PTBPF})
    check(done.returncode == 0, done.stdout[-6000:])
    detail(done.stdout.strip().splitlines()[-1])
