# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The library file of a running process was renamed, or deleted by an upgrade."""

import os
import re
import shutil
import subprocess

from support import PYTHON, Skip, check, load_trace, run_ptbpf, slices, workload


def libraries():
    """(path of libtorch_cpu, directories of all libraries that torch maps)"""
    code = "import torch; print(open('/proc/self/maps').read())"
    maps = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout
    paths = sorted(set(re.findall(r"(/\S+\.so[.0-9]*)$", maps, re.M)))
    cpu = [p for p in paths if os.path.basename(p).startswith("libtorch_cpu")]
    check(len(cpu) == 1, f"libtorch_cpu is mapped from {cpu}")
    return cpu[0], sorted({os.path.dirname(p) for p in paths if "torch" in p or "nvidia" in p})


def started_with_copy(ws, name):
    """spin.py with a copy of libtorch_cpu under another name; the copy's soname satisfies the loader."""
    cpu, dirs = libraries()
    if shutil.disk_usage(ws).free < 3 * os.path.getsize(cpu):
        raise Skip("not enough disk for a copy of libtorch_cpu")
    copy = os.path.join(ws, name)
    shutil.copy(cpu, copy)
    return copy, workload("spin.py", env={"LD_PRELOAD": copy, "LD_LIBRARY_PATH": ":".join(dirs)})


def mapped(pid, copy):
    with open(f"/proc/{pid}/maps") as f:
        text = f.read()
    return copy in text and "libtorch_cpu.so" not in text.replace(copy, "")


def traced(p, ws):
    run_ptbpf("attach", "--pid", p.pid, "-d", "700ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json")
    check(len(slices(load_trace(ws + "/a.json"), "aten::neg")) > 1000, "no operators")
    check(p.alive(), "the target died")


def test_renamed_copy(ws):
    copy, proc = started_with_copy(ws, "libtorch_cpu-0123abcd.so")
    with proc as p:
        p.wait_line("rate")
        check(mapped(p.pid, copy), "the copy is not what the target runs")
        traced(p, ws)


def test_deleted(ws):
    copy, proc = started_with_copy(ws, "libtorch_cpu.so")
    with proc as p:
        p.wait_line("rate")
        os.unlink(copy)
        with open(f"/proc/{p.pid}/maps") as f:
            check("libtorch_cpu.so (deleted)" in f.read(), "the library is not deleted")
        traced(p, ws)
