#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks an Execution Trace against its schema and against the assumptions of its readers.

  validate_et.py FILE                    one that ptbpf wrote, .json or .json.gz
  validate_et.py FILE --chrome TRACE     and that it is of the same slices as this Chrome trace
  validate_et.py --torch FILE            one of torch's ExecutionTraceObserver: only the rules for both

Each rule names the reader that needs it: et_replay (facebookresearch/param), Chakra's linker and converter
(mlcommons/chakra), HTA (facebookresearch/HolisticTraceAnalysis). Exit: 0 valid, 1 not, 2 usage. The
schema needs the package "jsonschema"; without it a message says so, unless --need-schema is given.
"""

import argparse
import collections
import decimal
import json
import re
import sys

import validate_trace

SCHEMA = "1.1.1-chakra.0.0.4"
ROOT = "[pytorch|profiler|execution_trace|process]"
THREAD = "[pytorch|profiler|execution_trace|thread]"
GROUPS = "## process_group:init ##"  # with torch a slice, too
KEYS = ["schema", "pid", "time", "start_ts", "ptbpf", "nodes", "finish_ts", "ptbpf_nodes", "ptbpf_totals"]
ARRAYS = ["values", "shapes", "types", "strides"]
ATTRS = [("rf_id", "uint64"), ("fw_parent", "uint64"), ("seq_id", "int64"), ("scope", "uint64"), ("tid", "uint64"),
         ("fw_tid", "uint64"), ("op_schema", "string"), ("kernel_backend", "string"), ("kernel_file", "string"),
         ("tensor_range", "string")]  # the last not in every torch
INT64_MAX = 2**63 - 1
LIST_MAX = 4097
UNDEFINED = "nullptr (uninitialized)"
MISSING = ("<Unknown>", "<Cut>")
ITEMSIZE = {"unsigned char": 1, "signed char": 1, "short int": 2, "int": 4, "long int": 8, "c10::Half": 2, "float": 4,
            "double": 8, "c10::complex<float>": 8, "c10::complex<double>": 16, "bool": 1, "c10::BFloat16": 2}


class Node:
    def __init__(self, raw):
        self.raw, self.id, self.name, self.parent = raw, raw["id"], raw["name"], raw["ctrl_deps"]
        self.attrs = {a["name"]: a["value"] for a in raw["attrs"]}
        self.notes = set(self.attrs.get("ptbpf.note", "").split(",")) - {""}
        self.label = self.name in (ROOT, THREAD) or (self.name == GROUPS and not self.attrs["rf_id"])

    def __str__(self):
        return f"{self.name!r} (id {self.id}, rf_id {self.attrs.get('rf_id')})"


# ---- types: "GenericList[Int,Tensor(c10::complex<float>)]" ----

def parse_type(text, at=0):
    """(tag, dtype or None, element types or None), end; ValueError if it is not a type."""
    m = re.compile(r"[A-Z][A-Za-z]*").match(text, at)
    if not m:
        raise ValueError(f"no type at {at} of {text!r}")
    tag, at = m[0], m.end()
    if tag == "Tensor":
        end, depth = at, 0
        while end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
            if depth == 0:
                break
        if depth or text[at:at + 1] != "(" or end == at + 2:
            raise ValueError(f"a tensor without dtype in {text!r}")
        return (tag, text[at + 1:end - 1], None), end
    if tag not in ("GenericList", "Tuple"):
        return (tag, None, None), at
    if text[at:at + 1] != "[":
        raise ValueError(f"a list without elements' types in {text!r}")
    elems, at = [], at + 1
    while text[at:at + 1] != "]":
        if elems:
            if text[at:at + 1] != ",":
                raise ValueError(f"types of elements are separated by a comma alone in {text!r}")
            at += 1
        elem, at = parse_type(text, at)
        elems.append(elem)
    return (tag, None, elems), at + 1


def whole_type(text):
    kind, end = parse_type(text)
    if end != len(text):
        raise ValueError(f"something follows the type in {text!r}")
    return kind


# ---- values ----

def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def is_dims(v):
    return isinstance(v, list) and all(map(is_int, v))


def tensor_fault(dtype, v, shape, stride, lax):
    if not (isinstance(v, list) and len(v) == 6 and all(map(is_int, v[:5])) and isinstance(v[5], str)):
        return "a tensor is five integers and a device"
    if not is_dims(shape) or not is_dims(stride):
        return "a tensor's shape and strides are lists of integers"
    if len(stride) not in (0, len(shape)):
        return f"{len(shape)} sizes, {len(stride)} strides"
    if v[0] < 0 or v[1] < 0 or (not v[0] and not lax):
        return "a tensor without id"
    if dtype == UNDEFINED:
        return None if v[1:] == [0, 0, 0, 0, ""] and not shape else "an undefined tensor has neither storage nor shape"
    if not v[5]:
        return None if v[1:5] == [0, 0, 0, 0] else "a tensor without device has no storage"
    numel = 1
    for d in shape:
        numel *= d
    if shape and numel != v[3]:
        return f"{v[3]} elements in shape {shape}"
    if dtype in ITEMSIZE and v[4] != ITEMSIZE[dtype]:
        return f"an element of {dtype} has not {v[4]} bytes"
    return None


SCALARS = {
    "Int": is_int,
    "Bool": lambda v: isinstance(v, bool),
    "Double": lambda v: isinstance(v, decimal.Decimal) or v in ("inf", "-inf", "nan", "-nan"),
    "String": lambda v: isinstance(v, str),
    "Device": lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z]+(:\d+)?", v),
    "Unknown": lambda v: v in MISSING,
}


def value_fault(kind, v, shape, stride, lax):
    """What is wrong with one value, or None. et_replay: zip(types, values, shapes) at each level."""
    tag, dtype, elems = kind
    if tag == "Tensor":
        return tensor_fault(dtype, v, shape, stride, lax)
    if elems is not None:
        if not all(isinstance(x, list) for x in (v, shape, stride)):
            return "a list is a list in all four arrays"
        if len({len(elems), len(v), len(shape), len(stride)}) != 1:
            return f"{len(v)} elements, {len(elems)} types, {len(shape)} shapes, {len(stride)} strides"
        if len(v) > LIST_MAX:
            return f"a list of more than {LIST_MAX} elements"
        return next(filter(None, (value_fault(*x, lax) for x in zip(elems, v, shape, stride))), None)
    if shape != [] or stride != []:
        return f"{tag} has no shape"
    good = SCALARS[tag](v) if tag in SCALARS else v == f"<{tag}>"
    return None if good else f"{v!r} is no {tag}"


def check_values(node, findings):
    """et_replay: KeyError without one of the arrays; what they are zipped from has equal lengths."""
    lax = "unknown_values" in node.notes
    for side in ("inputs", "outputs"):
        arrays = [node.raw[side].get(k) for k in ARRAYS]
        if not all(isinstance(a, list) for a in arrays):
            findings.add("values", f"{side} without values, shapes, types and strides: {node}")
            continue
        if len({len(a) for a in arrays}) != 1:
            findings.add("values", f"{side} of lengths {[len(a) for a in arrays]}: {node}")
            continue
        for i, (v, shape, text, stride) in enumerate(zip(*arrays)):
            try:
                fault = value_fault(whole_type(text), v, shape, stride, lax)
            except ValueError as err:
                fault = str(err)
            if fault:
                findings.add("values", f"{fault}: {side} {i} of {node}: {text[:100]} {str(v)[:100]}")


# ---- nodes ----

def check_attrs(node, findings, torch):
    """Chakra: every attribute becomes one of the node, numbers as int64; et_replay: by name, int() and str()."""
    raw = node.raw["attrs"]
    if [(a["name"], a["type"]) for a in raw[:len(ATTRS)]] not in ([ATTRS, ATTRS[:-1]] if torch else [ATTRS]):
        findings.add("attrs", f"are {[a['name'] for a in raw]}: {node}")
        return
    for a in raw:
        good = isinstance(a["value"], str) if a["type"] == "string" else is_int(a["value"])
        if not good or (a["type"] != "string" and not (-1 if a["type"] == "int64" else 0) <= a["value"] <= INT64_MAX):
            findings.add("attrs", f"{a} of {node}")
    more = [a["name"] for a in raw[len(ATTRS):]]
    if not torch and (more != sorted(set(more)) or ("debug" in more and node.name != "record_param_comms")):
        findings.add("attrs", f"{more} of {node}")
    if node.label and (node.attrs["rf_id"] or node.attrs["scope"] != 7 or node.attrs["seq_id"] != -1):
        findings.add("attrs", f"a label with numbers of an operator: {node}")
    if node.attrs["scope"] == 7 and node.attrs["op_schema"]:
        findings.add("attrs", f"an annotation with a schema: {node}")


def check_ids(nodes, findings):
    """et_replay: nodes by id, a second one replaces the first. Chakra, HTA: a slice by its rf_id."""
    for what, cnt in (("id", collections.Counter(n.id for n in nodes)),
                      ("rf_id", collections.Counter(n.attrs["rf_id"] for n in nodes if not n.label))):
        for value, times in cnt.items():
            if times > 1 or value < 1:
                findings.add("ids", f"{what} {value}, {times} times")


def check_tree(nodes, findings, torch):
    """Chakra: starts at node 1 and follows the children; et_replay: a node whose parent is missing has no parent."""
    by_id = {n.id: n for n in nodes}
    roots = [n for n in nodes if n.name == ROOT]
    if len(roots) != 1 or roots[0].id != 1 or roots[0].parent != 1 or nodes[-1] is not roots[0]:
        findings.add("tree", f"not one root, last, of id 1: {[str(n) for n in roots]}")
        return
    state = {1: True}
    for n in nodes:
        path = []
        while n.id not in state:
            state[n.id] = None
            path.append(n)
            if n.parent not in by_id:
                findings.add("tree", f"parent {n.parent} is not there: {n}")
                break
            n = by_id[n.parent]
        else:
            if state[n.id] is None and path:
                findings.add("tree", f"is its own ancestor: {n}")
        for p in path:
            state[p.id] = True
    for n in nodes:
        check_place(n, by_id, findings, torch)


def check_place(n, by_id, findings, torch):
    """et_replay: children in order of id are in order of execution; a thread is a child of the root."""
    parent = by_id.get(n.parent)
    if n.id == 1 or not parent:
        return
    if n.name == THREAD:
        if n.parent != 1:
            findings.add("tree", f"a thread not under the root: {n}")
        return
    if parent.id == 1:
        findings.add("tree", f"under no thread: {n}")
    elif parent.attrs["tid"] != n.attrs["tid"]:
        findings.add("tree", f"on another thread than its parent {parent}: {n}")
    elif parent.name != THREAD and n.id < parent.id:
        findings.add("tree", f"before its parent {parent}: {n}")
    forward = n.attrs["fw_parent"]
    if forward and forward not in by_id and not torch:
        findings.add("tree", f"fw_parent {forward} is not there: {n}")


def check_threads(nodes, findings):
    """et_replay: the node of a thread by its tid; torch: written before the thread's first node."""
    seen = set()
    for n in nodes:
        tid = n.attrs["tid"]
        if n.name == THREAD and tid in seen:
            findings.add("threads", f"tid {tid} twice: {n}")
        if n.name == THREAD:
            seen.add(tid)
        elif n.id != 1 and tid not in seen:
            findings.add("threads", f"no thread {tid} before {n}")
    if seen != set(range(1, len(seen) + 1)):
        findings.add("threads", f"are {sorted(seen)}")


