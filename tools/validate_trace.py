#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks a trace (or a JSON report) against its schema and against rules that a schema cannot express.

  validate_trace.py FILE...            ptbpf's traces and reports, .json or .json.gz
  validate_trace.py --torch FILE...    torch.profiler's own: only the rules that hold for both

Times are compared as integers of nanoseconds, read from the decimals as they are written: no rounding,
no tolerance. Exit: 0 valid, 1 not, 2 usage. Needs the package "jsonschema" for the schemas; without it
says so and checks the rules only, unless --need-schema is given.

Longer than 600 lines because all documents share the reading, the schemas and the account of losses.
"""

import argparse
import collections
import decimal
import functools
import gzip
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import validate_gpu
import validate_python
from bundle_schemas import bundled

QUARTER_NS = 7889238 * 10**9
SHOWN = 5  # violations printed per rule

LINE_ROWS = ("line", "module", "operator")
# as in torch: only the options that are on, the properties of CUDA devices, and what the environment has
SWITCHES = ("with_stack", "with_modules", "profile_memory", "record_shapes", "with_flops", "cupti_version", "cuda_runtime_version", "cuda_driver_version",
            "PT_PROFILER_JOB_NAME", "PT_PROFILER_JOB_VERSION", "PT_PROFILER_JOB_ATTEMPT_INDEX")
KEYS = ["schemaVersion", "deviceProperties", "trace_id", "host_name", "distributedInfo", "ptbpf", "displayTimeUnit",
        "baseTimeNanoseconds", "traceEvents", "ptbpf_totals", "traceName"]
# slice arg -> counter in ptbpf_totals.totals
MARKS = {"ptbpf.open_at_attach": "open_at_begin", "finished": "unfinished", "ptbpf.unwound": "unwound",
         "ptbpf.end_lost": "end_lost", "ptbpf.derived": "steps", "ptbpf.partial": "partial_steps"}


class Findings:
    def __init__(self):
        self.by_rule = collections.defaultdict(list)

    def add(self, rule, text):
        self.by_rule[rule].append(text)

    def print(self, path):
        for rule, texts in self.by_rule.items():
            for text in texts[:SHOWN]:
                print(f"{path}: {rule}: {text}", file=sys.stderr)
            if len(texts) > SHOWN:
                print(f"{path}: {rule}: ... {len(texts) - SHOWN} more", file=sys.stderr)


# ---- reading ----

def refuse_constant(text):
    raise ValueError(f"{text} is no JSON")


def unique_keys(pairs):
    d = dict(pairs)
    if len(d) != len(pairs):
        seen = [k for k, n in collections.Counter(k for k, _ in pairs).items() if n > 1]
        raise ValueError(f"an object has a key twice: {seen}")
    return d


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-8")  # strict
    return text, json.loads(text, parse_float=decimal.Decimal, parse_constant=refuse_constant,
                            object_pairs_hook=unique_keys)


def to_ns(us):
    """Microseconds as written, in ns; None if it is not a number with exactly three decimals."""
    if isinstance(us, decimal.Decimal) and us.as_tuple().exponent == -3 and us >= 0:
        return int(us.scaleb(3))
    return None


# ---- schema ----

def import_jsonschema():
    """The package, without its check of one format that no schema uses and that takes seconds to import."""
    sys.modules.setdefault("rfc3987_syntax", None)
    import jsonschema
    return jsonschema


@functools.lru_cache(maxsize=None)
def load_validator(name):
    """The schema, and a function that makes a validator of a part of it."""
    jsonschema = import_jsonschema()
    import referencing
    schema = bundled(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    registry = referencing.Registry().with_resource(schema["$id"], referencing.Resource.from_contents(schema)).crawl()
    return schema, lambda part: jsonschema.Draft202012Validator(part, registry=registry)


def shape(v):
    """The properties of an event on which its schema depends: keys, types, sign; texts only where they select a kind."""
    if isinstance(v, dict):
        return tuple((k, v[k] if k in ("ph", "cat", "s", "bp") else
                      frozenset(map(str, v[k])) if k == "Input type" else shape(v[k])) for k in v)
    if isinstance(v, list):
        return frozenset(shape(x) for x in v)
    if isinstance(v, bool) or v is None:
        return v
    if isinstance(v, (int, decimal.Decimal)):
        return type(v), (v > 0) - (v < 0)
    return type(v)


def event_key(e):
    # of M, i and C events the name selects the kind
    return shape(e), e.get("name") if isinstance(e, dict) and e.get("ph") in ("M", "i", "C") else None


def node_key(n):
    """As shape(), with the texts on which a node's schema depends: its attributes', and the types without their brackets."""
    try:
        attrs = tuple((a["name"], a["type"], a["value"] if a["name"].startswith(("ptbpf", "kernel", "debug")) else None)
                      for a in n["attrs"])
        types = frozenset(re.sub(r"[(\[].*[)\]]$", "[]", t) for s in ("inputs", "outputs") for t in n[s]["types"])
    except (KeyError, TypeError, AttributeError):
        return id(n)
    return shape(n), attrs, types


# the long list of a document, its schema, and the properties by which two elements are equal for the schema
LISTS = {"chrome_trace": ("traceEvents", "event", event_key), "execution_trace": ("nodes", "node", node_key)}


GOOD = set()  # shapes that were valid in earlier documents


def check_schema(name, doc, findings, need):
    try:
        schema, validator = load_validator(name)
    except ImportError as err:
        if need:
            findings.add("schema", f"cannot be checked: {err}")
        else:
            print(f"note: schema not checked: {err}", file=sys.stderr)
        return
    where, what, key = LISTS.get(name, (None, None, None))
    elems = doc.get(where) if isinstance(doc, dict) else None
    rest = doc
    if isinstance(elems, list) and elems:  # one of each shape is enough, and a hundred times as fast
        rest = dict(doc, **{where: elems[:1]})
        one = validator({"$ref": f"{schema['$id']}#/$defs/{what}"})
        seen = set()
        for e in elems:
            k = key(e)
            if k in seen:
                continue
            seen.add(k)
            mine = name, repr(e)
            if mine in GOOD:
                continue
            errors = list(one.iter_errors(e))
            for err in errors:
                findings.add("schema", f"{json.dumps(e, default=str)[:300]}: {best(err)}")
            if not errors:
                GOOD.add(mine)
    for err in validator(schema).iter_errors(rest):
        findings.add("schema", f"{err.json_path}: {err.message[:300]}")


def best(err):
    """The message of the alternative that is closest to the event."""
    deep = import_jsonschema().exceptions.best_match([err])
    return f"{deep.json_path}: {deep.message[:200]}"


# ---- rules ----

class Slice:
    __slots__ = ("begin", "end", "id", "event")

    def __init__(self, begin, end, event):
        self.begin, self.end, self.event = begin, end, event
        self.id = event["args"].get("External id", 0) if isinstance(event.get("args"), dict) else 0

    def __str__(self):
        e = self.event
        return f"{e['name']!r} (id {self.id}, pid {e['pid']} tid {e['tid']}, {e['ts']} + {e['dur']})"


def is_cpu(e):
    return e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")


def collect(events, findings):
    """Slices per (pid, tid); checks the form of the times of every event."""
    threads = collections.defaultdict(list)
    for e in events:
        if not isinstance(e.get("name"), str):
            findings.add("names", f"an event without name: {str(e)[:200]}")
        times = {k: to_ns(e[k]) for k in ("ts", "dur") if k in e}
        if "ts" not in e or None in times.values() or (e.get("ph") == "X" and "dur" not in e):
            findings.add("times", f"not microseconds with three decimals: {str(e)[:200]}")
            continue
        if e["ph"] == "X" and not e.get("args"):
            findings.add("args", f"a slice without args: {str(e)[:200]}")
        elif is_cpu(e):
            begin = times["ts"]
            threads[e["pid"], e["tid"]].append(Slice(begin, begin + times["dur"], e))
    return threads


def check_ids(threads, findings, torch):
    by_id = {}
    for s in (s for t in threads.values() for s in t):
        args = s.event["args"]
        if s.id in by_id:
            findings.add("ids", f"External id twice: {by_id[s.id]} and {s}")
        by_id[s.id] = s
        if not torch and (args.get("Record function id") != s.id or args.get("Ev Idx") != s.id - 1):
            findings.add("ids", f"External id, Record function id and Ev Idx disagree: {s}")
    # operators that were open at the window's begin are found, and numbered, when they end; derived steps have their own ids
    ordered = [by_id[i] for i in sorted(by_id) if not {"ptbpf.open_at_attach", "ptbpf.derived"} & by_id[i].event["args"].keys()]
    for a, b in zip(ordered, ordered[1:]):
        if b.begin < a.begin and not torch:
            findings.add("ids", f"not in order of start: {a} before {b}")


def depth(dims):
    """1: numbers only, 2: lists of numbers only, 0: empty."""
    return 0 if not dims else 2 if all(isinstance(d, list) for d in dims) else 1 if not any(
        isinstance(d, list) for d in dims) else None


def input_fault(kind, value, dims, strides, unknown):
    """What is wrong with one input, by its type, or None."""
    if kind == "TensorList":
        good = value == "" and depth(dims) in (0, 2) and depth(strides) in (0, 2) and len(dims) in (0, len(strides))
        return None if good else "a list of tensors has a shape and strides for each"
    if kind in ("", "Scalar", "ScalarList"):
        if dims or strides:
            return "what is no tensor has no shape"
        if kind == "":
            return None if value == "" else "a value without a type"
        if kind == "ScalarList":
            return None if re.fullmatch(r"\[.*\]", value) else "a list is written in brackets"
        return None if value or unknown else "a scalar has a value"
    good = value == "" and depth(dims) in (0, 1) and depth(strides) in (0, 1) and len(strides) in (0, len(dims))
    return None if good else "a tensor has sizes, and as many strides or none"


def check_inputs(threads, findings):
    """The four arrays describe the same inputs."""
    for s in (s for t in threads.values() for s in t):
        args = s.event["args"]
        if "Input type" not in args:
            continue
        rows = [args.get(k, []) for k in ("Input type", "Concrete Inputs", "Input Dims", "Input Strides")]
        if len({len(r) for r in rows}) != 1:
            findings.add("inputs", f"{[len(r) for r in rows]} of them: {s}")
            continue
        for i, row in enumerate(zip(*rows)):
            fault = input_fault(*row, "ptbpf.args_unknown" in args)
            if fault:
                findings.add("inputs", f"{fault}: {row}, input {i} of {s}")


def with_calls(threads, events):
    """Calls of CUDA's API and Python's functions are on the tracks of their threads."""
    tracks = {key: list(slices) for key, slices in threads.items()}
    for e in events:
        if e.get("ph") == "X" and e.get("cat") in {"python_function", *validate_gpu.CALLS} and isinstance(e.get("args"), dict):
            begin = to_ns(e["ts"])
            tracks.setdefault((e["pid"], e["tid"]), []).append(Slice(begin, begin + to_ns(e["dur"]), e))
    return tracks


def check_nesting(threads, findings, torch):
    for slices in threads.values():
        slices.sort(key=lambda s: (s.begin, -s.end, s.id))
        stack = []
        for s in slices:
            if s.end <= s.begin and not torch:
                findings.add("nesting", f"no duration: {s}")
            while stack and s.begin >= stack[-1].end:
                stack.pop()
            if stack and s.end > stack[-1].end:
                findings.add("nesting", f"{s} overlaps the end of {stack[-1]}")
            stack.append(s)


def check_flows(events, threads, findings):
    begins = collections.defaultdict(list)
    for (pid, tid), slices in threads.items():
        for s in slices:
            begins[pid, tid, s.begin].append(s)
    ends = {"s": {}, "f": {}}
    for e in (e for e in events if e.get("ph") in ("s", "f") and e.get("cat") == "fwdbwd"):
        if e["id"] in ends[e["ph"]]:
            findings.add("flows", f"id {e['id']} has two ends {e['ph']}")
        ends[e["ph"]][e["id"]] = e
    for i in ends["s"].keys() ^ ends["f"].keys():
        findings.add("flows", f"id {i} has one end only")
    for i in ends["s"].keys() & ends["f"].keys():
        on = []
        for e in (ends["s"][i], ends["f"][i]):
            found = [s for s in begins[e["pid"], e["tid"], to_ns(e["ts"])] if s.event["cat"] == "cpu_op"]
            if not found:
                findings.add("flows", f"no operator begins where this end is: {e}")
            on.append(found)
        if not all(on):
            continue
        pairs = [(a, b) for a in on[0] for b in on[1]
                 if a.event["args"].get("Sequence number") == b.event["args"].get("Sequence number") is not None
                 and a.event["args"]["Fwd thread id"] == 0 < b.event["args"]["Fwd thread id"]]
        if not pairs:
            findings.add("flows", f"id {i}: {on[0][0]} and {on[1][0]} are no forward and backward of one sequence number")
        if to_ns(ends["s"][i]["ts"]) > to_ns(ends["f"][i]["ts"]):
            findings.add("flows", f"id {i}: backward begins before forward")


def check_frame(doc, threads, findings, torch):
    """The window: its marks, and everything inside it."""
    events = doc["traceEvents"]
    spans = [e for e in events if e.get("cat") == "Trace"]
    starts = [e for e in events if e.get("name") == "Iteration Start: PyTorch Profiler"]
    if len(spans) != 1 or len(starts) != 1:
        findings.add("window", f"{len(spans)} spans, {len(starts)} iteration starts")
        return
    if not events or events[-1].get("name") != "Record Window End":
        findings.add("window", "the last event is not Record Window End")
        return
    begin, end = to_ns(spans[0]["ts"]), to_ns(events[-1]["ts"])
    if None in (begin, end) or to_ns(starts[0]["ts"]) != begin or end < begin:
        findings.add("window", f"span {spans[0]['ts']}, start {starts[0]['ts']}, end {events[-1]['ts']} disagree")
        return
    for s in (s for t in threads.values() for s in t):
        if s.begin < begin or s.end > end:
            findings.add("window", f"outside of it: {s}")
    if doc["baseTimeNanoseconds"] % QUARTER_NS:
        findings.add("window", "baseTimeNanoseconds is no begin of a quarter")
    for e in (e for e in events if e.get("ph") in ("s", "f", "i", "C")):
        ts = to_ns(e.get("ts"))
        if ts is None or not begin <= ts <= end:
            findings.add("window", f"outside of it: {e}")
    if torch:
        return
    window = doc["ptbpf"]["window"]
    if doc["baseTimeNanoseconds"] + begin != window["begin_unix_ns"]:
        findings.add("window", f"base + begin is {doc['baseTimeNanoseconds'] + begin}, not {window['begin_unix_ns']}")
    if not end - begin == to_ns(spans[0]["dur"]) == window["duration_ns"]:
        findings.add("window", f"{end - begin} ns long, span {spans[0]['dur']}, claimed {window['duration_ns']}")
    for e in (e for e in events if e.get("ph") == "M"):
        if to_ns(e["ts"]) != begin:
            findings.add("window", f"metadata not at its begin: {e}")


def check_blocks(events, findings, whole):
    """The CPU's blocks, in the order of the file: freed at most once and with the same size, the total follows them. Blocks of
    mapped files, whose allocator is 0, are excluded, and without `whole` some are not there. Returns the sums of all, by process."""
    total, sums, live = collections.Counter(), collections.defaultdict(lambda: [0]), {}
    for e in (e for e in events if e.get("name") == "[memory]" and e["args"]["Device Type"] == 0):
        a, pid = e["args"], e["pid"]
        key, size = (pid, a["Addr"]), a["Bytes"]
        if size > 0:
            live[key] = size, a["Total Allocated"] < size
        elif a["Total Allocated"] == 0 and key not in live:  # a mapping from before the window
            continue
        before, mapped = live[key] if size > 0 else live.pop(key, (None, False))
        if before != abs(size):
            findings.add("memory", f"freed is not what was allocated there: {e}")
        sums[pid].append(sums[pid][-1] + size)
        if mapped:
            continue
        total[pid] += size
        if whole and a["Total Allocated"] != total[pid]:
            findings.add("memory", f"the total is {total[pid]}, not {a['Total Allocated']}: {e}")
            total[pid] = a["Total Allocated"]
    return {(pid, "torch allocated, CPU"): values[1:] for pid, values in sums.items()}


def check_memory(events, findings, whole):
    instants = [e for e in events if e.get("name") in ("[memory]", "[OutOfMemory]")]
    ids = [e["args"]["Ev Idx"] for e in instants]
    if ids != sorted(set(ids)):
        findings.add("memory", "Ev Idx is not ascending")
    values = check_blocks(events, findings, whole)
    tracks = collections.defaultdict(list)
    for e in (e for e in events if e.get("ph") == "C"):
        tracks[e["pid"], e["name"]].append(e)
    for key, track in tracks.items():
        times = [to_ns(e["ts"]) for e in track]
        if None in times or times != sorted(times):
            findings.add("memory", f"counter {key} goes back in time")
    # the thinned counter keeps the extremes and the last value
    for key in values.keys() | {k for k in tracks if k[1] == "torch allocated, CPU"}:
        all_, thinned = values.get(key), [e["args"]["bytes"] for e in tracks[key]]
        if not all_ or not thinned or (min(all_), max(all_), all_[-1]) != (min(thinned), max(thinned), thinned[-1]):
            findings.add("memory", f"counter {key} does not follow from the [memory] events")


def check_names(doc, threads, findings):
    """Every process and thread with slices is named once; steps are named so that consumers find them."""
    names = collections.Counter((e["name"], e["pid"], e["tid"]) for e in doc["traceEvents"] if e.get("ph") == "M")
    for key, cnt in names.items():
        if cnt > 1:
            findings.add("tracks", f"{key} {cnt} times")
    for pid, tid in threads:
        for name, t in (("process_name", 0), ("process_labels", 0), ("process_sort_index", 0), ("thread_name", tid),
                        ("thread_sort_index", tid)):
            if not names[name, pid, t]:
                findings.add("tracks", f"no {name} for pid {pid} tid {tid}")
    targets = {t["pid"] for t in doc["ptbpf"]["targets"] if t["pid"] == doc["ptbpf_totals"].get("only_pid", t["pid"])}
    for pid in {pid for pid, _ in threads} - targets:
        findings.add("tracks", f"pid {pid} is no target")
    for s in (s for t in threads.values() for s in t):
        if s.event["name"].startswith("ProfilerStep") and not re.fullmatch(r"ProfilerStep#\d+", s.event["name"]):
            findings.add("steps", f"a name that consumers refuse: {s}")
        if s.event["name"].startswith("ProfilerStep") and "ptbpf.partial" in s.event["args"]:
            findings.add("steps", f"a part of a step that consumers take for a whole one: {s}")


def check_account(doc, threads, findings):
    """The document's own counts are those of its events."""
    totals, facts = doc["ptbpf_totals"], doc["ptbpf"]
    only_one = "only_pid" in totals
    slices = [s for t in threads.values() for s in t]
    counts = {"slices": len(slices), "operators": sum(s.event["cat"] == "cpu_op" for s in slices),
              "annotations": sum(s.event["cat"] == "user_annotation" and "ptbpf.derived" not in s.event["args"]
                                 for s in slices),
              "flows": sum(e.get("ph") == "s" and e.get("cat") == "fwdbwd" for e in doc["traceEvents"])}
    for total, cat in (("truncated_annotations", "user_annotation"), ("truncated_operators", "cpu_op")):
        counts[total] = sum("ptbpf.truncated" in s.event["args"] and s.event["cat"] == cat for s in slices)
    counts.update({total: sum(mark in s.event["args"] for s in slices) for mark, total in MARKS.items()})
    for key, cnt in counts.items():
        if totals["totals"][key] != cnt and not (only_one and totals["totals"][key] > cnt):
            findings.add("account", f"totals say {totals['totals'][key]} {key}, there are {cnt}")
    lost = [e for e in doc["traceEvents"] if e.get("name") == "LOST records" and e.get("ph") == "i"]
    account = facts["loss"]
    if len(lost) != account["lost_intervals"] or sum(e["args"]["count"] for e in lost) != account["lost_records"]:
        findings.add("account", f"{len(lost)} LOST instants, claimed {account['lost_intervals']} of {account['lost_records']} records")
    check_complete(facts, totals, findings)
    if len(facts["refused"]["functions"]) != min(facts["refused"]["count"], 100):
        findings.add("account", "the list of refused functions has not as many as its count says")


