#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The plan's schemas must be torch's own texts, for every operator it knows.

  test_schemas.py --helper PATH        every torch under $PTBPF_ENV_DIR and the system's; 77 when there is none
  test_schemas.py --helper PATH --here this interpreter's torch

The plan has them from the texts in the library's read-only data; torch prints its registered FunctionSchema.
"""

import argparse
import glob
import os
import subprocess
import sys

SKIP = 77
NO_TORCH = 78
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
    try:
        import torch
    except ImportError:
        sys.exit(NO_TORCH)
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


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--helper", required=True)
    ap.add_argument("--here", action="store_true")
    args = ap.parse_args()
    if args.here:
        check_here(args.helper)
    root = os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs")
    envs = sorted(glob.glob(os.path.join(root, "torch-*", "bin", "python"))) + ["/usr/bin/python3"]
    codes = {e: subprocess.run([e, os.path.abspath(__file__), "--helper", os.path.abspath(args.helper), "--here"]).returncode
             for e in envs if os.path.exists(e)}
    failed = [e for e, code in codes.items() if code not in (0, NO_TORCH)]
    if failed:
        sys.exit(f"FAIL with {', '.join(failed)}")
    if 0 not in codes.values():
        print("SKIP: no torch under $PTBPF_ENV_DIR, nor the system's")
        sys.exit(SKIP)


if __name__ == "__main__":
    main()
