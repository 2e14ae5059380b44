#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the cases: tests/cases/SUBJECT/NAME.case. Prints a unified diff for each whose output is another one.

  run.py [--update] [PATTERN...]     only those with one of the patterns in their path; --update writes what is printed into them

A case is a text that capture_text.c makes a capture of, then commands and what each prints, to the end or the next command:

  $ report --json a.ptb | json operators

Lines between `repeat N +NS` and `end` are there N times, with times that advance by NS each time; {EXPRESSION} in them is one of Python with i, from 0, and what follows
`?EXPRESSION` is there when that is true.
`== b` begins the text of one more capture, b.ptb; a.ptb is the first. A command is one of ptbpf, whose errors are shown when its exit status is
not 0; FILTERS are those behind `|`. `export` writes to out, which is what the filter reads.
"""

import concurrent.futures
import difflib
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PTBPF = os.environ.get("PTBPF", os.path.join(HERE, "..", "..", "build", "ptbpf"))
CAPTURE_TEXT = os.path.join(os.path.dirname(PTBPF), "tests", "capture_text")
INCOMPLETE = 3  # exit status: it says what is lost
SAME = ("External id", "Ev Idx")  # given by the record function's id


def ns(us):
    return round(us * 1000)


def words(pairs):
    return "".join(f" {k.replace(' ', '_')}={json.dumps(v, ensure_ascii=False)}" for k, v in pairs)


def event(e, indent=""):
    args = e.get("args", {})
    own = [(k, v) for k, v in args.items() if k not in (*SAME, "Record function id")]
    number = args.get("Record function id", args.get("External id"))
    return (f"{indent}{ns(e['ts'])}" + (f"+{ns(e['dur'])}" if "dur" in e else "") + ("" if e["ph"] == "X" else f" {e['ph']}") +
            ("" if e.get("cat") == "cpu_op" else f" [{e.get('cat', '')}]") + f" {json.dumps(e['name'], ensure_ascii=False)[1:-1]}" + (f" #{number}" if number else "") +
            (f" flow {e['id']}" if "id" in e else "") + words(own))


def trace(text):
    """Of a Chrome trace the events of each thread in order of time, slices within the slices around them, and totals that are not 0."""
    doc, threads = json.loads(text), {}
    for e in doc["traceEvents"]:
        if e.get("cat") != "Trace" and e.get("s") != "g" and (e["ph"] != "M" or e["name"] in ("process_name", "thread_name")):
            threads.setdefault((str(e["pid"]), str(e["tid"])), []).append(e)
    for (pid, tid), events in sorted(threads.items()):
        yield f"p{pid} t{tid}" + "".join(f" {e['args']['name']}" for e in events if e["ph"] == "M")
        around = []
        for e in sorted((e for e in events if e["ph"] != "M"), key=lambda e: (ns(e["ts"]), -ns(e.get("dur", 0)), e["ph"] != "X", e.get("args", {}).get("Ev Idx", 0))):
            end = ns(e["ts"]) + ns(e.get("dur", 0))
            while around and (around[-1] <= ns(e["ts"]) if e["ph"] == "X" else around[-1] < ns(e["ts"])) or around and around[-1] < end:
                around.pop()
            yield event(e, "  " * (len(around) + 1))
            if e["ph"] == "X":
                around.append(end)
    loss = [(c["name"], c["value"]) for c in doc["ptbpf"]["loss"]["counters"]]
    yield "totals" + words((k, v) for k, v in (*doc["ptbpf_totals"]["totals"].items(), *loss) if v)
    yield doc["ptbpf_totals"]["account"]


def something(value):
    """It without what is 0, empty or null."""
    if isinstance(value, dict):
        return {k: something(v) for k, v in value.items() if v or v is False}
    return [something(v) for v in value] if isinstance(value, list) else value


def pretty(value, indent=""):
    """Values and lists of values in a line, all else below its key."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or len(flat) + len(indent) < 150 or not any(isinstance(v, (dict, list)) for v in
                                                                                     (value.values() if isinstance(value, dict) else value)):
        yield indent + flat
    else:
        for key, v in value.items() if isinstance(value, dict) else enumerate(value):
            lines = [*pretty(v, indent + "  ")]
            yield from [f"{indent}{key}: {lines[0].strip()}"] if len(lines) == 1 else [f"{indent}{key}:", *lines]


