# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory events that payloads cannot produce, against torch.profiler: those of a device, sent as the CUDA caching allocator
does; blocks that change threads; and torch's own assertions about memory in files (K9, K10, T4, F4).

Each function runs alone under ptbpf and then under torch's profiler and ptbpf: both must give torch's result."""

import contextlib
import gzip
import json
import os

from support import PYTHON, CommandTarget, Failure, Skip, Tracer, check, load_trace, require_root, run_ptbpf, shared, workspace
from truth import read_profiled

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("cpu_mem_bytes", "self_cpu_mem_bytes", "device_mem_bytes", "self_device_mem_bytes")


class Target(CommandTarget):
    """memory_target.py."""

    def __init__(self):
        require_root()
        super().__init__([PYTHON, "-u", os.path.join(HERE, "memory_target.py")])
        if not json.loads(self.line("ready"))["kineto"]:
            self.__exit__()
            raise Skip("this torch has no Kineto, so no memory in Chrome traces")

    def answer(self):
        return json.loads(super().answer())


class Window:
    """One window of ptbpf during one command."""

    def __init__(self, folder, *command, options=()):
        self.capture, self.path = folder + "/w.ptb", folder + "/w.json"
        with Tracer("attach", "--pid", shared(Target).pid, "-o", self.capture, "--trace", self.path, "--no-table",
                    "--no-steps", "--profile-memory", *options) as t:
            t.wait_attached()
            self.answer = shared(Target).ask(*command)
            t.stop((0,))
        self.trace = load_trace(self.path)

    def rows(self, *options):
        done = run_ptbpf("report", self.capture, "--json", "--no-steps", "--row-limit", "-1", *options)
        return {r["key"]: [r["count"], *(r[c] for c in COLUMNS)] for r in json.loads("\n".join(done.out))["rows"]}


def events(trace):
    """[(innermost slice, name, bytes, device, totals)] of the main thread, in order, and their addresses."""
    found = [e for e in trace["traceEvents"] if e.get("ph") == "i" and e["name"] in ("[memory]", "[OutOfMemory]")]
    slices = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
    out = []
    for e in sorted(found, key=lambda e: e["ts"]):
        around = [s for s in slices if s["tid"] == e["tid"] and s["ts"] <= e["ts"] < s["ts"] + s["dur"]]
        args = e["args"]
        out.append((min(around, key=lambda s: s["dur"])["name"] if around else "", e["name"], args["Bytes"], args["Device Type"],
                    args["Device Id"], args["Total Allocated"], args["Total Reserved"], args.get("Addr"), e["tid"]))
    return out


def steps(found):
    """CPU totals are relative to the start of a tool, so only their changes are compared."""
    cpu = [e[5] for e in found if e[3] == 0]
    return [(*e[:5], e[5] - cpu[0] if e[3] == 0 else e[5], e[6]) for e in found]


@contextlib.contextmanager
def compared(name):
    """ptbpf alone, and together with torch, against torch; then the caller's own checks."""
    with workspace() as folder:
        theirs = folder + "/torch.json"
        alone = Window(folder, "do", name)
        alone_rows = alone.rows()
        both = Window(folder, "torch", name, theirs)
        trusted = read_profiled(theirs)
        want, first, second = events(trusted), events(alone.trace), events(both.trace)
        check(want, "torch has no memory events")
        same("alone", steps(first), steps(want))
        same("beside torch's profiler", steps(second), steps(want))
        same("addresses", [e[7] for e in second], [e[7] for e in want])
        table = {key: row for key, *row in both.answer}
        for what, rows in (("alone", alone_rows), ("beside torch's profiler", both.rows())):
            check(rows == table, f"tables differ, {what}: only torch {[(k, v) for k, v in table.items() if rows.get(k) != v]}, "
                  f"only ptbpf {[(k, v) for k, v in rows.items() if table.get(k) != v]}")
        yield both, trusted


def same(what, got, want):
    if got != want:
        i = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        raise Failure(f"{what}: {len(got)} and {len(want)}; number {i}: {got[i:i + 2]}, torch {want[i:i + 2]}")


def test_device():
    """c10's reports of a device: events, totals, columns."""
    with compared("device") as (both, trusted):
        seen = [e for e in events(both.trace) if e[3] == 1]
        check(len(seen) == 9 and {e[4] for e in seen} == {0, 1}, f"device events: {seen}")
        check(any(e[1] == "[OutOfMemory]" and e[0] == "inner" for e in seen), "no refused allocation")
        check(any(e[0] == "ptbpf_test::take" for e in seen), "none inside the operator")
        table = "\n".join(run_ptbpf("report", both.capture).out)
        check("CUDA Mem" in table and "Self CUDA Mem" in table, f"no columns of the device:\n{table[:600]}")


