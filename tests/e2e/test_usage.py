# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Wrong usage ends with 2 and a sentence on stderr; help ends with 0 on stdout."""

import glob
import json
import os
import re
import subprocess

import pytest

from support import PTBPF, ROOT, case_captures, check, run_ptbpf
from test_docs import COMMANDS

pytestmark = pytest.mark.unprivileged

WRONG = [
    [], ["no-such-command"], ["attach"], ["attach", "--pid"], ["attach", "--pid", "0"], ["attach", "--pid", "-5"],
    ["attach", "--pid", "12x"], ["attach", "--pid", "1,,2"], ["attach", "--pid", "1", "--no-such-option"],
    ["attach", "--pid", "1", "-d", "five"], ["attach", "--pid", "1", "-d", "0"], ["trigger", "-d", "0s"], ["attach", "--pid", "1", "-d", "-5s"], ["attach", "--pid", "1", "-d", "1parsec"],
    ["attach", "--pid", "1", "--ringbuf", "lots"], ["attach", "--pid", "1", "extra"], ["attach", "--pid", "99999999999"],
    ["record"], ["record", "--"], ["report"], ["doctor", "a"], ["report", "a.ptb", "--sort-by", "beauty"],
    ["report", "a.ptb", "--row-limit", "many"], ["export"], ["export", "a.ptb", "--format", "no-such-format"],
    ["attach", "--pid", "1", "-o", "a", "--trace", "a"], ["attach", "--pid", "1", "--et", "a", "--trace", "a"],
    ["attach", "--pid", "1", "--record-shapes=yes"], ["attach", "--pid", "1", "--et"],
    ["export", "a.ptb", "--format", "et", "--pid", "-3"], ["export", "a.ptb", "b.ptb", "--format", "chrome"],
    ["export", "a.ptb", "b.ptb", "--format", "et", "--split-ranks", "x"], ["report", "a.ptb", "b.ptb", "--align", "stars"],
    ["report", "a.ptb", "b.ptb", "--skew", "--gpu"], ["why"], ["diff", "a.ptb"], ["diff", "a.ptb", "b.ptb", "--fail-above", "much"], ["why", "a.ptb", "-d", "1s"], ["why", "a.ptb", "--pid", "1"],
    ["doctor", "--pid", "x"], ["attach", "--pid=1", "--children=yes"],
    ["attach", "--pid=1", "-o", "a.txt"], ["attach", "--pid=1", "-o", "-"], ["attach", "--pid=1", "--trace", "a.txt"], ["record", "--trace", "-", "true"],
    ["attach", "--pid=1", "-o", "a.json", "--trace", "a.json"], ["attach", "--pid=1", "-o", "a.threads.txt"], ["export", "a.ptb", "-o", "-"],
]


def test_wrong_usage():
    bad = []
    for args in WRONG:
        done = run_ptbpf(*args, expect=tuple(range(-64, 256)))
        code = done.proc.returncode
        if code != 2:
            bad.append(f"ptbpf {' '.join(args)}: exit {code}\n{done.text()}")
        elif not done.err:
            bad.append(f"ptbpf {' '.join(args)}: no message on stderr")
        elif done.out:
            bad.append(f"ptbpf {' '.join(args)}: stdout carries more than results: {done.out[:2]}")
    check(not bad, "\n".join(bad))


HINTS = [
    (["atach"], "did you mean attach?"), (["attach", "1", "--record-shape"], "did you mean --record-shapes?"), (["attach", "1", "-d", "5x"], "1m30s"),
    (["attach", "1", "--max-memory", "5x"], "4MiB"), (["attach", "1", "--log", "beauty"], "recorder"), (["attach", "train.py"], "--name"),
    (["attach", "1", "--name", "x"], "exclude each other"), (["report", "a.ptb", "--sort-by", "x"], "cuda_time_total"),
    (["record", __file__], f"ptbpf record -- python {__file__}"),
]


def test_hints():
    """A message says what would be right."""
    for args, hint in HINTS:
        done = run_ptbpf(*args, expect=2)
        check(hint in done.text(), f"{args}: {done.text()}")


def test_value_left_out():
    """--sample-stacks before another option, or at the end, is --sample-stacks 99."""
    done = run_ptbpf("attach", "1", "--with-modules", "--sample-stacks", expect=2)
    check("excludes --with-modules" in done.text(), done.text())
    done = run_ptbpf("attach", "--sample-stacks", "--with-modules", "1", expect=2)
    check("excludes --with-modules" in done.text(), done.text())
    done = run_ptbpf("attach", "--sample-stacks", "4242", expect=2)
    check("--sample-stacks 4242: valid values are" in done.text() or "which process" in done.text(), done.text())


