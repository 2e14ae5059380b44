# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""600 lines a file, 60 lines a function, 100 columns a line of C. A file of up to 900 lines gives the reason in its head: "Longer than 600
lines because ...". A text in quotes, a table in a comment and the end of a line of a macro may be wider."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE_LINES, LONG_FILE_LINES, FUNCTION_LINES, COLUMNS = 600, 900, 60, 100
HEAD_LINES, REASON = 30, "Longer than 600 lines because "
GENERATED = {"bpf/vmlinux.h"}
PRODUCT = re.compile(r"(user|bpf|cupti_agent)/.*\.[ch]$")
MAY_BE_WIDE = re.compile(r'"|\\$|^\*.*\S(\t|   ).*\S')
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
            m = re.match(r'TEST\w*\((".*")\)', lines[k]) or re.search(r"(\w+)\s*\(", lines[k])
            start, name = k, m[1] if m else "?"
        elif line == "}" and start is not None:
            yield name, i - start + 1
            start = None


def main():
    found = []
    for path in tracked():
        if path in GENERATED:
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
            lines = f.read().split("\n")
        size, reason = len(lines) - 1, any(REASON in line for line in lines[:HEAD_LINES])
        if size > (LONG_FILE_LINES if reason else FILE_LINES):
            found.append(f"{path}: {size} lines")
        if reason and size <= FILE_LINES and path != "tools/check_sizes.py":
            found.append(f"{path}: its head says why it is long, but it is within the limit")
        if path.endswith((".c", ".cc")):
            found += [f"{path}: {name}() has {size} lines" for name, size in functions(lines) if size > FUNCTION_LINES]
        if PRODUCT.match(path):
            found += [f"{path}:{i}: {len(line.expandtabs(8))} columns" for i, line in enumerate(lines, 1)
                      if len(line.expandtabs(8)) > COLUMNS and not MAY_BE_WIDE.search(line.strip())]
    for line in found:
        print("    " + line)
    print(f"FAIL check.sizes: {len(found)} over the limits" if found else "PASS check.sizes")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
