# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Imported first by every file here: makes tests/harness.py importable."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import *  # noqa: E402,F401,F403
from harness import main  # noqa: E402,F401
