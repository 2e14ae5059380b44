# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""README against the program: every option that the README names exists, every option is in the README;
every path that a document names exists.

  check_docs.py PTBPF
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = ("attach", "record", "report", "export", "doctor")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
FOREIGN = {"--help", "--version"}  # of ptbpf itself, in no table


def options_of(ptbpf):
    found = {}
    for command in COMMANDS:
        text = subprocess.run([ptbpf, command, "--help"], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            m = re.match(r"\s+(-\w)?,?\s*(--[a-z][a-z0-9-]+)", line)
            if m:
                found.setdefault(m[2], {"letter": m[1], "commands": set()})["commands"].add(command)
    return found


def readme_problems(ptbpf):
    path = os.path.join(ROOT, "README.md")
    if not os.path.exists(path):
        return ["README.md is missing"]
    with open(path, encoding="utf-8") as f:
        text = f.read()
    have = options_of(ptbpf)
    # lines that show ptbpf at work and rows of option tables; other programs' options are in other lines
    lines = [line for line in text.splitlines() if "ptbpf " in line or line.startswith(("| `-", "|`-", "| --"))]
    named = set(OPTION.findall("\n".join(lines))) - FOREIGN
    out = [f"README.md names {o}, which ptbpf does not have" for o in sorted(named - set(have))]
    everywhere = set(OPTION.findall(text)) | {o for o, h in have.items() if h["letter"] and f" {h['letter']} " in text}
    out += [f"{o} ({', '.join(sorted(have[o]['commands']))}) is not in README.md"
            for o in sorted(set(have) - everywhere - FOREIGN)]
    return out


def path_problems():
    out = []
    for name in ("README.md", "HACKING.md", "tests/README.md"):
        path = os.path.join(ROOT, name)
        if not os.path.exists(path):
            out.append(f"{name} is missing")
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for ref in sorted(set(re.findall(r"`((?:tests|tools|user|bpf|schemas|cupti_agent)/[\w./-]+)`", text))):
            if not os.path.exists(os.path.join(ROOT, ref.rstrip("."))):
                out.append(f"{name} names {ref}, which does not exist")
    return out


def main():
    found = readme_problems(sys.argv[1]) + path_problems()
    for line in found:
        print("    " + line)
    print(f"FAIL check.docs: {len(found)} contradictions" if found else "PASS check.docs")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
