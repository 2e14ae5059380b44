#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the cases: tests/cases/SUBJECT/NAME.case. Prints a unified diff for each whose output is another one.

  run.py [--update] [PATTERN...]     only those with one of the patterns in their path; --update writes what is printed into them
  run.py --make FOLDER SUBJECT/NAME  writes the captures of a case into the folder

A case is a text that capture_text.c makes a capture of, then commands and what each prints, to the end or the next command:

  $ report --json a.ptb | json operators

Lines between `repeat N +NS [NAME]` and `end` are there N times, with times that advance by NS each time; {EXPRESSION} in them is one of Python with NAME (i), from 0, and
what follows `?EXPRESSION` is there when that is true. Those between `def WORD PARAMETER...` and `end` are what a line `WORD ARGUMENT... [@NS]` stands for, NS later.
`let NAME EXPRESSION` gives expressions that follow a value; `include FILE` has the lines of a file beside this program.
`== b` begins the text of one more capture, b.ptb; a.ptb is the first. A command is one of ptbpf, whose errors are shown when its exit status is
not 0; FILTERS are those behind `|`; with 2>&1 its warnings follow the output. `export` writes to out, or to what -o says, which is what the filter reads.
"""

import concurrent.futures
import difflib
import glob
import gzip
import itertools
import json
import os
import pickle
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
PTBPF = os.environ.get("PTBPF", os.path.join(HERE, "..", "..", "build", "ptbpf"))
CAPTURE_TEXT = os.path.join(os.path.dirname(PTBPF), "tests", "capture_text")
INCOMPLETE = 3  # exit status: it says what is lost
INPUTS = ("Input type", "Concrete Inputs", "Input Dims", "Input Strides")
SAME = ("External id", "Ev Idx")  # given by the record function's id


def ns(us):
    return round(us * 1000)


def words(pairs):
    text = "".join(f" {k.replace(' ', '_')}={json.dumps(v, ensure_ascii=False)}" for k, v in pairs)
    return re.sub(r'"\\u0000([-0-9.]+)"', r"\1", text)  # decimals as they are written


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
    more = [(k, v) for part in ("python", "gpu") for k, v in doc["ptbpf_totals"].get(part, {}).items() if k.startswith(("functions_not", "calls_"))]
    yield "totals" + words((k, v) for k, v in (*doc["ptbpf_totals"]["totals"].items(), *more, *loss) if v)
    yield doc["ptbpf_totals"]["account"]


def events(text, *words):
    """Of trace() the lines that a regular expression is found in."""
    return matching("\n".join(trace(text)), *words)


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
    """Of a JSON document these keys (processes.0.devices: of what is in it), or all; of them what is not 0 or empty."""
    doc = something(json.loads(text))
    for facts in (doc, doc.get("ptbpf", {})):
        facts.pop("version", None)
    found = {}
    for path in wanted:
        value = doc
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value.get(key)
        if value is not None:
            found[path] = value
    yield from pretty(found if wanted else doc)


def nodes(text):
    """Of an Execution Trace the nodes."""
    for n in json.loads(text, parse_float="\0{}".format)["nodes"]:
        attrs = [(a["name"], a["value"]) for a in n["attrs"] if a["value"] not in (0, "", -1)]
        sides = [(f"{side}.{k}", v) for side in ("inputs", "outputs") for k, v in n[side].items() if v]
        yield f"{n['id']} in {n['ctrl_deps']} {json.dumps(n['name'], ensure_ascii=False)[1:-1]}{words(attrs + sides)}"


def rows(label, *columns):
    """A line for each value: its type, it, and what else is not empty; those that are equal are counted."""
    lines = (words([(label, row[0]), *((k, v) for k, v in zip(("is", "dims", "strides"), row[1:]) if v not in ([], ""))]).replace("=", " ", 1)
             for row in itertools.zip_longest(*columns, fillvalue="missing"))
    for line, same in itertools.groupby(lines):
        cnt = len([*same])
        line = re.sub(r'([^\s,"[\]]+|\[[^[\]]*\])(, ?)(\1\2){7,}\1', lambda m: f"{(len(m[0]) + len(m[2])) // len(m[1] + m[2])} times {m[1]}", line)
        yield f" {line}" + (f", {cnt} times" if cnt > 1 else "")


def values(text):
    """Of a Chrome trace or an Execution Trace the arguments of each operator, a line for each, and marks of what is missing."""
    doc = json.loads(text, parse_float="\0{}".format)
    for e in sorted((e for e in doc.get("traceEvents", ()) if e.get("cat") == "cpu_op"), key=lambda e: e["args"]["Ev Idx"]):
        a = e["args"]
        yield e["name"] + words((k, v) for k, v in a.items() if k not in (*SAME, "Record function id", *INPUTS))
        yield from rows("in", *(a.get(k, ()) for k in INPUTS))
    for n in doc.get("nodes", ())[1:-1]:
        yield n["name"] + words((a["name"], a["value"]) for a in n["attrs"] if a["name"] == "ptbpf.note")
        for side in ("inputs", "outputs"):
            yield from rows(side.replace("puts", ""), *(n[side][k] for k in ("types", "values", "shapes", "strides")))
    yield from (f"{k} {v}" for k, v in doc.get("ptbpf_nodes", {}).items() if v)


ACTIONS = ("", "pre", "new", "inc", "end")  # torch's PREEXISTING, CREATE, INCREMENT_VERSION, DESTROY
CATEGORIES = ("PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "?")


def blocks(text):
    """Of a raw memory timeline what becomes of each block of a tensor of cases/flow.def: a has 4 bytes, b 8, ...; in order of bytes at one time."""
    rows = []
    for t, action, size, category in json.loads(text):
        if ACTIONS[action] == "inc" and size > 0:  # of a change the row before has the category before it
            rows[-1][2] += f">{CATEGORIES[category]}"
        else:
            rows.append([t, abs(size), f"{ACTIONS[action]} {chr(96 + abs(size) // 4)} {CATEGORIES[category]}"])
    return textwrap.wrap("; ".join(changed for _, _, changed in sorted(rows, key=lambda r: r[:2])), 150)


def flame(text):
    """Of a flame graph the tree, with what each node has itself: of one capture, or of both."""
    data = json.loads(re.search(r"^const data = (.*);$", text, re.M)[1])
    inner = {}
    for i, parent in [*enumerate(data["parent"])][1:]:
        inner.setdefault(parent, []).append(i)

    def node(i, indent):
        kind, name, file, line = data["frames"][data["frame"][i]]
        figures = [(m["name"], [own[k][i] for own in data["self"]]) for k, m in enumerate(data["metrics"])]
        label = data["strings"][name] + (f" {data['strings'][file]}:{line}" if kind < 2 else "")
        yield indent + json.dumps(label, ensure_ascii=False)[1:-1] + words((k, v[0] if len(v) == 1 else v) for k, v in figures if any(v))
        for k in inner.get(i, ()):
            yield from node(k, indent + "  ")

    for i in inner.get(0, ()):
        yield from node(i, "")


def matching(text, *words):
    """The lines that a regular expression is found in."""
    return [line for line in text.splitlines() if re.search(" ".join(words), line)]


def texts(page, *classes):
    """Of a page what stands in elements of these classes."""
    return [f"{c}: " + " ".join(re.findall(rf"class='{c}'[^>]*>([^<]*)<", page)) for c in classes]


def snapshot(text):
    """Of a memory snapshot each segment with its blocks, each event with its frames, and ptbpf's own facts that are not 0."""
    doc = pickle.loads(text.encode(errors="surrogateescape"))

    def stack(frames):
        return "".join(f" < {f['name']}" + (f" {f['filename']}:{f['line']}" if f["line"] else "") for f in frames)

    for s in doc["segments"]:
        yield f"segment of {s['device']}: {s['address']:#x}+{s['total_size']}, {s['active_size']} active"
        for b in s["blocks"]:
            yield f"  {b['address']:#x}+{b['size']} {b['state']}{stack(b['frames'])}"
    for i, events in enumerate(doc["device_traces"]):
        yield f"trace {i}"
        for e in events:
            yield f"  {e['time_us']} {e['action']} {e['addr']:#x}+{e['size']}{stack(e['frames'])}" if "addr" in e else f"  {e['time_us']} {e['action']} {e['size']}{stack(e['frames'])}"
    facts = doc["ptbpf"]
    yield "facts" + words((k, v) for k, v in facts.items() if v and k not in ("version", "devices", "account"))
    yield from (" " + words(d.items()) for d in facts["devices"])


