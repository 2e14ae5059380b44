# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The plan's schemas must be torch's own texts, for every operator it knows.

  same_schemas.py HELPER     this interpreter's torch; test_functions.py runs it in each environment

The plan has them from the texts in the library's read-only data; torch prints its registered FunctionSchema.
"""

import os
import subprocess
import sys

LIBS = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")


def mapped():
    """Paths of the torch libraries of this process."""
    found = {}
    with open("/proc/self/maps") as f:
        for line in f:
            path = line.split(maxsplit=5)[-1].strip()
            for lib in LIBS:
                if os.path.basename(path).startswith(lib):
                    found[lib] = path
    return [found[lib] for lib in LIBS]


def check_here(helper):
    import torch
    out = subprocess.run([helper, *mapped()], stdout=subprocess.PIPE, check=True, text=True).stdout
    ours = {line.split("(")[0]: line for line in out.splitlines()}
    theirs = {s.name + ("." + s.overload_name if s.overload_name else ""): str(s)
              for s in torch._C._jit_get_all_schemas()}
    missing = [name for name in ours if name not in theirs]
    differ = [(ours[n], theirs[n]) for n in ours if n in theirs and ours[n] != theirs[n]]
    for mine, text in differ:
        print(f"torch: {text}\nplan:  {mine}")
    for name in missing:
        print(f"torch does not know {name}")
    print(f"torch {torch.__version__}: {len(ours)} operators, {len(differ)} differ, {len(missing)} unknown to torch")
    sys.exit(bool(differ or missing or len(ours) < 2000))


if __name__ == "__main__":
    check_here(sys.argv[1])