def check_complete(facts, totals, findings):
    losses = [c["name"] for c in facts["loss"]["counters"] if c["loss"]]
    if facts["loss"]["lost_intervals"]:
        losses.append("lost intervals")
    losses += [k for k in ("end_lost", "bad_records", "gpu_no_clock", "gpu_wrong_times") if totals["totals"][k]]
    if not facts["window"]["sealed"]:
        losses.append("not sealed")
    if totals["complete"] == bool(losses):
        findings.add("account", f"complete is {totals['complete']}, losses are {losses}")
    if totals["account"].startswith("complete") != totals["complete"]:
        findings.add("account", f"the sentence says otherwise: {totals['account']!r}")


def check_layout(text, doc, findings):
    if [k for k in doc if k not in SWITCHES] != KEYS:
        findings.add("layout", f"top-level keys are {list(doc)}")
    # as HTA finds it: the first line with a rank, a blank after the colon
    m = re.search(r'"rank":\s+(\d+)', text)
    if not m or int(m[1]) != doc["distributedInfo"]["rank"]:
        findings.add("layout", "a reader by lines does not find distributedInfo.rank")
    if doc["distributedInfo"]["rank"] >= doc["distributedInfo"]["world_size"]:
        findings.add("layout", "rank is not below world_size")


def check_report(doc, findings):
    rows = doc["rows"]
    check_complete(doc, doc, findings)
    if len(rows) > doc["row_count"]:
        findings.add("rows", f"{len(rows)} rows of {doc['row_count']}")
    for r in rows:
        if r["self_cpu_ns"] > r["cpu_total_ns"]:
            findings.add("rows", f"self is more than total: {r}")
    keys = {"self_cpu_time_total": lambda r: r["self_cpu_ns"], "cpu_time_total": lambda r: r["cpu_total_ns"],
            "cpu_time": lambda r: r["cpu_avg_ns"], "count": lambda r: r["count"], "key": lambda r: r["key"].encode(),
            None: lambda r: -r["first_begin_ns"]}
    values = [keys[doc["sort_by"]](r) for r in rows]
    if values != sorted(values, reverse=True):
        findings.add("rows", f"not in the order of {doc['sort_by']}")


