# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's and ptbpf's CUPTI layouts against the real headers and libraries on this machine: offsets and numbers, the mock's
record sizes, exported functions, and where CUPTI stores the pair of buffer functions.

Headers are searched for in CUDA toolkits and Python environments; `PYTHONPATH=tests python3 tests/unit/test_cupti_layout.py`
downloads wheels of old versions from the package index, once, into the environments' folder."""
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

import pytest

from support import PTBPF, check

TESTS = os.path.join(os.path.dirname(os.path.abspath(PTBPF)), "tests")
MOCK = os.path.join(TESTS, "mock_cuda", "libcupti.so.12")
SLOT_CHECK = os.path.join(TESTS, "cupti_slot_check")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ENVS = os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs")
WHEELS = ["nvidia-cuda-cupti-cu11==11.8.87", "nvidia-cuda-cupti-cu12==12.1.105", "nvidia-cuda-cupti-cu12==12.8.90"]
RECORDS = {"KERNEL": r"Kernel\d+", "MEMCPY": r"Memcpy\d+", "PEER": r"MemcpyPtoP\d+", "MEMSET": r"Memset\d+",
           "API": "API", "OVERHEAD": r"Overhead\d*", "SYNC": r"Synchronization\d*", "EVENT": r"CudaEvent\d*"}


def fetch():
    for wheel in WHEELS:
        into = os.path.join(ENVS, "cupti", wheel.split("==")[1])
        if os.path.isdir(into):
            continue
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-I", "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d",
                            folder, "--platform", "manylinux1_x86_64", "--platform", "manylinux2014_x86_64",
                            "--platform", "manylinux_2_17_x86_64", wheel], check=False, timeout=300)
            for path in glob.glob(folder + "/*.whl"):
                subprocess.run([sys.executable, "-m", "zipfile", "-e", path, into], check=True)


AMBIGUOUS = {18}  # 12.0 and 12.1 have the same version, but longer records


def folders(file):
    patterns = ["/usr/local/cuda*/include", "/usr/local/cuda*/extras/CUPTI/include",
                ENVS + "/*/lib/python3*/site-packages/nvidia/*/include",
                ENVS + "/*/lib/python3*/site-packages/triton/backends/nvidia/include",
                ENVS + "/cupti/*/nvidia/cuda_cupti/include"]
    found = {}
    for pattern in patterns:
        for folder in sorted(glob.glob(pattern)):
            if os.path.exists(os.path.join(folder, file)):
                found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


def newest(text, pattern):
    names = re.findall(r"}\s*(CUpti_Activity(?:" + pattern + "));", text)
    return max(names, key=lambda n: int(re.search(r"\d*$", n).group() or 1), default=None)


def defines(folder):
    text = open(os.path.join(folder, "cupti_activity.h"), encoding="utf-8", errors="replace").read()
    real = {record: newest(text, pattern) for record, pattern in RECORDS.items()}
    assert all(real.values()), f"{folder}: {real}"
    out = [f"-DREAL_{record}={name}" for record, name in real.items()]
    if int(re.search(r"\d+$", real["KERNEL"]).group()) >= 11:
        out.append("-DHAS_KERNEL11")
    if real["EVENT"] != "CUpti_ActivityCudaEvent":
        out.append("-DHAS_EVENT2")
    return out


def check_headers(folder, cuda, mock):
    """0, or a list of problems."""
    with tempfile.TemporaryDirectory() as tmp:
        program = os.path.join(tmp, "check")
        run = subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-w", "-o", program, "-I", folder, "-I", cuda, "-I",
                              os.path.join(ROOT, "cupti_agent"), "-I", os.path.join(ROOT, "user"), "-I",
                              os.path.join(ROOT, "bpf"), *defines(folder),
                              os.path.join(HERE, "cupti_layout_check.c")], capture_output=True, text=True)
        if run.returncode:
            return run.stderr[:2000]
        lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    version = int(lines[0].split()[1])
    print(f"  version {version}: {folder}")
    for line in lines[1:]:
        kind, size, needs = (int(word) for word in line.split())
        if needs > size:
            return f"{folder}: kind {kind}: {size} bytes, {needs} are wanted"
        if version not in AMBIGUOUS and mock.mock_cupti_size(version, kind) != size:
            return f"{folder}: kind {kind}: {size} bytes, the mock's has {mock.mock_cupti_size(version, kind)}"
    return None


def libraries(include_folders):
    found = {}
    for folder in include_folders:
        for path in sorted(glob.glob(os.path.dirname(folder) + "/lib*/libcupti.so.1[1-3]*")):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def functions():
    text = open(os.path.join(ROOT, "cupti_agent", "cupti_api.h"), encoding="utf-8").read()
    text = text[text.index("#define CUPTI_FUNCTIONS"):]
    return re.findall(r'X\(\w+, "(\w+)",.*?, ([01])\)', text.replace("\\\n", " "))


def check_library(path, slot_check):
    names = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[2].split("@")[0] for line in names.splitlines() if len(line.split()) == 3}
    missing = [name for name, needed in functions() if needed == "1" and name not in exported]
    if missing:
        return f"{path}: does not export {missing}"
    run = subprocess.run([slot_check, path], capture_output=True, text=True, timeout=60)
    if run.returncode < 0 and "cuptiSubscribe_v2" in exported:
        print(f"  {path}: crashes without a driver; where it keeps the pair is not looked at")
        return None
    print(f"  {path}: {run.stdout.splitlines()}")
    return f"{path}: the pair is not found ({run.returncode})" if run.returncode else None


def test_layouts(detail):
    cupti, cuda = folders("cupti_activity.h"), folders("cuda.h")
    if not cupti or not cuda:
        pytest.skip(f"no CUPTI headers in a CUDA toolkit or in {ENVS}")
    mock = ctypes.CDLL(MOCK)
    mock.mock_cupti_size.restype = ctypes.c_size_t
    assert len(functions()) >= 17, functions()
    wrong = [check_headers(folder, folder if folder in cuda else cuda[0], mock) for folder in cupti]
    wrong += [check_library(path, SLOT_CHECK) for path in libraries(cupti)]
    check(not any(wrong), "\n".join(filter(None, wrong)))
    detail(f"{len(cupti)} folders of headers, {len(libraries(cupti))} libraries")


if __name__ == "__main__":
    fetch()
