# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/validate_trace.py accepts ptbpf's output, and refuses each of many small falsifications of it.

  falsify_trace.py     (test_validators.py)
"""

import copy
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from falsify import Us, dump, main, us  # noqa: E402


def slices(doc, name=None):
    return [e for e in doc["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace" and (not name or e["name"] == name)]


def marked(doc, kind):
    return next(e for e in doc["traceEvents"] if e.get("name") == kind or e["ph"] == kind)


def counters(doc, name):
    return [e for e in doc["traceEvents"] if e["ph"] == "C" and e["name"] == name]


def counter(doc, name):
    return counters(doc, name)[0]


def functions(doc, name):
    return [e for e in doc["traceEvents"] if e.get("cat") == "python_function" and e["name"] == name]


def memory(doc):
    return [e for e in doc["traceEvents"] if e["name"] == "[memory]" and e["args"]["Device Type"] == 0]


def IDS(e):
    return {k: e["args"][k] for k in ("External id", "Record function id", "Ev Idx")}


# (rule that must find it, change of a valid trace)
def swap_phase(d): marked(d, "s")["ph"] = "t"
def unknown_arg(d): slices(d)[0]["args"]["stream"] = 7
def unknown_key(d): d["WARNING"] = ["x"]
def text_number(d): slices(d)[0]["ts"] = "1.000"
def text_id(d): slices(d)[0]["args"]["External id"] = "1"
def lower_trace_id(d): d["trace_id"] = d["trace_id"].lower()
def gpu_category(d): slices(d)[0]["cat"] = "kernel"
def no_args(d): slices(d)[0]["args"] = {}
def half_sequence(d): del slices(d, "aten::addmm")[0]["args"]["Fwd thread id"]
def one_array_less(d): del slices(d, "aten::addmm")[0]["args"]["Input Dims"]
def odd_type(d): slices(d, "aten::addmm")[0]["args"]["Input type"][0] = "float32"
def text_dims(d): slices(d, "aten::addmm")[0]["args"]["Input Dims"][0] = "[8, 32]"
def number_value(d): slices(d, "aten::addmm")[0]["args"]["Concrete Inputs"][3] = 0.5
def one_input_less(d): slices(d, "aten::addmm")[0]["args"]["Concrete Inputs"].pop()
def stride_less(d): slices(d, "aten::addmm")[0]["args"]["Input Strides"][0].pop()
def list_stride_less(d): slices(d, "aten::addmm")[0]["args"]["Input Strides"][1].pop()
def flat_list(d): slices(d, "aten::addmm")[0]["args"]["Input Dims"][1] = [8, 32]
def shape_of_none(d): slices(d, "aten::addmm")[0]["args"]["Input Dims"][2] = [1]
def no_scalar(d): slices(d, "aten::addmm")[0]["args"]["Concrete Inputs"][3] = ""
def bare_list(d): slices(d, "aten::addmm")[0]["args"]["Concrete Inputs"][4] = "8, 32"
def value_of_tensor(d): slices(d, "aten::addmm")[0]["args"]["Concrete Inputs"][0] = "1"
def value_of_none(d): slices(d, "aten::addmm")[0]["args"]["Concrete Inputs"][2] = "None"
def other_parent(d): functions(d, "train.py(10): forward")[1]["args"]["Python parent id"] += 1
def no_parent(d): del functions(d, "train.py(10): forward")[0]["args"]["Python parent id"]
def python_id_twice(d): functions(d, "train.py(10): forward")[0]["args"]["Python id"] += 1
def other_function(d): functions(d, "train.py(10): forward")[0]["name"] = "train.py(10): backward"
def function_is_gone(d): d["traceEvents"].remove(functions(d, "train.py(10): forward")[0])
def crossing_function(d): functions(d, "train.py(10): forward")[0]["dur"] = us(500500)
def not_derived(d): del functions(d, "train.py(1): <module>")[0]["args"]["ptbpf.derived"]
def missing_counter(d): del d["ptbpf_totals"]["totals"]["unwound"]
def odd_base(d): d["baseTimeNanoseconds"] += 1
def two_ids(d): slices(d)[3]["args"].update(IDS(slices(d)[0]))
def other_rf_id(d): slices(d)[3]["args"]["Record function id"] += 1
def order_of_ids(d):
    a, b = slices(d, "aten::linear")[:2]
    ids = IDS(a)
    a["args"].update(IDS(b)), b["args"].update(ids)
def overlap_by_1ns(d): slices(d, "aten::addmm")[0]["dur"] = us(998501)
def no_duration(d): slices(d)[0]["dur"] = us(0)
def two_decimals(d): slices(d)[0]["dur"] = Us("1.50")
def four_decimals(d): slices(d)[0]["ts"] = slices(d)[0]["ts"] + "0"
def flow_one_end(d): d["traceEvents"].remove(marked(d, "f"))
def flow_moved(d): marked(d, "s")["ts"] = marked(d, "Iteration Start: PyTorch Profiler")["ts"]
def flow_other_sequence(d): slices(d, "aten::addmm")[0]["args"]["Sequence number"] = 99
def flow_twice(d): d["traceEvents"].insert(9, copy.deepcopy(marked(d, "s")))
def before_window(d): marked(d, "Iteration Start: PyTorch Profiler")["ts"] = us(1)
def after_window(d): slices(d, "aten::copy_")[0]["dur"] = us(10**8 + 1)
def end_not_last(d): d["traceEvents"].append(d["traceEvents"].pop(0))
def no_end(d): d["traceEvents"].pop()
def longer_window(d): d["ptbpf"]["window"]["duration_ns"] += 1
def moved_window(d): d["ptbpf"]["window"]["begin_unix_ns"] += 1000
def no_thread_name(d): d["traceEvents"].remove(marked(d, "thread_name"))
def two_process_names(d): d["traceEvents"].insert(0, copy.deepcopy(marked(d, "process_name")))
def foreign_pid(d): d["ptbpf"]["targets"].pop()
def bad_step(d): slices(d, "ProfilerStep#1")[0]["name"] = "ProfilerStep*"
def one_slice_less(d): d["traceEvents"].remove(slices(d, "aten::copy_")[0])
def unmarked(d): del next(e for e in slices(d) if "ptbpf.unwound" in e["args"])["args"]["ptbpf.unwound"]
def hidden_loss(d): d["traceEvents"].remove(marked(d, "LOST records"))
def said_complete(d): d["ptbpf_totals"]["complete"] = True
def other_sentence(d): d["ptbpf_totals"]["account"] = "complete: nothing lost"
def hidden_refusal(d): d["ptbpf"]["refused"]["functions"] = []
def memory_addr_text(d): marked(d, "[memory]")["args"]["Addr"] = "0x7f"
def memory_with_dur(d): marked(d, "[memory]")["dur"] = us(1)
def oom_with_addr(d): marked(d, "[OutOfMemory]")["args"]["Addr"] = 1
def api_as_runtime(d): marked(d, "cudaMalloc")["cat"] = "cuda_runtime"
def counter_text(d): counter(d, "RSS")["args"]["swap"] = "0"
def counter_other(d): counter(d, "RSS")["name"] = "RAM"
def stall_no_duration(d): del marked(d, "reclaim stall")["args"]["Duration us"]
def kernel_slice(d): marked(d, "OOM kill").update({"ph": "X", "dur": us(5)})
def faults_none(d): slices(d, "aten::addmm")[0]["args"]["Page Faults"] = 0
def memory_total(d): memory(d)[3]["args"]["Total Allocated"] += 1
def memory_freed_more(d): next(e for e in memory(d) if e["args"]["Bytes"] < 0)["args"]["Addr"] += 8
def memory_index(d): memory(d)[2]["args"]["Ev Idx"] = memory(d)[1]["args"]["Ev Idx"]
def counter_lower_peak(d): max(counters(d, "torch allocated, CPU"), key=lambda e: e["args"]["bytes"])["args"]["bytes"] -= 1
def counter_lost_end(d): d["traceEvents"].remove(counters(d, "torch allocated, CPU")[-1])
def counter_back(d):
    a, b = counters(d, "RSS")[:2]
    a["ts"], b["ts"] = b["ts"], a["ts"]
def counter_outside(d): counters(d, "RSS")[-1]["ts"] = us(1)
def name_first(d):
    name = d.pop("traceName")
    items = list(d.items())
    d.clear()
    d.update([("traceName", name)] + items)
def rank_too_large(d): d["distributedInfo"]["rank"] = 1


FALSE = [("schema", f) for f in (swap_phase, unknown_arg, unknown_key, text_number, text_id, lower_trace_id, gpu_category, no_args,
                                 half_sequence, missing_counter, odd_base, one_array_less, odd_type, text_dims,
                                 number_value, memory_addr_text, memory_with_dur, oom_with_addr, api_as_runtime,
                                 counter_text, counter_other, stall_no_duration, kernel_slice, faults_none, not_derived)]
FALSE += [("inputs", f) for f in (one_input_less, stride_less, list_stride_less, flat_list, shape_of_none, no_scalar, bare_list,
                                  value_of_tensor, value_of_none)]
FALSE += [("ids", f) for f in (two_ids, other_rf_id, order_of_ids)]
FALSE += [("nesting", f) for f in (overlap_by_1ns, no_duration, crossing_function)]
FALSE += [("python", f) for f in (other_parent, no_parent, python_id_twice, other_function, function_is_gone)]
FALSE += [("times", f) for f in (two_decimals, four_decimals)]
FALSE += [("flows", f) for f in (flow_one_end, flow_moved, flow_other_sequence, flow_twice)]
FALSE += [("memory", f) for f in (memory_total, memory_freed_more, memory_index, counter_lower_peak, counter_lost_end,
                                  counter_back)]
FALSE += [("window", counter_outside)]
FALSE += [("window", f) for f in (before_window, after_window, end_not_last, no_end, longer_window, moved_window)]
FALSE += [("tracks", f) for f in (no_thread_name, two_process_names, foreign_pid)]
FALSE += [("steps", bad_step)]
FALSE += [("account", f) for f in (one_slice_less, unmarked, hidden_loss, said_complete, other_sentence, hidden_refusal)]
FALSE += [("layout", f) for f in (name_first, rank_too_large)]

def report_growing(d): d["processes"][0]["growing"][0]["periods"] = 0
def report_order(d): d["processes"][0]["live"].reverse()
def report_live(d): d["processes"][0]["live_bytes"] += 1
def report_peak(d): d["processes"][0]["devices"][0]["peak"]["bytes"] = 1
def report_freed(d): d["processes"][0]["devices"][0]["freed_bytes"] += 1
def report_key(d): d["processes"][0]["rss"]["peak"]["all"] = 1
def report_oom(d): d["processes"][0]["out_of_memory"][0]["by"] = "kernel"
def report_no_operator(d): del d["processes"][0]["growing"][0]["operator"]


FALSE_REPORT = [("schema", f) for f in (report_key, report_oom, report_no_operator)]
FALSE_REPORT += [("rows", f) for f in (report_growing, report_order, report_live, report_peak, report_freed)]

# the same on the text of the file
TEXTS = [
    ("read", "NaN", lambda t: t.replace('"Op count": 0', '"Op count": NaN')),
    ("read", "key twice", lambda t: t.replace('"ph": "X", ', '"ph": "X", "ph": "X", ', 1)),
    ("read", "cut", lambda t: t[:-20]),
    ("read", "raw newline in a name", lambda t: t.replace("aten::addmm", "aten::\naddmm", 1)),
    ("layout", "no blank before the rank", lambda t: t.replace('"rank": 0', '"rank":0')),
]


def run(f):
    f.capture("validators/trace")
    trace = f.ptbpf("t.trace.json")
    f.must_be_valid(trace, f.ptbpf("t.trace.json.gz"), f.ptbpf("r.json", "report", "--json", "--row-limit", "-1"))
    with open(trace, encoding="utf-8") as valid:
        text = valid.read()
    with open(trace, "w", encoding="utf-8") as again:
        again.write(dump(json.loads(text, parse_float=Us)))
    f.must_be_valid(trace)  # read and written again
    f.rows(trace, FALSE)
    f.must_be_told(f.false)
    for rule, what, change in TEXTS:
        assert change(text) != text, what
        f.text(rule, what, change(text))
    f.capture("report/memory_leak")
    memory_report = f.ptbpf("m.json", "report", "--memory", "--json", "--row-limit", "-1")
    f.must_be_valid(memory_report)
    f.rows(memory_report, FALSE_REPORT, float)
    f.capture("export/stacks")
    for words in (("--by", "line"), ("--by", "line", "--all-lines"), ("--group-by-stack-n", "3"), ("--memory",)):
        f.must_be_valid(f.ptbpf("l.json", "report", "--json", "--row-limit", "-1", *words))
    f.capture("samples/operators")
    f.must_be_valid(f.ptbpf("o.json", "report", "--json", "--by", "operator"))


if __name__ == "__main__":
    main(run)