def check_memory_report(doc, findings):
    check_complete(doc, doc, findings)
    for p in doc["processes"]:
        where = f"process {p['pid']}"
        for name, size, count in (("growing", "bytes_per_period", "growing_count"), ("live", "bytes", "live_count")):
            values = [r[size] for r in p[name]]
            if values != sorted(values, reverse=True) or len(values) > p[count]:
                findings.add("rows", f"{where}: {name} is not descending, or more than {p[count]}")
        for g in p["growing"]:
            if g["periods"] < doc["growing_periods_min"] or 2 * g["periods"] < p["period_count"] - 1:
                findings.add("rows", f"{where}: does not grow by the rule: {g}")
        if len(p["live"]) == p["live_count"] and (sum(r["bytes"] for r in p["live"]), sum(r["blocks"] for r in p["live"])) != (
                p["live_bytes"], p["live_blocks"]):
            findings.add("rows", f"{where}: the rows of live are not {p['live_bytes']} bytes in {p['live_blocks']} blocks")
        for d in p["devices"]:
            if not max(d["begin"], d["end"]) <= d["peak"]["bytes"] or sum(r["bytes"] for r in d["peak"]["live"]) > d["peak"]["bytes"]:
                findings.add("rows", f"{where}: {d['device']} was above its peak")
            if not d["device_type"] and d["allocated_bytes"] - d["freed_bytes"] != d["end"]:
                findings.add("rows", f"{where}: allocated less freed is not {d['end']}")