def test_user_scopes():
    """T4."""
    with compared("user_scopes") as (both, _):
        rows = both.rows()
        for key in ("aten::empty", "aten::rand", "test_user_scope_alloc"):
            check(rows[key][1] > 0, f"T4: {key} has {rows[key]}")
        for key in ("test_user_scope_dealloc", "[memory]"):
            check(rows[key][1] < 0, f"T4: {key} has {rows[key]}")


def test_event_args():
    """K9, K10, and exactly the keys and values that torch writes."""
    with compared("out_of_memory") as (both, trusted):
        for name, keys in (("[memory]", {"Addr", "Device Type", "Device Id", "Bytes"}),
                           ("[OutOfMemory]", {"Device Type", "Device Id", "Bytes"})):
            mine, theirs = ([e for e in t["traceEvents"] if e.get("name") == name] for t in (both.trace, trusted))
            check(mine or not theirs, f"no {name}")
            for e in mine:
                check(keys <= set(e["args"]) and not {"dur", "cat"} & set(e["args"]), f"args: {e['args']}")
            for a, b in zip(mine, theirs):
                check(set(b) - {"cat"} <= set(a) and set(b["args"]) <= set(a["args"]), f"torch has {b}, ptbpf {a}")
                check({k: a[k] for k in ("ph", "s", "pid", "tid")} == {k: b[k] for k in ("ph", "s", "pid", "tid")}, f"{a}, {b}")
                check(a.get("cat") == b.get("cat"), f"cat {a.get('cat')}, torch {b.get('cat')}")
                check(("Addr" in a["args"]) == ("Addr" in b["args"]), "an address where torch has none")
        oom = [e for e in both.trace["traceEvents"] if e["name"] == "[OutOfMemory]"]
        check(len(oom) == 1 and oom[0]["args"]["Bytes"] == 4 << 60, f"{oom}")


def test_training(detail):
    with compared("training") as (both, _):
        detail(f"{len(events(both.trace))} events")


def test_threads():
    """torch records only its own thread, so it misses frees on the other one and its total stays too high; ptbpf records both
    threads."""
    with workspace() as folder:
        both = Window(folder, "torch", "threads", folder + "/torch.json")
        want, got = events(read_profiled(folder + "/torch.json")), events(both.trace)
        main_tid = want[0][8]
        same("own thread", [e[:5] for e in got if e[8] == main_tid and e[2] != -4124], [e[:5] for e in want])
        other = [(e[0], e[2]) for e in got if e[8] != main_tid]
        check(("other thread", -4084) in other and any(e[1] == 4124 for e in other), f"the other thread: {other}")
        live = sum(e[2] for e in got)
        check(got[-1][5] == live or live == 0, f"the last total is {got[-1][5]}, {live} bytes are live")
        check(want[-1][5] > got[-1][5], "torch has become right: a row of differences.md can go")


def test_timeline_files(detail):
    """F4: the format of the three files."""
    with workspace() as folder:
        w = Window(folder, "do", "training", options=("--execution-trace",))

        def export(form, name):
            run_ptbpf("export", w.capture, "--format", form, "-o", os.path.join(folder, name))
            return os.path.join(folder, name)

        times, sizes = json.load(open(export("memory", "m.json")))
        check(len(times) == len(sizes) > 10 and all(len(s) == 9 for s in sizes), "F4: two lists of equal length, rows of 9")
        check(times == sorted(times) and all(min(s) >= 0 for s in sizes), "F4: order, sums")
        with gzip.open(export("memory-raw", "m.raw.json.gz"), "rt") as f:
            raw = json.load(f)
        check(all(len(r) == 4 and 1 <= r[1] <= 4 and 0 <= r[3] <= 7 for r in raw), "F4: actions and categories")
        live = [0] * 8
        for _, action, size, category in raw:
            live[category] += size
            check(live[category] >= 0, f"F4: category {category} falls below zero")
        with open(export("memory-html", "m.html"), encoding="utf-8") as f:
            page = f.read()
        check("<html" in page.lower() and ("<svg" in page or "<img" in page), "F4: the page has no picture")
        detail(f"{len(raw)} rows, {len(times)} times")
