# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Common code of the tests of validators: a valid file and many small falsifications of it, each of which must be found.

They run under the interpreter of the consumers' environment if there is one, since that has jsonschema; without it the
falsifications that only a schema can find are omitted, and a message says so."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
sys.path.insert(0, os.path.join(TOOLS, "..", "tests", "cases"))
import run as cases  # noqa: E402
VALIDATOR = os.path.join(TOOLS, "validate_trace.py")
sys.path.insert(0, TOOLS)
import validate_trace  # noqa: E402

CONSUMERS = os.path.join(os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs"), "consumers", "bin", "python")


def Us(text):
    """A number with its decimals as written, which Python's JSON cannot represent: a marked text."""
    return "\0" + text


def us(ns):
    return Us(f"{ns // 1000}.{ns % 1000:03}")


def dump(doc):
    return re.sub(r'"\\u0000(-?[0-9.]+)"', r"\1", json.dumps(doc))


def findings_of(path):
    return validate_trace.check(path, argparse.Namespace(torch=False, need_schema=False))[0]


class Falsifier:
    """Counts the falsifications that are found and collects the others."""

    def __init__(self, folder, with_schema):
        self.folder, self.with_schema = folder, with_schema
        self.false = os.path.join(folder, "false.json")
        self.failures, self.done = [], 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def capture(self, case):
        """The first capture of a case."""
        _, texts, _ = cases.read(os.path.join(cases.HERE, case + ".case"))
        wrong = cases.make({"a": texts["a"]}, self.folder)
        assert not wrong, wrong

    def ptbpf(self, output, *words):
        """Writes what ptbpf exports from the capture, or reports of it."""
        path, report = self.path(output), words[:1] == ("report",)
        with open(path if report else os.devnull, "wb") as f:
            done = subprocess.run([cases.PTBPF, *(words if report else ("export", *words, "-o", path)), self.path("a.ptb")], stdout=f, stderr=subprocess.PIPE, text=True)
        assert done.returncode in (0, cases.INCOMPLETE), done.stderr
        return path

    def command(self, *args, tool=VALIDATOR):
        """Exit code of a validator, whose output is printed."""
        r = subprocess.run([sys.executable, tool, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(r.stdout, end="")
        return r.returncode

    def must_be_valid(self, *args, tool=VALIDATOR):
        if self.command(*args, tool=tool):
            sys.exit("FAIL: a valid file is refused")

    def must_be_told(self, *args, tool=VALIDATOR):
        if self.command(*args, tool=tool) != 1:
            sys.exit("FAIL: the command does not tell a false file by its exit code")

    def text(self, rule, what, text, found_in=findings_of):
        """A file with that text must violate the rule."""
        with open(self.false, "w", encoding="utf-8") as f:
            f.write(text)
        findings = found_in(self.false)
        self.done += 1
        if rule not in findings.by_rule:
            self.failures.append(f"{what}: expected a violation of \"{rule}\": {dict(findings.by_rule)}"[:500])

    def rows(self, path, rows, read=Us, found_in=findings_of):
        """(rule that must find it, change of the valid document in the file)"""
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for rule, change in rows:
            if rule == "schema" and not self.with_schema:
                continue
            doc = json.loads(text, parse_float=read)
            change(doc)
            self.text(rule, change.__name__, dump(doc), found_in)


def main(run):
    """run(Falsifier)"""
    if os.path.exists(CONSUMERS) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(CONSUMERS) + "/.."):
        os.execv(CONSUMERS, [CONSUMERS] + sys.argv)
    try:
        import jsonschema, referencing  # noqa: F401, E401
        with_schema = True
    except ImportError:
        with_schema = False
        print("note: no jsonschema: falsifications that only a schema finds are left out")
    with tempfile.TemporaryDirectory() as folder:
        f = Falsifier(folder, with_schema)
        run(f)
    for failure in f.failures:
        print("FAIL", failure)
    print(f"{f.done - len(f.failures)} of {f.done} falsifications found")
    sys.exit(1 if f.failures else 0)