def check_gpu_report(doc, findings):
    check_complete(doc, doc, findings)
    window = doc["window"]["duration_ns"]
    for g in doc["gpus"]:
        where = f"GPU {g['id']}"
        if not g["kernel_busy_ns"] <= g["busy_ns"] <= window:
            findings.add("rows", f"{where}: busy with kernels, with all work and the window are not ascending")
        if g["kernels"] and g["kernel_busy_ns"] + g["gap_ns"] + g["short_gap_ns"] != window:
            findings.add("rows", f"{where}: busy and idle are not the window")
        if (sum(c["ns"] for c in g["causes"]), sum(c["count"] for c in g["causes"])) != (g["gap_ns"], g["gap_count"]):
            findings.add("rows", f"{where}: the causes are not all of its gaps")
        for lat in (g["latency"], g["latency_idle_stream"]):
            if not lat["median_ns"] <= lat["p90_ns"] <= lat["p99_ns"]:
                findings.add("rows", f"{where}: latencies are not ascending: {lat}")
    for name, count in (("reasons", "reason_count"), ("gaps", "gap_count"), ("kernels", "kernel_count"), ("copies", "copy_count"),
                        ("calls", "call_count")):
        values = [r["ns"] for r in doc[name]]
        if values != sorted(values, reverse=True) or len(values) > doc[count]:
            findings.add("rows", f"{name} is not descending, or more than {doc[count]}")
    if len(doc["reasons"]) == doc["reason_count"] and sum(r["ns"] for r in doc["reasons"]) != sum(g["gap_ns"] for g in doc["gpus"]):
        findings.add("rows", "the reasons are not all gaps")
    if doc["activities"] and len(doc["kernels"]) == doc["kernel_count"] and sum(k["ns"] for k in doc["kernels"]) != doc["kernel_ns"]:
        findings.add("rows", "the kernels are not all of kernel_ns")


