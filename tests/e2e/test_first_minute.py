# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the first command says of a program with one problem, and that it fits the terminal."""

import os
import re
import signal
import subprocess
import time
import unicodedata

import pytest

from support import BUILD, PYTHON, WORKLOADS, Process, Tracer, check, require_root, run_ptbpf, wait_for

PLANTED = os.path.join(WORKLOADS, "planted.py")


def line_of(what):
    with open(PLANTED, encoding="utf-8") as f:
        return next(n for n, text in enumerate(f, 1) if text.rstrip().endswith("LINE OF THE " + what))


def planted(problem):
    require_root()
    p = Process([PYTHON, "-u", PLANTED, problem])
    return p


def said(p, ws, *options, expect=0, seconds="3s"):
    t = run_ptbpf("attach", "--pid", p.pid, "-d", seconds, "-o", ws + "/a.ptb", *options, expect=expect)
    return t.text()


# The first command, and what it must say; {pid} and lines of the program are filled in.
PROBLEMS = {
    "slow_loader": ((), r"! data loader \d\d%.*\n +next: sudo ptbpf attach --pid {pid} --children -d 5s --sample-stacks 99"),
    "tensor_leak": (("--profile-memory", "--with-stack"), r"! GROWS aten::(mul|ones|fill_|empty)\S*( > \S+)? at planted.py:{leak}, \+64.0 KiB a step"),
    "python_leak": (("--profile-memory",), r"! GROWS the process by \+.* a step, not PyTorch's tensors: Python objects or a library"),
    "slow_rank": (("--children",), r"! rank 1 is late by .* a step \(\d\d%\).*\n +next: "),
    "item": ((), r"! item\(\) .* k times a second: .*\n +next: sudo ptbpf attach --pid {pid} -d 5s --with-stack"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problem(ws, problem, detail):
    """The program's problem stands above the table, with the next command."""
    options, pattern = PROBLEMS[problem]
    with planted(problem) as p:
        p.wait_line("ready")
        text = said(p, ws, *options)
    check(re.search(pattern.format(pid=p.pid, leak=line_of("LEAK")), text), text)
    detail(next(line for line in text.splitlines() if " ! " in line))


def test_lines(ws):
    """--by line has the wait for the data loader at the line of its loop, as a share of the window."""
    with planted("slow_loader") as p:
        p.wait_line("ready")
        said(p, ws, "--with-stack")
    text = run_ptbpf("report", ws + "/a.ptb", "--by", "line").text()
    row = re.search(r"^ +\S+ m?s +(\S+) %.*planted.py:(\d+) \(data loader\)$", text, re.M)
    check(row and int(row[2]) == line_of("LOOP") and float(row[1]) > 50, text)
    check("(Python, outside operators)" in text, text)


def test_nothing(ws):
    """Of a launcher its children are named; of a server that waits the states of its threads. Incomplete: exit code 3."""
    with planted("launcher") as p:
        child = p.wait_line(r"child (\d+)")[1]
        wait_for(lambda: "libtorch_cpu" in open(f"/proc/{child}/maps").read(), "the child to load torch")
        text = said(p, ws, expect=3, seconds="500ms")
        check(f"child {child} of pid {p.pid} runs PyTorch: use --children, or --pid {child}" in text, text)
        os.kill(int(child), signal.SIGKILL)
    with planted("idle") as p:
        p.wait_line("ready")
        text = said(p, ws, expect=3, seconds="500ms")
        check("no operator ran in these 0.5" in text and f"pid {p.pid}: of its " in text, text)


def test_dies(ws):
    """A process that is killed in the window: the summary says when and how."""
    with planted("slow_loader") as p:
        p.wait_line("ready")
        with Tracer("attach", "--pid", p.pid, "-d", "300s", "-o", ws + "/a.ptb") as t:
            t.wait_attached()
            p.wait_news("^batch$", 2)
            p.signal(signal.SIGKILL)
            t.expect(0)
    check(re.search(r"the process ended after \d+\.\d of 300 s \(SIGKILL\)", t.text()), t.text())


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@pytest.mark.parametrize("columns", [80, 120])
def test_terminal(ws, columns, detail):
    """In tmux: a line of progress, the block, the table and the summary; no line is wrapped by the terminal."""
    name = f"ptbpf-test-{os.getpid()}-{columns}"

    def tmux(*words):
        return subprocess.run(["tmux", "-L", name, *words], stdout=subprocess.PIPE, check=False, text=True).stdout

    with planted("slow_loader") as p:
        p.wait_line("ready")
        command = f"trap true INT; cd {ws} && {BUILD}/ptbpf attach --pid {p.pid} -d 300s -o a.ptb; echo the end $?; sleep 1000"
        tmux("new-session", "-d", "-x", str(columns), "-y", "60", "sh", "-c", command)
        try:
            wait_for(lambda: re.search(r"planted.py \(\d+\): \d+ of 300 s, .* records", tmux("capture-pane", "-p")), "a line of progress")
            p.wait_news("^batch$", 3)
            tmux("send-keys", "C-c")
            wait_for(lambda: "the end 0" in tmux("capture-pane", "-p"), "the end")
            shown, joined = tmux("capture-pane", "-p"), tmux("capture-pane", "-p", "-J")
            coloured = tmux("capture-pane", "-p", "-e")
        finally:
            tmux("kill-server")
    check(shown.split() == joined.split() and len(shown.splitlines()) == len(joined.splitlines()), f"a line is wrapped\n{shown}")
    check(max(width(line) for line in shown.splitlines()) <= columns, shown)
    head = next(line for line in shown.splitlines() if line.startswith("Name"))
    check(head.split()[:2] == ["Name", "Self"] and head.endswith("Calls") and "CPU total" in head, head)
    check(re.search("(data loader [0-9.]+%)", shown) and " records," not in shown, shown)
    check("\x1b[" in coloured, "no colours")
    detail(head)
