# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Man pages and completions: installed, well-formed, complete, and usable in their shells. The commands of README.md: they run."""

import os
import re
import shlex
import subprocess

import pytest

from support import PTBPF, PYTHON, ROOT, WORKLOADS, check, run_ptbpf
from test_ranks import job

COMMANDS = ("ps", "attach", "record", "sample", "trigger", "status", "report", "why", "diff", "export", "top", "dump", "doctor")
BASH = """
. "$1"
compopt() { echo "[$*]"; }
words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _ptbpf; echo "${COMPREPLY[*]}"; }
words ptbpf ''
words ptbpf attach --agent ''
words ptbpf attach --agent = in
words ptbpf attach --kernel-m
words ptbpf export run.ptb -f mem
words ptbpf attach -o ''
words ptbpf report run
words ptbpf record -- pyth
"""
BASH_ANSWERS = ["--help --version ps attach record sample trigger status report why diff export top dump doctor", "auto off inject", "inject", "--kernel-memory",
                "memory memory-raw memory-html memory-snapshot", "[-o default]", "", "[-o default]", "", "[-o default]", ""]
FISH = """
source $argv[1]
for line in 'ptbpf rec' 'ptbpf attach --agent in' 'ptbpf attach --kernel-m' 'ptbpf export run.ptb -f memory-'
    complete -C $line
end
"""
FISH_ANSWERS = ["record", "inject", "--kernel-memory", "memory-html", "memory-raw", "memory-snapshot"]
# completes "ptbpf attach ..." with a replacement of zsh's function that prints the specification of each option
ZSH = """
_arguments() { print -rl -- "$@"; state=argument line=(attach); }
. "$1/_ptbpf"
"""


def install(ws):
    done = subprocess.run(["cmake", "--install", os.path.dirname(PTBPF), "--prefix", ws], capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)


def run(*args):
    done = subprocess.run(args, capture_output=True, text=True, timeout=180, env=dict(os.environ, TERM="dumb", PATH=f"{os.path.dirname(PTBPF)}:{os.environ['PATH']}"))
    check(done.returncode == 0 and not done.stderr, f"{args[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


@pytest.mark.unprivileged
def test_man_pages(ws):
    install(ws)
    pages = {f"ptbpf{'-' + c if c else ''}": c for c in ("", *COMMANDS)}
    for page, command in pages.items():
        path = f"{ws}/share/man/man1/{page}.1"
        lint = subprocess.run(["mandoc", "-T", "lint", path], capture_output=True, text=True).stdout
        # searches the system's pages only; ptbpf's own are checked below. ptbpf is no part of an operating system, whose name it would have
        lint = [line for line in lint.splitlines() if not re.search("referenced manual not found|system explicitly specified", line)]
        check(not lint, "\n".join(lint))
        with open(path, encoding="utf-8") as f:
            named = set(re.findall(r"\.Xr ([\w-]+) 1", f.read()))
        check(named == set(pages) - {page}, f"{page} names {named}")
        text = re.sub(r"\s+", " ", run("man", "-l", path))
        options = re.findall(r"^.{6}(--[\w-]+)", "\n".join(run_ptbpf(command, "--help").out), re.M) if command else []
        missing = [o for o in options if o not in text]
        check(not missing and (options or not command), f"{page} lacks {missing} of {options}")
        missing = [s for s in ("EXIT STATUS", *(("ENVIRONMENT", "FILES", "SIGNALS", "READING THE TABLE") if command in ("", "attach") else ()))
                   if s not in text]
        check(not missing and "BSD" not in text, f"{page} lacks {missing}, or is of another project")


@pytest.mark.unprivileged
def test_completions(ws):
    install(ws)
    got = run("bash", "-c", BASH, "bash", ws + "/share/bash-completion/completions/ptbpf").splitlines()
    check(got == BASH_ANSWERS, f"bash: {got}")
    got = run("fish", "-c", FISH, ws + "/share/fish/vendor_completions.d/ptbpf.fish").splitlines()
    check([line.split("\t")[0] for line in got] == FISH_ANSWERS, f"fish: {got}")
    got = run("zsh", "-f", "-c", ZSH, "zsh", ws + "/share/zsh/site-functions").splitlines()
    for begin, end in (("--agent[", ":MODE:(auto off inject)"), ("*--pid[", ":PID[,PID...]:_ptbpf_pids"),
                       ("(-o --output)--output[", ":FILE:_files"), ("--kernel-memory[", "]")):
        check(any(line.startswith(begin) and line.endswith(end) for line in got), f"zsh: no {begin} in {got}")


@pytest.mark.unprivileged
def test_unknown():
    done = run_ptbpf("--print-docs", "tcsh", expect=2)
    check("none of" in done.text(), done.text())


def readme_commands():
    """Words of each command of ptbpf, without the name, in the order of the text."""
    with open(ROOT + "/README.md", encoding="utf-8") as f:
        shown = re.findall(r"^(?:sudo )?ptbpf ([^#\n]+)|`(?:sudo )?ptbpf ([^`]+)`", f.read(), re.M)
    return dict.fromkeys(a.strip() or b for a, b in shown if "COMMAND" not in b)


def test_readme_commands(ws):
    """As shown, but for the pids, a directory, shorter windows, one window of a schedule, one interval of a live view, and no job of others."""
    with job(ws, 2) as (first, second):
        here = {"^top": "top --once", "4242": first, "4243": second, r"-d \d+s": "-d 2s", "--all-torch": f"--pid {first}", "wait=10m": "wait=1s,repeat=1", "/var/lib/ptbpf": ws + "/windows",
                "python train.py": f"{PYTHON} {WORKLOADS}/train_loop.py 20"}
        subprocess.run(["tar", "xf", ROOT + "/tests/golden/captures.tar.xz", "-C", ws, "gpu.ptb"], check=True)
        commands = list(readme_commands())
        check(len(commands) > 10, str(commands))
        for command in commands:
            for word, actual in here.items():
                command = re.sub(word, str(actual), command)
            run_ptbpf(*shlex.split(command), cwd=ws, expect=(0, 3))  # 3: a machine too busy to record all
