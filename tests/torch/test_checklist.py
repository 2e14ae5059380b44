# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Torch's own assertions about Execution Traces (E1-E14), about inputs and Python stacks in Chrome traces (K5-K8, K12, K14) and about the table with
operations and shapes (T2), applied to ptbpf's files of a process without an observer.

Not here, because nothing of it exists outside torch: E5 for an unset path (ptbpf has no path without --et), E11 (Triton
kernels need a GPU), the environment variable of E14. E4 and E12 are also part of run_leg.py.
"""

import contextlib
import json
import os
import re

import et_truth
from compare_args import SCOPES
from support import PYTHON, CommandTarget, Tracer, check, load_trace, report_json, require_root, run_ptbpf, shared, workspace

HERE = os.path.dirname(os.path.abspath(__file__))


class Target(CommandTarget):
    """checklist_target.py."""

    def __init__(self):
        require_root()
        super().__init__([PYTHON, "-u", os.path.join(HERE, "checklist_target.py")])
        self.line("ready")


class Window:
    """One window of ptbpf during commands of the target."""

    def __init__(self, folder, *commands, options=("--et",), name="w", suffix=".json"):
        self.capture, self.trace = os.path.join(folder, name + ".ptb"), os.path.join(folder, name + ".trace.json")
        self.et = os.path.join(folder, name + ".et" + suffix) if "--et" in options else None
        argv = ["attach", "--pid", shared(Target).pid, "-o", self.capture, "--trace", self.trace, "--no-table", *options]
        if self.et:
            argv.insert(argv.index("--et") + 1, self.et)
        with Tracer(*argv) as t:
            t.wait_attached()
            for c in commands:
                shared(Target).ask(*c.split())
            t.stop((0,) if commands else (3,))

    def nodes(self):
        """E1, E2 hold for every file: an object with named nodes and one root with id 1."""
        document = et_truth.read_document(self.et, own=False)
        check(isinstance(document, dict) and isinstance(document.get("nodes"), list), "E1: no list of nodes")
        check(all(isinstance(n.get("name"), str) for n in document["nodes"]), "E1: a node without a name")
        roots = [n["id"] for n in document["nodes"] if "[pytorch|profiler|execution_trace|process]" in n["name"]]
        check(roots == [1], f"E2: root nodes {roots}")
        return [et_truth.nested_node(n) for n in document["nodes"]]

    def loops(self):
        return sorted(int(n.name.split()[2]) for n in self.nodes() if n.name.startswith("## LOOP "))

    def slices(self, name):
        return [e for e in load_trace(self.trace)["traceEvents"] if e.get("ph") == "X" and e["name"] == name]


@contextlib.contextmanager
def window(*commands, **kw):
    with workspace() as folder:
        yield Window(folder, *commands, **kw)


def same(what, got, want):
    if isinstance(want, list) and len(want) > 8 and isinstance(got, list):
        got, want = [x for x in got if x not in want] or len(got), [x for x in want if x not in got] or len(want)
    check(got == want, f"{what}: {got}, expected {want}")


def test_e3_loops_of_a_window():
    """A window in the middle has the loops that ran in it, completely."""
    shared(Target).ask("loop", 0, 5)
    with window("loop 5 7") as w:
        shared(Target).ask("loop", 7, 10)
        same("E3", w.loops(), [5, 6])


def test_e4_same_ids(detail):
    with window("loop 0 3", "do jagged") as w:
        ids = sorted(n.attrs["rf_id"] for n in w.nodes() if n.attrs["rf_id"])
        slices = [e for e in load_trace(w.trace)["traceEvents"]
                  if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
        same("E4 as lists", sorted(e["args"].get("Record function id", -1) for e in slices), ids)
        same("External id", sorted(e["args"]["External id"] for e in slices), ids)
        check(len(set(ids)) == len(ids) and len(ids) > 60, f"{len(ids)} ids, {len(set(ids))} different")
        detail(f"{len(ids)} ids")


def test_e5_e6_all_loops():
    with window("loop 0 5") as w:
        check(os.path.isfile(w.et), "E5: no file")
        same("E6", w.loops(), [0, 1, 2, 3, 4])


def test_e7_annotation():
    """In a process without observers the arguments of such an annotation are never created; the annotation itself, its
    operators and their values are recorded."""
    with window("do payload") as w:
        cat = next(n for n in w.nodes() if n.name == "aten::cat")
        same("E7: a tensor's tuple", len(cat.inputs["values"][0][0]), 6)
        same("E7: shapes", cat.inputs["shapes"][0], [[3, 4, 5], [3, 4, 5]])
        json.loads(open(w.et, encoding="utf-8").read(), parse_constant=lambda c: check(False, f"E7: {c} in the file"))


def test_e8_on_off():
    with workspace() as folder:
        found = []
        shared(Target).ask("loop", 0, 3)
        for k, (begin, end) in enumerate(((3, 5), (8, 9))):
            found += Window(folder, f"loop {begin} {end}", name=f"w{k}").loops()
            shared(Target).ask("loop", end, end + 3)
        same("E8", found, [3, 4, 8])


def test_e9_repeated():
    with workspace() as folder:
        found = []
        for i in (3, 4, 6, 8):
            found += Window(folder, f"loop {i} {i + 1}", name=f"w{i}").loops()
        same("E9", found, [3, 4, 6, 8])


def test_e10_nothing():
    with window() as w:
        same("E10: nodes", [n.id for n in w.nodes()], [1])
        same("K1: slices", [e for e in load_trace(w.trace)["traceEvents"] if e.get("cat") == "cpu_op"], [])


def test_e12_jagged():
    with window("do jagged") as w:
        check(any("cos" in n.name for n in w.nodes()), "E12: no cos")


def test_e13_dynamic_shapes():
    with window("do dynamic") as w:
        names = [n.name for n in w.nodes()]
        check(any("aten::sin" == n for n in names) and any("Torch-Compiled Region" in n for n in names), f"E13: {names}")


def test_e14_texts_gzip_ids():
    """Longer texts are cut and marked; a file whose name ends in .gz is compressed; ids depend on the program only."""
    with window("do long_text", suffix=".json.gz") as w:
        node = next(n for n in w.nodes() if n.name == "long text")
        text = node.inputs["values"][0]
        check(len(text) >= 2048 and ("0123456789" * 1000).startswith(text[:2048]), f"E14: a text of {len(text)} characters")
        check(len(text) == 10000 or "cut" in node.attrs.get("ptbpf.note", ""), f"E14: cut without a mark: {node.attrs}")
        with open(w.et, "rb") as f:
            same("gzip", f.read(2), b"\x1f\x8b")
    firsts = []
    for _ in range(2):
        with window("do steps") as w:
            step = min(n.id for n in w.nodes() if n.name.startswith("ProfilerStep"))
            firsts.append(min(n.id for n in w.nodes() if n.parent == step))
    same("E14: ids of the first operator under a step", firsts[0], firsts[1])


def test_k5_k6_k7_event_args():
    for options in (("--record-shapes",), ("--et",)):
        with window("do event_args", options=options) as w:
            ops = [e for e in load_trace(w.trace)["traceEvents"] if e.get("cat") == "cpu_op"]
            check(ops and all(e["args"]["Record function id"] >= 0 for e in ops), "K5: a slice without an id")
            args = w.slices("aten::ones")[0]["args"]
            same("K6: types", args["Input type"], ["ScalarList", "Scalar", "", "", "Scalar"])
            same("K6: values", args["Concrete Inputs"], ["[64, 32]", "6", "", "", "False"])
            args = w.slices("aten::cat")[0]["args"]
            same("K7: dims", args["Input Dims"], [[[64, 32], [64, 32]], []])
            same("K7: types", args["Input type"], ["TensorList", "Scalar"])


def test_k8_strides():
    with window("do strides", options=("--record-shapes",)) as w:
        args = w.slices("aten::add")[0]["args"]
        same("K8", args["Input Strides"][:2], [[17, 1], [25, 2]])


def functions_of(stack, outermost):
    """Python functions from the innermost to `outermost`. What torch calls nn.Module is the call of a module, which is a function, too;
    its built-in functions are not there."""
    stack = [re.sub(r"\(\d+\): generated$", "(): generated", f) for f in stack]  # torch: the line where it goes on
    chain = ["nn.Module" if f.startswith("nn.Module: ") or f.endswith(": _wrapped_call_impl") else f
             for f in stack if not f.startswith("<")]
    ends = [i for i, f in enumerate(chain) if f.endswith(": " + outermost)]
    return chain[:ends[0] + 1] if ends else None


def around(events):
    """{id of a slice: names of the Python functions that it is drawn in, innermost first}"""
    found, stack = {}, []
    for e in sorted((e for e in events if e.get("cat") in ("cpu_op", "user_annotation", "python_function")),
                    key=lambda e: (e["pid"], e["tid"], e["ts"], -e["dur"])):
        while stack and (stack[-1]["tid"] != e["tid"] or stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"]):
            stack.pop()
        if e["cat"] != "python_function":
            found[e["args"]["External id"]] = [f["name"] for f in reversed(stack) if f["cat"] == "python_function"]
        stack.append(e)
    return found


def test_k12_source(detail):
    """Every operator lies in the Python functions that torch's own profiler shows, and its stack names them."""
    trusted = [[name, functions_of(stack, "source")] for name, stack in json.loads(shared(Target).ask("stacks", "source"))]
    with window("do source", options=("--with-stack",)) as w:
        events = load_trace(w.trace)["traceEvents"]
        drawn, got = around(events), []
        for e in sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: e["ts"]):
            stack = e["args"]["Call stack"].split(";")[:-1]
            check(drawn[e["args"]["External id"]] == stack, f"drawn in {drawn[e['args']['External id']]}, called by {stack}")
            got.append([e["name"], functions_of(stack, "source")])
        trusted = [c for c in trusted if c[0] not in SCOPES]
        same("calls", [c for c in got if c[0] not in SCOPES], trusted)
        add = next(stack for name, stack in got if name == "AddBackward0")
        check(any("checklist_target.py" in f for f in add), f"K12: {add}")
        functions = [e for e in events if e.get("cat") == "python_function"]
        ids = [e["args"]["Python id"] for e in functions]
        check(len(set(ids)) == len(ids) and all(e["args"].get("Python parent id", ids[0]) in ids for e in functions), "ids of functions")
        detail(f"{len(got)} operators in {len(functions)} functions")


