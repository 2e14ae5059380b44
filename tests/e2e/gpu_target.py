# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What tests with the mock device of tests/mock_cuda share: its path, and access to the GPU events of a trace."""

import collections
import os
import subprocess
import sys

from support import AGENT, BUILD, ROOT, Skip, check, load_trace, require_root, slices

MOCK = os.path.join(BUILD, "tests", "mock_cuda")
WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


def need(agent=True):
    require_root()
    for path in (os.path.join(MOCK, "libcupti.so.12"), *([AGENT] if agent else [])):
        if not os.path.exists(path):
            raise Skip(f"not built: {path}")


class GpuTrace:
    def __init__(self, path):
        self.path, self.trace = path, load_trace(path)
        self.events = self.trace["traceEvents"]
        self.ops = {e["args"]["External id"]: e for e in slices(self.trace)}

    def work(self):
        return sorted((e for e in self.events if e.get("ph") == "X" and e.get("cat") in WORK), key=lambda e: (e["ts"], e["args"]["correlation"]))

    def calls(self, *cats):
        cats = cats or ("cuda_runtime",)
        return sorted((e for e in self.events if e.get("ph") == "X" and e.get("cat") in cats), key=lambda e: e["ts"])

    def agents(self):
        return self.trace["ptbpf"].get("agents", [])


def same_flows(run):
    ends = collections.defaultdict(list)
    for e in run.events:
        if e.get("cat") == "ac2g":
            ends[e["id"]].append(e)
    on_work = collections.Counter(e["args"]["correlation"] for e in run.work())
    check(set(on_work) <= set(ends), f"work without an arrow: {sorted(set(on_work) - set(ends))[:5]}")
    for flow, both in ends.items():
        check([e["ph"] for e in both].count("s") == 1 and any(e["ph"] == "f" for e in both), f"arrow {flow} has {[e['ph'] for e in both]}")
    return len(ends)


def valid(path):
    """Runs tools/validate_trace.py with this Python: its schemas need a package that the leg's Python may lack."""
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "validate_trace.py"), path], capture_output=True, text=True)
    check(done.returncode == 0, f"validate_trace.py: {(done.stderr or done.stdout)[:1500]}")
