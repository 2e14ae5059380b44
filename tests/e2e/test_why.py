# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `ptbpf why` says of running programs with one problem, and of one without."""

import json
import os
import subprocess
import sys

import pytest

from support import ROOT, check, require_root, run_ptbpf, workload


@pytest.mark.parametrize("program, rule", (("slow_loader", "data_loader"), ("item", "synchronisation"), ("steps", None)))
def test_first_cause(ws, program, rule):
    """The live form names the cause first; the capture that it keeps has the same verdict."""
    require_root()
    with workload("planted.py", program) as p:
        p.wait_line("ready")
        live = "\n".join(run_ptbpf("why", "--pid", p.pid, "-d", "3s", "-o", ws + "/a.ptb", "--json").out)
    doc = json.loads(live)
    with open(ws + "/why.json", "w", encoding="utf-8") as f:
        f.write(live)
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), ws + "/why.json"], check=True)
    causes = [c["rule"] for c in doc["causes"]]
    check(causes[:1] == ([rule] if rule else []), f"{program}: {doc['causes']}")
    later = json.loads("\n".join(run_ptbpf("why", ws + "/a.ptb", "--json").out))
    check(later["causes"] == doc["causes"], "the capture has another verdict")