FILTERS = {"snapshot": snapshot, "texts": texts, "blocks": blocks, "lines": matching, "trace": trace, "events": events, "json": keys, "nodes": nodes, "values": values, "flame": flame}


def content(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="surrogateescape", newline="") as f:
        return f.read()


def run(folder, command):
    """The lines that it prints."""
    line, _, chosen = command.partition(" | ")
    argv = shlex.split(line)
    said = "2>&1" in argv and not argv.remove("2>&1")
    out = ["--output", "out"] if argv[0] == "export" and not {"-o", "--split-ranks"} & {*argv} else []
    written = os.path.join(folder, argv[argv.index("-o") + 1] if "-o" in argv else "out")
    done = subprocess.run([PTBPF, *argv, *out], cwd=folder, capture_output=True, text=True, check=False)
    text = done.stdout
    status = [f"exit {done.returncode}"] if done.returncode else []
    name, *args = chosen.split() or [None]
    if "--split-ranks" in argv:
        traces = sorted(glob.glob(os.path.join(folder, argv[argv.index("--split-ranks") + 1], "*")))
        split = [line for path in traces for line in (os.path.basename(path), *FILTERS[name](content(path), *args))]
        return [*split, *([] if traces else done.stderr.splitlines()), *status]
    if os.path.isfile(written):
        text = content(written).replace(folder, ".")
        os.remove(written)
    elif done.returncode not in (0, INCOMPLETE) or out:
        return [*text.splitlines(), *done.stderr.replace(folder, ".").splitlines(), *status]
    said = [line for line in done.stderr.replace(folder, ".").splitlines() if "warning" in line] if said else []
    return [*(FILTERS[name](text, *args) if name else text.splitlines()), *said, *status]


