# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Documents against the program and the tree: every option and command in README.md or docs/ exists, in the shown command;
every path and link exists; README.md is short and links to all of docs/.

  check_docs.py PTBPF
"""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = ("ps", "attach", "record", "sample", "trigger", "status", "report", "why", "diff", "export", "dump", "top", "doctor")
README_LINES = 150
USER_DOCS = ["README.md", *sorted(os.path.relpath(p, ROOT) for p in glob.glob(ROOT + "/docs/*.md"))]
ALL_DOCS = [*USER_DOCS, "HACKING.md", "tests/README.md", "schemas/README.md"]
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*[a-z0-9]|-[a-z])(?![\w-])")
COMMON = {"--help", "-h"}
GLOBAL = {"--help", "-h", "--version", "-V"}


def options_of(ptbpf, command):
    """With "--no-x" for switches."""
    text = subprocess.run([ptbpf, command, "--help"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\s+(?:(-\w),)?\s*(--[a-z][a-z0-9-]+)(.*)$", text, re.M)
    return {o for letter, name, rest in rows for o in (letter, name, *re.findall(r"--no-[a-z-]+", rest)) if o} | COMMON


def code_of(text):
    """Lines of code blocks, and spans of code in other lines."""
    blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```\n.*?^```", "", text, flags=re.M | re.S))
    return [line for block in blocks for line in block.splitlines()], spans


def option_problems(name, text, have):
    """A shown command has its own options; a span that begins with an option has one of some command."""
    lines, spans = code_of(text)
    out = []
    for code in lines + spans:
        m = re.search(r"(?:^|sudo |/)ptbpf ([a-z]\w*)([^#]*)", code)
        if m and m[1] not in COMMANDS:
            out.append(f"{name} shows 'ptbpf {m[1]}', which is no command")
        elif m:
            words = m[2].split(" -- ")[0]
            out += [f"{name}: {o} is no option of ptbpf {m[1]}" for o in OPTION.findall(words) if o not in have[m[1]]]
    everywhere = set.union(*have.values()) | GLOBAL
    return out + [f"{name} names {o}, which ptbpf does not have" for span in spans if span.startswith("-")
                  for o in OPTION.findall(span) if o not in everywhere]


def path_problems(name, text):
    refs = set(re.findall(r"`((?:tests|tools|user|bpf|schemas|cupti_agent|docs)/[\w./-]+)`", text))
    parts = "|".join(sorted(os.listdir(os.path.join(ROOT, "user"))))
    refs |= {f"user/{r}" for r in re.findall(rf"`((?:{parts})/[\w./-]+)`", text)}
    base = os.path.dirname(os.path.join(ROOT, name))
    links = {m for m in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if not m.startswith("http")}
    return ([f"{name} names {r}, which does not exist" for r in sorted(refs)
             if not os.path.exists(os.path.join(ROOT, r.rstrip(".")))] +
            [f"{name} links to {r}, which does not exist" for r in sorted(links) if not os.path.exists(os.path.join(base, r))])


def readme_problems(text):
    out = [f"README.md does not link to {d}" for d in USER_DOCS[1:] if f"({d})" not in text]
    if len(text.splitlines()) > README_LINES:
        out.append(f"README.md has {len(text.splitlines())} lines, more than {README_LINES}")
    return out


def main():
    have = {c: options_of(sys.argv[1], c) for c in COMMANDS}
    found = []
    for name in ALL_DOCS:
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        found += path_problems(name, text)
        if name in USER_DOCS:
            found += option_problems(name, text, have)
        if name == "README.md":
            found += readme_problems(text)
    for line in found:
        print("    " + line)
    print(f"FAIL check.docs: {len(found)} contradictions" if found else "PASS check.docs")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
