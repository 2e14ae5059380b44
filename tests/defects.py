#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Plants defects, one after the other, and shows which of several tests find each: whether a test that replaces others finds as many.

  defects.py [--seed N] [--count N] --build DIR --targets "TARGET..." --files "FILE..." NAME=COMMAND...

A defect is one edit of one line (EDITS), chosen at random, in a tree of its own (git worktree add) that is built in DIR before. Each COMMAND runs
from DIR; what ends with an error, or not within a minute, has found the defect. Defects that do not compile are not counted, but some of the others
change nothing that can be seen.
"""

import argparse
import os
import random
import re
import signal
import subprocess

EDITS = ((r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "), (r" && ", " || "),
         (r" \|\| ", " && "), (r" \+= ", " -= "), (r" \+ ", " - "), (r"\(!", "("), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
         (r"return 0;", "return 1;"), (r" \| ", " & "), (r"\+\+;", ";"), (r"\bcontinue;", "break;"), (r"\? (\w+) : (\w+)", r"? \2 : \1"))


def places(path):
    """(line number, edit) of everything that can be planted in it; comments, declarations and conditions that end the program are left out."""
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f):
            if not re.match(r"\t+\S", line) or re.search(r"^\s*[/*]|\* |const |struct \w+ \w+ =|ENOMEM|pr_|assert|\bfor \(", line):
                continue
            yield from ((number, edit) for edit in EDITS if re.search(edit[0], line))


def plant(path, number, edit):
    """Returns the text before it, and the new line."""
    with open(path, encoding="utf-8") as f:
        old = f.read()
    lines = old.split("\n")
    lines[number] = re.sub(*edit, lines[number], count=1)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    return old, lines[number].strip()


def finds(command, build):
    with subprocess.Popen(command, shell=True, cwd=build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as test:
        try:
            return test.wait(60) != 0
        except subprocess.TimeoutExpired:
            os.killpg(test.pid, signal.SIGKILL)  # what it started, too
            return True


def main():
    parser = argparse.ArgumentParser()
    for option, default in (("--seed", "1"), ("--count", "50"), ("--build", None), ("--targets", None), ("--files", None)):
        parser.add_argument(option, default=default, required=default is None)
    parser.add_argument("tests", nargs="+")
    opts = parser.parse_args()
    tests = dict(t.split("=", 1) for t in opts.tests)
    everywhere = [(path, *place) for path in opts.files.split() for place in places(path)]
    random.Random(int(opts.seed)).shuffle(everywhere)
    found, planted = dict.fromkeys(tests, 0), 0
    for path, number, edit in everywhere:
        if planted == int(opts.count):
            break
        old, line = plant(path, number, edit)
        try:
            if subprocess.run(["make", "-s", "-C", opts.build, "-j2", *opts.targets.split()], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode:
                continue
            planted += 1
            by = [name for name in tests if finds(tests[name], opts.build)]
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(old)
        for name in by:
            found[name] += 1
        print(f"{planted:3} {', '.join(by) or '-':20} {path}:{number + 1}: {line}", flush=True)
    print(f"of {planted} defects " + ", ".join(f"{name} found {n}" for name, n in found.items()))


if __name__ == "__main__":
    main()