def block(lines):
    """The lines up to the `end` of what began before them."""
    depth, inner = 1, []
    for line in lines:
        depth += line.startswith(("repeat ", "def ")) - (line == "end")
        if not depth:
            break
        inner.append(line)
    return inner


def number_or_text(word):
    try:
        return int(word, 0)
    except ValueError:
        return word


def later(lines, ns_more):
    return (re.sub(r"@(\d+)$", lambda m: f"@{int(m[1]) + ns_more}", line) for line in lines)


def mix(x):
    """Of a number another one, as if by chance."""
    x = (x ^ x >> 16) * 0x7feb352d & 0xffffffff
    x = (x ^ x >> 15) * 0x846ca68b & 0xffffffff
    return x ^ x >> 16


def frames(stack):
    """Those of a stack of stacks.def, for frames=."""
    return ",".join(f"{0x1000 * (ord(f[-2]) - 64) + (f[0] == '!')}:{f[-1]}" for f in reversed(re.findall(r"!?[A-Z]\d", stack)))


class Text:
    """What the lines of a case's captures stand for."""

    def __init__(self):
        self.defined = {}  # word: parameters, lines
        self.values = {"mix": mix, "frames": frames}

    def value(self, expression, names):
        return eval(expression, {**self.values, **names} if names else self.values)  # pylint: disable=eval-used

    def expand(self, lines, names=None):
        """The lines; names: parameters, numbers of repetitions."""
        lines = iter(lines)
        for line in lines:
            if names and line.startswith("?"):
                condition, line = line[1:].split(" ", 1)
                if not self.value(condition, names):
                    continue
            if names and not line.startswith("def "):
                line = re.sub(r"\{([^{}]+)\}", lambda m: str(self.value(m[1], names)), line)
            thread, word, rest = re.fullmatch(r"((?:[pt]\d+ )*)(\S*) ?(.*)", line).groups()
            if word == "include":
                with open(os.path.join(HERE, rest), encoding="utf-8") as f:
                    yield from self.expand(f.read().splitlines())
            elif word == "let":
                name, expression = rest.split(" ", 1)
                self.values[name] = self.value(expression, names)
            elif word == "def":
                name, *params = rest.split()
                self.defined[name] = params, block(lines)
            elif word == "repeat":
                (count, step, *name), inner = rest.split(), block(lines)
                for i in range(int(count)):
                    yield from later(self.expand(inner, {**(names or {}), (name or ["i"])[0]: i}), i * int(step))
            elif word in self.defined:
                params, inner = self.defined[word]
                args = shlex.split(rest)
                yield thread
                at = int(args.pop()[1:]) if args[-1:] and re.fullmatch(r"@\d+", args[-1]) else 0
                yield from later(self.expand(inner, {"": 0, **(names or {}), **dict(zip(params, map(number_or_text, args), strict=True))}), at)
            else:
                yield line


def read(path):
    """The text of a case, the lines of its captures by name, its commands."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    captures, commands, name = {"a": []}, [], "a"
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(line)
        elif not commands and line.startswith("== "):
            name = line[3:]
            captures[name] = []
        elif not commands:
            captures[name].append(line)
    return text, captures, commands


def make(captures, folder):
    """Writes NAME.ptb of each; returns what is wrong with one."""
    text = Text()  # what is defined in one is so in those that follow
    for name, lines in captures.items():
        made = subprocess.run([CAPTURE_TEXT, f"{folder}/{name}.ptb"], input="\n".join(text.expand(lines)) + "\n", capture_output=True, text=True, check=False)
        if made.returncode:
            return f"{name}.ptb: {made.stderr}"
    return ""


def check(path):
    """The text of the case as it is, and with what its commands print now."""
    old, captures, commands = read(path)
    with tempfile.TemporaryDirectory() as folder:
        wrong = make(captures, folder)
        if wrong:
            return path, old, wrong
        new = old.partition("\n$ ")[0].splitlines()
        for command in commands:
            new += [command, *(re.sub(r"[ \t]+$", "", text) for text in run(folder, command[2:]))]
    return path, old, "\n".join(new) + "\n"


def main():
    if sys.argv[1:2] == ["--make"]:
        sys.exit(make(read(os.path.join(HERE, sys.argv[3] + ".case"))[1], sys.argv[2]) or 0)
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