def check_identity(nodes, findings, torch):
    """Ids of tensors, storages and nodes are from one sequence: no id belongs to two kinds."""
    tensors, storages = set(), set()
    for n in nodes:
        for side in ("inputs", "outputs"):
            for v in flat(n.raw[side]["values"]):
                tensors.add(v[0])
                storages.add(v[1])
    tensors.discard(0)
    storages.discard(0)
    if torch:  # torch derives ids from addresses, which are reused
        return len(tensors), len(storages)
    for what, both in (("tensor and storage", tensors & storages),
                       ("node and tensor", tensors & {n.id for n in nodes}),
                       ("node and storage", storages & {n.id for n in nodes})):
        if both:
            findings.add("identity", f"{what}: {sorted(both)[:5]}")
    return len(tensors), len(storages)


def flat(values):
    for v in values:
        if isinstance(v, list) and len(v) == 6 and isinstance(v[5], str) and all(map(is_int, v[:5])):
            yield v
        elif isinstance(v, list):
            yield from flat(v)


def check_steps(nodes, findings):
    """HTA, et_replay: iterations are annotations with this name and a number."""
    for n in nodes:
        if n.name.startswith("ProfilerStep") and not re.fullmatch(r"ProfilerStep#\d+", n.name):
            findings.add("steps", f"a name that readers refuse: {n}")


