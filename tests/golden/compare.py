#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares every report and export of the golden captures (make.py) with what they were.

  compare.py                    against the hashes in outputs.txt; names what has changed
  compare.py --against PTBPF    with the differences to another program, in the capture NAME if one is given
  compare.py --update           writes outputs.txt anew

Each line of outputs.txt is CAPTURE, exit code, hash of what was written, and the command's words after the capture."""

import argparse
import difflib
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUTPUTS = os.path.join(HERE, "outputs.txt")
REPORTS = ["", "--json", "--group-by-input-shape --with-flops --row-limit -1", "--group-by-stack-n 3 --sort-by cpu_time_total", "--exact-memory --no-steps",
           "--by line", "--by line --json", "--by module", "--by module --json", "--by operator", "--by operator --json",
           "--memory", "--memory --json", "--gpu", "--gpu --json", "--skew", "--skew --json"]
VERDICTS = ["", "--json"]
DIFFS = ["steps.ptb", "steps.ptb --json"]
EXPORTS = ["chrome", "chrome --no-steps --overload-names", "perfetto", "et", "memory", "memory-raw", "memory-html", "memory-snapshot", "stacks", "pprof", "speedscope", "threads", "flamegraph", "html"]
COMMANDS = [("report", words) for words in REPORTS] + [("why", words) for words in VERDICTS] + [("diff", words) for words in DIFFS] + [("export", "--format " + words) for words in EXPORTS]
# What is made of a whole capture: damage that a reader must survive.
DAMAGED = {"cut": lambda d: d[:len(d) // 2], "flipped": lambda d: d[:len(d) // 2] + bytes([d[len(d) // 2] ^ 0x55]) + d[len(d) // 2 + 1:],
           "foreign": lambda d: b"{}\n", "empty": lambda d: b""}


def unpack(folder):
    with tarfile.open(os.path.join(HERE, "captures.tar.xz")) as tar:
        tar.extractall(folder, filter="data")
    with open(f"{folder}/everything.ptb", "rb") as f:
        whole = f.read()
    for name, damage in DAMAGED.items():
        with open(f"{folder}/damaged_{name}.ptb", "wb") as f:
            f.write(damage(whole))


def run(ptbpf, folder, name, command, words):
    """The exit code and all that the command writes: its file, its output, its messages."""
    with tempfile.TemporaryDirectory() as out:
        file = ["-o", out + "/file"] if command == "export" else []
        done = subprocess.run([ptbpf, command, *(n + ".ptb" for n in name.split("+")), *words.split(), *file], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        parts = [done.stdout, done.stderr]
        if os.path.exists(out + "/file"):
            with open(out + "/file", "rb") as f:
                parts.append(f.read())
    # A Chrome trace names its file and has a random id.
    data = b"\n".join(parts).replace(out.encode(), b"")
    return done.returncode, re.sub(rb'("trace_id": ?)"[^"]*"', rb'\1""', data)


def lines(data):
    return data.decode(errors="replace").replace("},", "},\n").splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptbpf", type=os.path.abspath, default=os.environ.get("PTBPF", os.path.join(ROOT, "build", "ptbpf")))
    parser.add_argument("--against", type=os.path.abspath, metavar="PTBPF")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("name", nargs="?", default="", help="only captures whose names begin so")
    opts = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        unpack(folder)
        names = sorted(f[:-len(".ptb")] for f in os.listdir(folder) if f.startswith(opts.name))
        names += [name for name in ("rank0+rank1",) if name.startswith(opts.name)]  # read as one session
        todo = [(name, *command) for name in names for command in COMMANDS]
        found = list(pool.map(lambda t: run(opts.ptbpf, folder, *t), todo))
        got = [f"{t[0]} {code} {hashlib.sha256(data).hexdigest()[:16]} {t[1]} {t[2]}".rstrip() for t, (code, data) in zip(todo, found)]
        if opts.update and not opts.name:
            with open(OUTPUTS, "w", encoding="utf-8") as f:
                f.write("\n".join(got) + "\n")
            return 0
        changed = 0
        if opts.against:
            for t, new, old in zip(todo, found, pool.map(lambda t: run(opts.against, folder, *t), todo)):
                if new != old:
                    changed += 1
                    print(f"=== {' '.join(t)}: exit code {old[0]}, then {new[0]}")
                    print("\n".join(difflib.unified_diff(lines(old[1]), lines(new[1]), "before", "after", lineterm="", n=1)))
        else:
            with open(OUTPUTS, encoding="utf-8") as f:
                want = [line for line in f.read().splitlines() if line.startswith(opts.name)]
            for line in sorted(set(got) ^ set(want), key=lambda w: (w.split()[0], w.split()[3:])):
                changed += line in set(got)
                print(("now " if line in got else "was ") + line)
    print(f"{len(todo)} outputs, {changed} changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
