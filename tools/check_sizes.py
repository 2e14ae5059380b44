# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""600 lines a file, 60 lines a function; who needs more is listed here with the reason."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE_LINES, FUNCTION_LINES = 600, 60
LONG_FILES = {
    "bpf/vmlinux.h": "generated",
}
LONG_FUNCTIONS = {}
SOURCES = (".c", ".h", ".cc", ".py", ".sh")


def tracked():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                         text=True, check=True).stdout.split("\n")
    return [p for p in out if p.endswith(SOURCES) and os.path.exists(os.path.join(ROOT, p))]


def functions(lines):
    """(name, length) of C functions: from a line that begins a definition to the closing brace in column 1."""
    start = name = None
    for i, line in enumerate(lines):
        if line == "{" and start is None:
            k = i - 1
            while k > 0 and (lines[k].startswith(("\t", " ")) or not re.match(r"\w", lines[k])):
                k -= 1
            m = re.search(r"(\w+)\s*\(", lines[k])
            start, name = k, m[1] if m else "?"
        elif line == "}" and start is not None:
            yield name, i - start + 1
            start = None


def main():
    found, used = [], set()
    for path in tracked():
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
            lines = f.read().split("\n")
        if len(lines) > FILE_LINES + 1:
            if path in LONG_FILES:
                used.add(path)
            else:
                found.append(f"{path}: {len(lines) - 1} lines")
        if path.endswith((".c", ".cc")):
            for name, size in functions(lines):
                if size > FUNCTION_LINES:
                    if f"{path}:{name}" in LONG_FUNCTIONS:
                        used.add(f"{path}:{name}")
                    else:
                        found.append(f"{path}: {name}() has {size} lines")
    for entry in (set(LONG_FILES) | set(LONG_FUNCTIONS)) - used:
        if os.path.exists(os.path.join(ROOT, entry.split(":")[0])):
            found.append(f"{entry}: listed as an exception but within the limits")
    for line in found:
        print("    " + line)
    print(f"FAIL check.sizes: {len(found)} over the limits" if found else "PASS check.sizes")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