def test_help_texts():
    """On stdout alone, in 80 columns; -h is a part of it."""
    for command in (None, *COMMANDS):
        done, short = (run_ptbpf(*filter(None, [command]), option, env=dict(os.environ, COLUMNS="80")) for option in ("--help", "-h"))
        check(len(done.out) > 3 and not done.err, f"{command}: help is on stdout alone\n{done.text()}")
        check(max(map(len, done.out)) <= 80, f"{command}: {max(done.out, key=len)}")
        check(short.out == done.out if command not in ("attach", "record", "sample", "report", "why", "diff", "export") else len(short.out) < len(done.out), short.text())


def test_log_domains():
    """Those of all debug messages have names that --log takes."""
    for path in glob.glob(ROOT + "/user/*/*.c"):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        name = re.search(r'#define LOG_DOMAIN "(\w+)"', text)
        if name and "pr_debug(" in text:
            check(f" {name[1]}," in "".join(run_ptbpf("attach", "1", "--log", "?", expect=2).err).replace("(", " "), f"{path}: {name[1]} is no value")


def test_unwritable():
    """A failure to print is an error with one message, unless the reader has ended."""
    for args in (["--help"], ["attach", "--help"], ["doctor"], ["--version"], ["--print-docs", "man"]):
        command = [PTBPF, *args]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=180)
        want = "ptbpf: cannot write the output to standard output: No space left on device\n"
        check(done.returncode == 1 and done.stderr == want, f"{args}: {done.returncode}, {done.stderr}")
        usual = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=180).returncode
        done = subprocess.run(command, stdout=no_reader(), stderr=subprocess.PIPE, text=True, timeout=180)
        check((done.returncode, done.stderr) == (usual, ""), f"{args}, no reader: {done.returncode}, {done.stderr}")


def no_reader():
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


def test_closed_stdout(ws):
    """Named as such; no file that ptbpf opens takes its place."""
    capture = ws + "/a.ptb"
    case_captures(ws, "report/table_gpu")
    for words in (["report", capture], ["--version"]):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", PTBPF, *words], capture_output=True, text=True)
        check(done.returncode == 1 and "standard output is closed" in done.stderr, f"{words}: exit {done.returncode}: {done.stderr}")


def test_export_to_stdout(ws):
    case_captures(ws, "report/table_gpu")
    command = [PTBPF, "export", ws + "/a.ptb", "--format", "chrome", "-o", "-"]
    trace = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    check(trace["traceEvents"] and os.listdir(ws) == ["a.ptb"], f"{os.listdir(ws)}")
    done = subprocess.run(command, stdout=no_reader(), stderr=subprocess.PIPE, text=True)
    check((done.returncode, done.stderr) == (0, ""), f"no reader: {done.returncode}, {done.stderr}")


def test_doctor_without_root():
    """One advice, a conclusion, and the same as JSON."""
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if not os.geteuid() else []
    done = subprocess.run([*nobody, PTBPF, "doctor"], stdout=subprocess.PIPE, text=True)
    advices = [line for line in done.stdout.splitlines() if " -> " in line]
    check(done.returncode == 1 and len(advices) == 1 and "run ptbpf as root" in advices[0], done.stdout)
    check(re.search(r"\nready: nothing; not: operators, .*stacks.* \(needs root\)\n$", done.stdout), done.stdout)
    document = json.loads(subprocess.run([*nobody, PTBPF, "doctor", "--json"], stdout=subprocess.PIPE).stdout)
    with open(os.path.join(ROOT, "schemas", "formats", "doctor.schema.json"), encoding="utf-8") as f:
        schema = json.load(f)
    check(set(document) == set(schema["required"]), f"{set(document)}")
    for key in ("rows", "abilities"):
        items = schema["properties"][key]["items"]
        check(all(set(items["required"]) <= set(x) <= set(items["properties"]) for x in document[key]), f"{document[key]}")
    check(not any(a["ready"] for a in document["abilities"]), f"{document['abilities']}")


def test_version():
    done = run_ptbpf("--version")
    check(done.out == run_ptbpf("-V").out and any(c.isdigit() for c in "".join(done.out)), f"no version: {done.out}")
