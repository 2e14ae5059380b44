# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory timelines of torch, and a process that does the same work for ptbpf."""

import gzip
import json
import os
import shutil
import subprocess
import tempfile

from support import PYTHON, WORKLOADS, CommandTarget, Skip, check, require_root, run_ptbpf


def read(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return json.load(f)


class TruthTarget(CommandTarget):
    """torch's process, which has written the raw timelines of all kinds of work and ended, and ptbpf's, which waits for one. env: torch's."""

    def __init__(self, script, env=None):
        require_root()
        script = os.path.join(WORKLOADS, script)
        self.folder = tempfile.mkdtemp(prefix="ptbpf-test-")
        truth = subprocess.run([PYTHON, script, "--torch", self.folder], capture_output=True, text=True, timeout=300,
                               env=dict(os.environ, KINETO_LOG_LEVEL="99", **(env or {})))
        if "No module named 'torch'" in truth.stderr:
            raise Skip("no torch")
        check(truth.returncode == 0, f"torch's own run ended with {truth.returncode}\n{truth.stderr}")
        super().__init__([PYTHON, "-u", script])
        self.line("ready")

    def reap(self):
        super().reap()
        shutil.rmtree(self.folder, ignore_errors=True)

    def theirs(self, kind):
        return read(os.path.join(self.folder, kind + ".raw.json.gz"))

    def ours(self, capture):
        """The same of a capture, and what ptbpf prints then."""
        raw = capture + ".raw.json.gz"
        done = run_ptbpf("export", capture, "--format", "memory-raw", "-o", raw)
        return read(raw), done.text()
