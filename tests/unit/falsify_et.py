# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/validate_et.py accepts ptbpf's output, and refuses each of many small falsifications of it.

  falsify_et.py     (test_validators.py)
"""

import argparse
import copy
import gzip
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from falsify import TOOLS, Us, main  # noqa: E402
import validate_et  # noqa: E402

VALIDATOR = os.path.join(TOOLS, "validate_et.py")


def node(doc, name, nr=0):
    return [n for n in doc["nodes"] if name in n["name"]][nr]


def attr(n, name):
    return next(a for a in n["attrs"] if a["name"] == name)


def slices(trace, name):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and name in e["name"]]


# ---- of the document; (rule that must find it, change of a valid trace) ----

def other_schema(d): d["schema"] = "1.0.4-chakra.0.0.4"
def unknown_key(d): d["extra"] = 1
def no_finish(d): del d["finish_ts"]
def text_pid(d): d["pid"] = "100"
def odd_time(d): d["time"] = "2026-11-21T08:00:00"
def no_nodes(d): d["nodes"] = []
def no_account(d): del d["ptbpf_nodes"]["cut_values"]
def node_key(d): node(d, "mul_")["ts"] = 1
def text_id(d): node(d, "mul_")["id"] = "8"
def list_of_parents(d): node(d, "mul_")["ctrl_deps"] = [6]
def no_strides(d): del node(d, "mul_")["inputs"]["strides"]
def text_shapes(d): node(d, "mul_")["inputs"]["shapes"] = "[[2, 3], []]"
def null_value(d): node(d, "empty")["inputs"]["values"][2] = None
def lower_type(d): node(d, "empty")["inputs"]["types"][1] = "int"
def order_of_attrs(d): node(d, "mul_")["attrs"].insert(0, node(d, "mul_")["attrs"].pop(1))
def attr_type(d): attr(node(d, "mul_"), "rf_id")["type"] = "int64"
def attr_text(d): attr(node(d, "mul_"), "tid")["value"] = "1"
def attr_less(d): node(d, "mul_")["attrs"].pop()
def unknown_note(d): attr(node(d, "wait"), "ptbpf.note")["value"] = "late"
def unknown_attr(d): node(d, "mul_")["attrs"].append({"name": "colour", "type": "string", "value": "{}"})

def ends_before(d): d["finish_ts"] = d["start_ts"] - 1
def order_of_keys(d): d.update(pid=d.pop("pid"))

def huge_number(d): attr(node(d, "mul_"), "tid")["value"] = 2**63
def thread_with_rf_id(d): attr(node(d, "|thread"), "rf_id")["value"] = 77
def annotation_schema(d): attr(node(d, "train"), "op_schema")["value"] = "aten::train() -> ()"
def debug_elsewhere(d): node(d, "cat")["attrs"].append({"name": "debug", "type": "string", "value": "missing comms info"})

def id_twice(d): node(d, "cat")["id"] = node(d, "empty")["id"]
def rf_id_twice(d): attr(node(d, "cat"), "rf_id")["value"] = attr(node(d, "empty"), "rf_id")["value"]
def rf_id_zero(d): attr(node(d, "cat"), "rf_id")["value"] = 0

def no_root(d): d["nodes"].pop()
def root_first(d): d["nodes"].insert(0, d["nodes"].pop())
def root_id(d): d["nodes"][-1]["id"] = 99
def dangling(d): node(d, "cat")["ctrl_deps"] = 1000
def cycle(d): node(d, "train")["ctrl_deps"] = node(d, "mul_")["id"]
def thread_in_op(d): node(d, "|thread")["ctrl_deps"] = node(d, "train")["id"]
def under_root(d): node(d, "cat")["ctrl_deps"] = 1
def other_thread(d): attr(node(d, "cat"), "tid")["value"] = 2
def before_parent(d): node(d, "cat")["id"] = 5000; node(d, "empty")["ctrl_deps"] = 5000
def dangling_forward(d): attr(node(d, "MulBackward0", 0), "fw_parent")["value"] = 1000

def thread_after(d): d["nodes"].insert(3, d["nodes"].pop(0))
def tid_twice(d): attr(node(d, "|thread", 1), "tid")["value"] = 1
def tid_from_zero(d):
    for n in d["nodes"]:
        a = attr(n, "tid")
        a["value"] = {2: 3}.get(a["value"], a["value"])

def odd_step(d): node(d, "ProfilerStep")["name"] = "ProfilerStep*"

def one_value_less(d): node(d, "empty")["inputs"]["values"].pop()
def one_element_less(d): node(d, "empty")["inputs"]["values"][0].pop()
def element_shapes(d): node(d, "empty")["inputs"]["shapes"][0] = []
def blank_in_type(d): node(d, "empty")["inputs"]["types"][0] = "GenericList[Int, Int]"
def open_type(d): node(d, "empty")["inputs"]["types"][0] = "GenericList[Int,Int)"
def tail_of_type(d): node(d, "mul_")["inputs"]["types"][0] = "Tensor(float)]"
def no_dtype(d): node(d, "mul_")["inputs"]["types"][0] = "Tensor()"
def five_of_six(d): node(d, "mul_")["inputs"]["values"][0].pop(2)
def tensor_text(d): node(d, "mul_")["inputs"]["values"][0] = "<Tensor>"
def tensor_float(d): node(d, "mul_")["inputs"]["values"][0][3] = Us("6.0")
def no_tensor_id(d): node(d, "mul_")["inputs"]["values"][0][0] = 0
def other_numel(d): node(d, "mul_")["inputs"]["values"][0][3] = 7
def other_itemsize(d): node(d, "mul_")["inputs"]["values"][0][4] = 8
def stride_less(d): node(d, "mul_")["inputs"]["strides"][0].pop()
def no_device(d): node(d, "mul_")["inputs"]["values"][0][5] = ""
def undefined_shape(d): node(d, "TEST")["inputs"]["shapes"][4][1] = [2]
def int_with_shape(d): node(d, "empty")["inputs"]["shapes"][1] = [1]
def int_is_bool(d): node(d, "empty")["inputs"]["values"][1] = True
def bool_is_int(d): node(d, "empty")["inputs"]["values"][4] = 0
def double_is_int(d): node(d, "mul_")["inputs"]["values"][1] = 1
def double_text(d): node(d, "TEST")["inputs"]["values"][1] = "infinity"
def string_is_int(d): node(d, "TEST")["inputs"]["values"][0] = 5
def device_text(d): node(d, "empty")["inputs"]["values"][3] = "cpu:x"
def none_text(d): node(d, "empty")["inputs"]["values"][2] = "None"
def tag_text(d): node(d, "TEST")["inputs"]["values"][5] = "<Stream>"
def unknown_number(d): node(d, "odd")["inputs"]["values"][0] = 5
def long_list(d):
    for part, x in zip(validate_et.ARRAYS, (1, [], None, [])):
        node(d, "empty")["inputs"][part][0] = "GenericList[" + ",".join(["Int"] * 4098) + "]" if x is None else [x] * 4098

def storage_is_tensor(d):
    for v in validate_et.flat(x for n in d["nodes"] for s in ("inputs", "outputs") for x in n[s]["values"]):
        v[1] = v[0] if v[1] else 0
def tensor_is_node(d): node(d, "cat")["outputs"]["values"][0][0] = node(d, "cat")["id"]

def one_node_less(d): d["nodes"].remove(node(d, "cat"))
def said_less(d): d["ptbpf_nodes"]["unknown_values"] = 0
def said_more(d): d["ptbpf_nodes"]["no_inputs"] = 1
def without_note(d): node(d, "odd")["attrs"].pop()
def noted_for_nothing(d): attr(node(d, "wait"), "ptbpf.note")["value"] = "no_inputs,unfinished"
def foreign_pid(d): d["pid"] = 7
def hidden_process(d): d["ptbpf_nodes"]["other_processes"] = 1

RULES = {
    "schema": (other_schema, unknown_key, no_finish, text_pid, odd_time, no_nodes, no_account, node_key, text_id,
               list_of_parents, no_strides, text_shapes, null_value, lower_type, order_of_attrs, attr_type, attr_text, attr_less,
               unknown_note, unknown_attr),
    "document": (ends_before, order_of_keys),
    "attrs": (huge_number, thread_with_rf_id, annotation_schema, debug_elsewhere),
    "ids": (id_twice, rf_id_twice, rf_id_zero),
    "tree": (no_root, root_first, root_id, dangling, cycle, thread_in_op, under_root, other_thread, before_parent,
             dangling_forward),
    "threads": (thread_after, tid_twice, tid_from_zero),
    "steps": (odd_step,),
    "values": (one_value_less, one_element_less, element_shapes, blank_in_type, open_type, tail_of_type, no_dtype, five_of_six,
               tensor_text, tensor_float, no_tensor_id, other_numel, other_itemsize, stride_less, no_device, undefined_shape,
               int_with_shape, int_is_bool, bool_is_int, double_is_int, double_text, string_is_int, device_text, none_text,
               tag_text, unknown_number, long_list),
    "identity": (storage_is_tensor, tensor_is_node),
    "account": (one_node_less, said_less, said_more, without_note, noted_for_nothing, foreign_pid, hidden_process),
}

# Falsifications that a schema finds, too, found without it: by the rules for torch's own files.
TORCH = {"document": (other_schema, no_finish, text_pid), "values": (no_strides,), "attrs": (order_of_attrs, attr_text)}


# ---- of the Chrome trace beside it ----

def slice_less(t): t["traceEvents"].remove(slices(t, "aten::cat")[0])
def slice_more(t):
    e = copy.deepcopy(slices(t, "aten::cat")[0])
    e["args"].update({"External id": 99, "Record function id": 99})
    t["traceEvents"].insert(0, e)
def slice_twice(t): t["traceEvents"].insert(0, copy.deepcopy(slices(t, "aten::cat")[0]))
def other_name(t): slices(t, "aten::cat")[0]["name"] = "aten::stack"
def no_rf_id(t): del slices(t, "aten::cat")[0]["args"]["Record function id"]
def other_external_id(t): slices(t, "aten::cat")[0]["args"]["External id"] = 98
def other_tid(t): slices(t, "aten::cat")[0]["tid"] = 101
def same_tid(t):
    for e in slices(t, "MulBackward0"):
        e["tid"] = 100
def input_less(t): slices(t, "aten::cat")[0]["args"]["Input type"].pop()


CHROME = (slice_less, slice_more, slice_twice, other_name, no_rf_id, other_external_id, other_tid, same_tid, input_less)

TEXTS = [
    ("NaN", lambda t: t.replace("1.500000", "NaN")),
    ("key twice", lambda t: t.replace('"id": 1,', '"id": 1, "id": 1,')),
    ("cut", lambda t: t[:-20]),
    ("name not escaped", lambda t: t.replace('\\"TEST\\"', '"TEST"')),
]


def run(f):
    f.capture("validators/execution_trace")
    et, trace = f.ptbpf("t.et.json"), f.ptbpf("t.trace.json")

    def check(path, **how):
        return validate_et.check(path, argparse.Namespace(**{"torch": False, "need_schema": False, "chrome": None, **how}))[0]

    with open(et, "rb") as plain, gzip.open(et + ".gz", "wb") as packed:
        packed.write(plain.read())
    for args in ([et, "--chrome", trace], [et + ".gz"], ["--torch", et]):
        f.must_be_valid(*args, tool=VALIDATOR)
    f.rows(et, [(rule, change) for rule, changes in RULES.items() for change in changes], found_in=check)
    f.rows(et, [(rule, change) for rule, changes in TORCH.items() for change in changes], found_in=lambda path: check(path, torch=True))
    f.rows(trace, [("chrome", change) for change in CHROME], float, lambda path: check(et, chrome=path))
    with open(et, encoding="utf-8") as whole:
        text = whole.read()
    for what, change in TEXTS:
        assert change(text) != text, what
        f.text("read", what, change(text), check)
    f.must_be_told(f.false, tool=VALIDATOR)


if __name__ == "__main__":
    main(run)