def keys(text, *wanted):
    """Of a JSON document these keys, or all; of them what is not 0 or empty."""
    doc = something(json.loads(text))
    for facts in (doc, doc.get("ptbpf", {})):
        facts.pop("version", None)
    yield from pretty({k: v for k, v in doc.items() if k in wanted} if wanted else doc)


def nodes(text):
    """Of an Execution Trace the nodes."""
    for n in json.loads(text)["nodes"]:
        attrs = [(a["name"], a["value"]) for a in n["attrs"] if a["value"] not in (0, "", -1)]
        sides = [(f"{side}.{k}", v) for side in ("inputs", "outputs") for k, v in n[side].items() if v]
        yield f"{n['id']} in {n['ctrl_deps']} {n['name']}{words(attrs + sides)}"


FILTERS = {"trace": trace, "json": keys, "nodes": nodes}


def run(folder, command):
    """The lines that it prints."""
    line, _, chosen = command.partition(" | ")
    argv = shlex.split(line)
    written = os.path.join(folder, "out")
    out = ["--output", written] if argv[0] == "export" else []
    done = subprocess.run([PTBPF, *argv, *out], cwd=folder, capture_output=True, text=True, check=False)
    text = done.stdout
    status = [f"exit {done.returncode}"] if done.returncode else []
    if os.path.exists(written):
        with open(written, encoding="utf-8") as f:
            text = f.read().replace(folder, ".")
        os.remove(written)
    elif done.returncode not in (0, INCOMPLETE) or out:
        return [*text.splitlines(), *done.stderr.replace(folder, ".").splitlines(), *status]
    name, *args = chosen.split() or [None]
    return [*(FILTERS[name](text, *args) if name else text.splitlines()), *status]


def repeated(lines):
    """The lines with what is to be repeated."""
    lines = iter(lines)
    for line in lines:
        if not line.startswith("repeat "):
            yield line
            continue
        count, step = map(int, line.split()[1:])
        block = [*iter(lambda: next(lines), "end")]
        for i in range(count):
            for inner in block:
                if inner.startswith("?"):
                    condition, inner = inner[1:].split(" ", 1)
                    if not eval(condition, {"i": i}):  # pylint: disable=eval-used
                        continue
                inner = re.sub(r"\{([^{}]+)\}", lambda m: str(eval(m[1], {"i": i})), inner)  # pylint: disable=eval-used,cell-var-from-loop
                yield re.sub(r"@(\d+)$", lambda m: f"@{int(m[1]) + i * step}", inner)  # pylint: disable=cell-var-from-loop


def check(path):
    """The text of the case as it is, and with what its commands print now."""
    with open(path, encoding="utf-8") as f:
        old = f.read()
    captures, commands, name = {"a": []}, [], "a"
    new = []
    for line in old.splitlines():
        if line.startswith("$ "):
            commands.append(line)
        elif not commands:
            new.append(line)
            if line.startswith("== "):
                name = line[3:]
                captures[name] = []
            else:
                captures[name].append(line)
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in captures.items():
            made = subprocess.run([CAPTURE_TEXT, f"{folder}/{name}.ptb"], input="\n".join(repeated(lines)) + "\n", capture_output=True, text=True, check=False)
            if made.returncode:
                return path, old, f"{name}.ptb: {made.stderr}"
        for command in commands:
            new += [command, *(re.sub(r"[ \t]+$", "", text) for text in run(folder, command[2:]))]
    return path, old, "\n".join(new) + "\n"


def main():
    update, patterns = "--update" in sys.argv, [a for a in sys.argv[1:] if a != "--update"]
    paths = [p for p in sorted(glob.glob(HERE + "/*/*.case")) if not patterns or any(x in p for x in patterns)]
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        for path, old, new in pool.map(check, paths):
            if old == new:
                continue
            wrong += 1
            short = os.path.relpath(path, HERE)
            if update and "\n$ " in new:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(new)
            else:
                sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), short, "now"))
    print(f"{wrong} of {len(paths)} cases " + ("updated" if update else "differ"))
    sys.exit(bool(wrong and not update) or not paths)


if __name__ == "__main__":
    main()