# ---- document ----

def check_document(doc, findings, torch):
    """Chakra's converter: schema is one of its list, these five keys are there; et_replay: schema, pid, nodes."""
    if doc.get("schema") != SCHEMA:
        findings.add("document", f"schema {doc.get('schema')!r}")
    missing = [k for k in ("schema", "pid", "time", "start_ts", "finish_ts", "nodes") if k not in doc]
    if missing:
        findings.add("document", f"without {missing}")
        return
    if not (is_int(doc["pid"]) and is_int(doc["start_ts"]) and is_int(doc["finish_ts"])):
        findings.add("document", "pid, start_ts and finish_ts are integers")
    elif doc["finish_ts"] < doc["start_ts"]:
        findings.add("document", "ends before it begins")
    if not isinstance(doc["nodes"], list):
        findings.add("document", "nodes is a list")
    if not torch and list(doc) != KEYS:
        findings.add("document", f"keys are {list(doc)}")


def check_account(doc, nodes, findings, tensors, storages):
    """What the document says about itself is true."""
    account = doc["ptbpf_nodes"]
    counts = {"nodes": len(nodes), "threads": sum(n.name == THREAD for n in nodes), "tensors": tensors,
              "storages": storages, "no_inputs": sum("no_inputs" in n.notes for n in nodes),
              "no_outputs": sum("no_outputs" in n.notes for n in nodes),
              "other_processes": max(len(doc["ptbpf"]["targets"]) - 1, 0)}
    for key, cnt in counts.items():
        if account[key] != cnt:
            findings.add("account", f"says {account[key]} {key}, there are {cnt}")
    for n in nodes:
        text = json.dumps([n.raw["inputs"]["values"], n.raw["outputs"]["values"]], default=str)
        for mark, note in (('"<Unknown>"', "unknown_values"), ("<Cut>", "cut_values")):
            if mark in text and note not in n.notes:
                findings.add("account", f"{mark} without a note: {n}")
        for side, note in (("inputs", "no_inputs"), ("outputs", "no_outputs")):
            if note in n.notes and n.raw[side]["values"]:
                findings.add("account", f"noted as {note}: {n}")
    for note in ("unknown_values", "cut_values"):
        noted = sum(note in n.notes for n in nodes)
        if account[note] < noted or (account[note] and not noted):
            findings.add("account", f"says {account[note]} {note}, {noted} nodes do")
    if doc["pid"] and doc["pid"] not in [t["pid"] for t in doc["ptbpf"]["targets"]]:
        findings.add("account", f"pid {doc['pid']} is no target")


