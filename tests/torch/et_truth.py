# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Reads Execution Traces, torch's (schemas 1.0.1 and 1.1.1) and ptbpf's, into nodes of one form. Numbers with a fraction stay
texts. Known differences are the subject of compare_et.py."""

import gzip
import json
import re

from truth import PAYLOAD

PROCESS = re.compile(r"\[pytorch\|profiler\|execution_(trace|graph)\|process\]$")
THREAD = re.compile(r"\[pytorch\|profiler\|execution_(trace|graph)\|thread\]$")
# a node's own name: between "id" and "ctrl_deps" or, in schema 1.0.1, before "id"
NAME = re.compile(r'^( *(?:"id": \d+, )?"name": )"(.*)"(, (?:"ctrl_deps"|"id": \d+, "rf_id"))', re.M)
KINDS = ("values", "shapes", "types", "strides")


class Text(str):
    """A number with a fraction, as written."""


class EtNode:
    __slots__ = ("id", "name", "parent", "inputs", "outputs", "attrs", "cat", "args")

    def __init__(self, id, name, parent, inputs, outputs, attrs):
        self.id, self.name, self.parent = id, name, parent
        self.inputs, self.outputs, self.attrs = inputs, outputs, attrs
        self.cat = "user_annotation" if attrs.get("scope") == 7 else "cpu_op"
        self.args = {}


class EtPayload:
    """Nodes of one payload in the order of their begin, by thread; the payload's own thread is `main`."""

    def __init__(self, root):
        self.root, self.main, self.threads = root, root.attrs["tid"], {}


class Et:
    def __init__(self, document):
        self.schema = document["schema"]
        self.pid = document["pid"]
        self.nodes, self.specials, self.payloads = {}, {}, {}
        self.derived = {}  # ptbpf's own steps and their parents


def nested_node(raw):
    return EtNode(raw["id"], raw["name"], raw["ctrl_deps"], raw["inputs"], raw["outputs"],
                  {a["name"]: a["value"] for a in raw["attrs"]})


def flat_node(raw):
    """Schema 1.0.1 has all fields on one level, and no strides."""
    ends = [{"values": raw[end], "shapes": raw[end[:-1] + "_shapes"], "types": raw[end[:-1] + "_types"]}
            for end in ("inputs", "outputs")]
    attrs = {k: raw[k] for k in ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")}
    return EtNode(raw["id"], raw["name"], raw["parent"], *ends, attrs)


def read_document(path, own):
    """own: written by torch, which does not escape names (nor texts, in schema 1.0.1): they are escaped first."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace" if own else "strict") as f:
        text = f.read()
    if own:
        text = NAME.sub(lambda m: m[1] + json.dumps(m[2]) + m[3], text)
    return json.loads(text, strict=not own, parse_float=Text)


def load(path, own=False):
    document = read_document(path, own)
    et = Et(document)
    make = flat_node if et.schema == "1.0.1" else nested_node
    for raw in document["nodes"]:
        node = make(raw)
        if node.id in et.nodes or node.id in et.specials:
            raise ValueError(f"two nodes have the id {node.id}")
        special = PROCESS.match(node.name) or THREAD.match(node.name)
        (et.specials if special else et.nodes)[node.id] = node
        if "derived" in node.attrs.get("ptbpf.note", "").split(","):
            et.derived[node.id] = node.parent
    divide(et)
    return et


def divide(et):
    """Ids are assigned on entry, so a payload has all nodes from its annotation to the next one's."""
    current = None
    for _, node in sorted(et.nodes.items()):
        m = PAYLOAD.match(node.name)
        if m and node.cat == "user_annotation":
            current = et.payloads[m.groups()] = EtPayload(node)
        elif current:
            current.threads.setdefault(node.attrs["tid"], []).append(node)