def check_line_report(doc, findings):
    what = next(w for w in LINE_ROWS if w + "s" in doc)
    rows, count = doc[what + "s"], doc[what + "_count"]
    check_complete(doc, doc, findings)
    if len(rows) > count:
        findings.add("rows", f"{len(rows)} rows of {count}")
    own = [r for r in rows if not r.get("function", "").startswith("(")] # others are of time that no operator has
    for r in own:
        if what != "operator" and any(r["self"][m] > r["total"][m] or r["total"][m] > doc["sums"][m] for m in doc["sums"]):
            findings.add("rows", f"self, total and sum are not ascending: {r}")
    if len(rows) == count and any(sum(r["self"][m] for r in own) != doc["sums"][m] for m in doc["sums"]):
        findings.add("rows", "the rows are not all of the sums")


def check_skew_report(doc, findings):
    check_complete(doc, doc, findings)
    waits = [w["ns"] for w in doc["waits"]]
    if waits != sorted(waits, reverse=True):
        findings.add("rows", "waits is not descending")
    for r in doc["ranks"]:
        if r["slow"] != ("since" in r):
            findings.add("rows", f"slow without its steps, or the reverse: {r}")
        causes = [c["excess_ns"] for c in r.get("causes", ())]
        if causes != sorted(causes, reverse=True):
            findings.add("rows", f"causes is not descending: {r}")
    if sum(r["waited_ns"] for r in doc["ranks"]) != sum(r["caused_ns"] for r in doc["ranks"]):
        findings.add("rows", "what ranks waited is not what they waited for")