def test_k14_source_multithreaded(detail):
    """Threads from before the window and threads that begin in it have their own functions."""
    with window("do source_threads", options=("--with-stack",)) as w:
        events = load_trace(w.trace)["traceEvents"]
        tids = {name: {e["tid"] for e in events if e.get("cat") == "python_function" and e["name"].endswith(": " + name)}
                for name in ("old_thread", "new_thread", "source_threads")}
        same("K14: threads", {name: len(t) for name, t in tids.items()}, {"old_thread": 2, "new_thread": 2, "source_threads": 1})
        check(not tids["old_thread"] & tids["new_thread"] and 0 < min(map(min, tids.values())), f"K14: {tids}")
        for tid in tids["old_thread"] | tids["new_thread"]:
            found = [e["args"]["Call stack"] for e in events if e.get("tid") == tid and e["name"] == "aten::cos"]
            check(len(found) == 3 and all("_thread;" in s and "source_threads" not in s for s in found), f"K14: {found}")
        detail(f"{len(events)} events")


def test_t2_flops_and_shapes(detail):
    """Operations and rows by shape against torch's own of the same function; for SCOPES see differences.md."""
    trusted = json.loads(shared(Target).ask("torch", "flops"))
    unit = r"Total [KMG]?FLOPs"
    check(re.search(unit, trusted["table"]), "torch's own table has no operations")
    with window("do flops", options=("--with-flops",)) as w:
        table = "\n".join(run_ptbpf("report", w.capture, "--with-flops").out)
        same("T2: column", re.findall(unit, table), re.findall(unit, trusted["table"]))
        report = run_ptbpf("report", w.capture, "--with-flops", "--group-by-input-shape", "--json")
        rows = json.loads("\n".join(report.out))["rows"]
        got = sorted([r["key"], str(r["input_shapes"]), r["count"]] for r in rows if r["key"] not in SCOPES)
        same("rows by shape", got, sorted(r for r in trusted["by_shape"] if r[0] not in SCOPES))
        got = sorted([r["key"], str(r["input_shapes"]), r["flops"]] for r in rows if r.get("flops"))
        same("operations", got, sorted(trusted["flops"]))
        detail(f"{len(rows)} rows, {sum(r[2] for r in got)} operations")


def test_names_only_has_no_inputs():
    """Without an option no arguments are read."""
    with window("do event_args", options=()) as w:
        args = w.slices("aten::cat")[0]["args"]
        check(not [k for k in args if k.startswith("Input") or k == "Concrete Inputs"], f"inputs in {args}")
        done = run_ptbpf("export", w.capture, "--format", "et", "-o", w.trace + ".et.json", expect=(1, 2))
        check("--execution-trace" in done.text(), f"the missing option is not named: {done.text()}")
        same("slices", report_json(w.capture)["totals"]["annotations"], 0)
