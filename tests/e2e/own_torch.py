# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""PyTorch in files that no other process on the machine has mapped: probes are shared by all processes of a library or by none."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from support import PYTHON, Skip

COPIED = "libtorch_cpu.so", "libtorch_python.so", "libc10.so"


@contextlib.contextmanager
def own_torch():
    """Variables for processes that load a copy of the libraries that are probed; all else of the package is links."""
    found = subprocess.run([PYTHON, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True)
    package = found.stdout.strip()
    if not os.path.exists(f"{package}/lib/{COPIED[0]}"):
        raise Skip(f"{package} has no lib/{COPIED[0]}")
    tree = tempfile.mkdtemp(prefix="ptbpf-torch-", dir="/var/tmp")
    try:
        os.makedirs(f"{tree}/torch/lib")
        for name in os.listdir(package):
            if name != "lib":
                os.symlink(f"{package}/{name}", f"{tree}/torch/{name}")
        for name in os.listdir(package + "/lib"):
            (shutil.copyfile if name in COPIED else os.symlink)(f"{package}/lib/{name}", f"{tree}/torch/lib/{name}")
        if os.path.isdir(package + "/../nvidia"):
            os.symlink(os.path.realpath(package + "/../nvidia"), tree + "/nvidia")
        yield {"PYTHONPATH": tree}
    finally:
        shutil.rmtree(tree, ignore_errors=True)