def check_chrome(doc, nodes, path, findings):
    """Chakra's linker, HTA: rf_id is the Record function id and the External id of one slice of the trace."""
    try:
        _, trace = validate_trace.read(path)
    except (OSError, ValueError, EOFError) as err:
        findings.add("chrome", str(err))
        return
    slices = {}
    for e in trace["traceEvents"]:
        if validate_trace.is_cpu(e) and e["pid"] == doc["pid"]:
            slices.setdefault(e["args"].get("Record function id", -1), []).append(e)
            if e["args"].get("Record function id") != e["args"].get("External id"):
                findings.add("chrome", f"Record function id and External id differ: {e['name']!r} {e['args']}")
    ours = {n.attrs["rf_id"]: n for n in nodes if not n.label}
    for rf_id in sorted(ours.keys() ^ slices.keys()):
        where = "in the Execution Trace only" if rf_id in ours else "in the Chrome trace only"
        findings.add("chrome", f"rf_id {rf_id} is {where}")
    tids = {}
    for rf_id in ours.keys() & slices.keys():
        n, e = ours[rf_id], slices[rf_id][0]
        if len(slices[rf_id]) > 1 or n.name != e["name"]:
            findings.add("chrome", f"{n} is {[s['name'] for s in slices[rf_id]]} there")
        if tids.setdefault(n.attrs["tid"], e["tid"]) != e["tid"]:
            findings.add("chrome", f"tid {n.attrs['tid']} is both {tids[n.attrs['tid']]} and {e['tid']}: {n}")
        types = e["args"].get("Input type", [])
        if types and len(types) != len(n.raw["inputs"]["types"]) and not {"cut_values"} & n.notes:
            findings.add("chrome", f"{len(types)} inputs there: {n}")
    if len(set(tids.values())) != len(tids):
        findings.add("chrome", f"two tids of one thread: {tids}")


def check(path, args):
    findings = validate_trace.Findings()
    try:
        _, doc = validate_trace.read(path)
    except (OSError, ValueError, EOFError) as err:
        findings.add("read", str(err))
        return findings, "nothing"
    if not args.torch:
        validate_trace.check_schema("execution_trace", doc, findings, args.need_schema)
    if not findings.by_rule:
        check_document(doc, findings, args.torch)
    if findings.by_rule:  # the rules below rely on these
        return findings, "nothing"
    nodes = [Node(raw) for raw in doc["nodes"]]
    for n in nodes:
        check_attrs(n, findings, args.torch)
        check_values(n, findings)
    if findings.by_rule:
        return findings, "nothing"
    check_ids(nodes, findings)
    check_tree(nodes, findings, args.torch)
    check_threads(nodes, findings)
    check_steps(nodes, findings)
    tensors, storages = check_identity(nodes, findings, args.torch)
    if not args.torch:
        check_account(doc, nodes, findings, tensors, storages)
    if args.chrome:
        check_chrome(doc, nodes, args.chrome, findings)
    ops = sum(bool(n.attrs["op_schema"]) for n in nodes)
    return findings, f"{len(nodes)} nodes, {ops} operators, {tensors} tensors, {storages} storages"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", metavar="FILE")
    ap.add_argument("--chrome", metavar="TRACE")
    ap.add_argument("--torch", action="store_true")
    ap.add_argument("--need-schema", action="store_true")
    args = ap.parse_args()
    findings, what = check(args.file, args)
    findings.print(args.file)
    if findings.by_rule:
        sys.exit(1)
    print(f"{args.file}: valid: {what}")


if __name__ == "__main__":
    main()