def check_sched_report(doc, findings):
    check_complete(doc, doc, findings)
    if any(a["on_cpu_ns"] < b["on_cpu_ns"] for a, b in zip(doc["threads"], doc["threads"][1:])):
        findings.add("rows", "threads is not descending")
    for t in doc["threads"]:
        if t["lived_ns"] != t["on_cpu_ns"] + sum(t["waits_ns"].values()):
            findings.add("rows", f"the parts are not the whole: {t}")


def check_why_report(doc, findings):
    check_complete(doc, doc, findings)
    if abs(sum(p["share"] for p in doc["parts"]) - 1) > 1e-3:
        findings.add("parts", f"they do not sum to the step: {doc['parts']}")
    verdicts = {r["rule"]: r["verdict"] for r in doc["rules"]}
    for c in doc["causes"]:
        if verdicts.get(c["rule"]) != "cause":
            findings.add("rows", f"a cause of no rule: {c}")


def check_diff_report(doc, findings):
    if "difference" not in doc or doc["difference"]["without_cpu_waits"]:
        return
    for key, whole in (("a", doc["a"]["mean_ns"]), ("b", doc["b"]["mean_ns"]), ("diff", doc["difference"]["ns"])):
        if abs(sum(p[key] for p in doc["parts"]) - whole) > len(doc["parts"]):
            findings.add("parts", f"they do not sum to the step: {key}")
    for rows in (doc["causes"], doc["operators"]):
        if any(abs(x["diff"]) < abs(y["diff"]) for x, y in zip(rows, rows[1:])):
            findings.add("rows", "they are not descending")


# the key by which a document is known, its schema, its rules, its name
REPORTS = [
    ("verdict", "diff_report", check_diff_report, "difference"),
    ("processes", "memory_report", check_memory_report, "memory report"),
    ("gpus", "gpu_report", check_gpu_report, "GPU report"),
    ("compared", "skew_report", check_skew_report, "comparison of ranks"),
    ("threads", "sched_report", check_sched_report, "report of threads"),
    ("step", "why_report", check_why_report, "verdict"),
    *((w + "s", "line_report", check_line_report, f"report by {w}") for w in LINE_ROWS),
    ("rows", "report", check_report, "report"),
]


def check(path, args):
    findings = Findings()
    try:
        text, doc = read(path)
    except (OSError, ValueError, EOFError) as err:
        findings.add("read", str(err))
        return findings, "nothing"
    if isinstance(doc, dict) and "traceEvents" not in doc:
        for key, schema, rules, what in REPORTS:
            if key not in doc:
                continue
            check_schema(schema, doc, findings, args.need_schema)
            if not findings.by_rule:
                rules(doc, findings)
            return findings, what
    if not args.torch:
        check_schema("chrome_trace", doc, findings, args.need_schema)
        if findings.by_rule:  # the rules below require that the schema holds
            return findings, "nothing"
    threads, gpu = collect(doc["traceEvents"], findings), ""
    check_ids(threads, findings, args.torch)
    tracks = threads if args.torch else with_calls(threads, doc["traceEvents"])
    check_nesting(tracks, findings, args.torch)
    check_inputs(threads, findings)
    check_flows(doc["traceEvents"], threads, findings)
    check_frame(doc, threads, findings, args.torch)
    if not args.torch:
        validate_python.check(doc, tracks, findings)
        check_layout(text, doc, findings)
        check_names(doc, threads, findings)
        check_memory(doc["traceEvents"], findings, "when" not in doc["ptbpf_totals"]["totals"])
        check_account(doc, threads, findings)
        gpu = validate_gpu.check(doc, to_ns, findings)
    flows = sum(e.get("ph") == "s" for e in doc["traceEvents"])
    return findings, f"{sum(map(len, threads.values()))} slices on {len(threads)} threads, {flows} flows{gpu}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("files", nargs="+", metavar="FILE")
    ap.add_argument("--torch", action="store_true")
    ap.add_argument("--need-schema", action="store_true")
    args = ap.parse_args()
    bad = 0
    for path in args.files:
        findings, what = check(path, args)
        findings.print(path)
        bad += bool(findings.by_rule)
        if not findings.by_rule:
            print(f"{path}: valid: {what}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
