# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Profiles for pprof and speedscope: read by the formats' own rules (pprof's proto/profile.proto, speedscope's schema), and with the sums of the reports and traces of
the same captures."""

import collections
import gzip
import json
import os
import re
import sys

import pytest

from support import ROOT, case_captures, check, load_trace, run_ptbpf, slices

sys.path.insert(0, os.path.join(ROOT, "tools"))
import bundle_schemas  # noqa: E402

# Of proto/profile.proto: fields by number; "*": repeated, "#": a number, a name: a message of that kind.
PROTO = {
    "Profile": {1: ("sample_type*", "ValueType"), 2: ("sample*", "Sample"), 3: ("mapping*", "Mapping"), 4: ("location*", "Location"), 5: ("function*", "Function"),
                6: ("string_table*", str), 9: ("time_nanos", int), 10: ("duration_nanos", int), 11: ("period_type", "ValueType"), 12: ("period", int),
                13: ("comment*", int), 14: ("default_sample_type", int)},
    "ValueType": {1: ("type", int), 2: ("unit", int)},
    "Sample": {1: ("location_id*", int), 2: ("value*", int), 3: ("label*", "Label")},
    "Label": {1: ("key", int), 2: ("str", int), 3: ("num", int), 4: ("num_unit", int)},
    "Mapping": {1: ("id", int), 5: ("filename", int), 7: ("has_functions", int), 8: ("has_filenames", int), 9: ("has_line_numbers", int)},
    "Location": {1: ("id", int), 2: ("mapping_id", int), 4: ("line*", "Line")},
    "Line": {1: ("function_id", int), 2: ("line", int)},
    "Function": {1: ("id", int), 2: ("name", int), 4: ("filename", int), 5: ("start_line", int)},
}


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value - (value >> 63 << 64), at


def message(kind, data):
    found = {name.rstrip("*"): [] if name.endswith("*") else 0 for name, _ in PROTO[kind].values()}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        name, what = PROTO[kind][tag >> 3]
        check(tag & 7 == (0 if what is int else 2), f"{kind}.{name} has wire type {tag & 7}")
        value, at = varint(data, at)
        if what is not int:
            part, at = data[at:at + value], at + value
            check(len(part) == value, f"{kind}.{name} is cut")
            value = part.decode() if what is str else message(what, part)
        if name.endswith("*"):
            found[name[:-1]].append(value)
        else:
            found[name] = value
    return found


class Pprof:
    """Types, and of each sample its values, its frames as (name, file, line, what it is), innermost first, and its labels."""

    def __init__(self, path):
        with gzip.open(path) as f:
            p = message("Profile", f.read())
        text = p["string_table"]
        check(text[0] == "" and len(set(text)) == len(text), "the table of strings")
        by_id = {part: {entry["id"]: entry for entry in p[part]} for part in ("mapping", "location", "function")}
        check(all(0 not in ids and len(ids) == len(p[part]) for part, ids in by_id.items()), "ids are unique, and not 0")
        self.types = [(text[t["type"]], text[t["unit"]]) for t in p["sample_type"]]
        self.default, self.period = text[p["default_sample_type"]], p["period"]
        self.duration, self.time = p["duration_nanos"], p["time_nanos"]
        self.samples = []
        for s in p["sample"]:
            check(len(s["value"]) == len(self.types), f"{len(s['value'])} values of {len(self.types)} types")
            frames = []
            for i in s["location_id"]:
                place = by_id["location"][i]
                line, = place["line"]
                function = by_id["function"][line["function_id"]]
                frames.append((text[function["name"]], text[function["filename"]], line["line"], text[by_id["mapping"][place["mapping_id"]]["filename"]]))
            labels = {text[label["key"]]: text[label["str"]] or label["num"] for label in s["label"]}
            self.samples.append((dict(zip((t for t, _ in self.types), s["value"])), frames, labels))

    def sums(self, of=lambda frames: True):
        found = collections.Counter()
        for values, frames, _ in self.samples:
            if of(frames):
                found.update(values)
        return {key: value for key, value in found.items() if value}


def export(ws, capture, form, suffix, *words):
    path = os.path.join(ws, os.path.basename(capture) + suffix)
    run_ptbpf("export", capture, "--format", form, "-o", path, *words, expect=(0, 3))
    return path


def scope(ws, capture, *words):
    """Of a speedscope file for each profile what its frames add up to: {(name of the profile, frames outermost first): ns}."""
    with open(export(ws, capture, "speedscope", ".speedscope.json", *words), encoding="utf-8") as f:
        doc = json.load(f)
    try:
        import jsonschema
        jsonschema.validate(doc, bundle_schemas.bundled("speedscope"))
    except ImportError:
        pass
    found = collections.Counter()
    for p in doc["profiles"]:
        check(len(p["samples"]) == len(p["weights"]) and sum(p["weights"]) == p["endValue"], f"weights of {p['name']}")
        for stack, weight in zip(p["samples"], p["weights"]):
            found[p["name"], tuple((f["name"], f["file"], f.get("line", 0)) for f in (doc["shared"]["frames"][i] for i in stack))] += weight
    return found


def report(capture, *words):
    return json.loads("\n".join(run_ptbpf("report", capture, "--json", "--row-limit", "-1", *words, expect=(0, 3)).out))


@pytest.mark.parametrize("name", ("gpu_everything", "agent_everything", "modules", "stack"))
def test_sums_of_operators(ws, golden, name):
    """All figures are those of the report by line, whose times leave annotations out; both files have one tree."""
    profile, lines = Pprof(export(ws, golden(name), "pprof", ".pb.gz")), report(golden(name), "--by", "line")
    check(profile.default == "cpu_time" and profile.duration == lines["window"]["duration_ns"] and profile.time > 10**18, "the facts")
    found = profile.sums(lambda frames: frames[0][3] != "[annotation]")
    rest = profile.sums(lambda frames: frames[0][3] == "[annotation]")
    wanted = {key: value for key, value in lines["sums"].items() if value}
    events = slices(load_trace(export(ws, golden(name), "chrome", ".json")))
    wanted["calls"] = sum(not re.match("ProfilerStep|partial step", e["name"]) for e in events)
    for key in sorted(wanted.keys() | found.keys()):
        both = found.get(key, 0) + (rest.get(key, 0) if key != "cpu_time" else 0)
        check(both == wanted.get(key, 0), f"{key}: {both}, {wanted.get(key, 0)} in the report")
    check({"[python]", "[operator]"} <= {f[3] for _, frames, _ in profile.samples for f in frames}, "what frames are")
    own, gpu = collections.Counter(), collections.Counter()
    for (thread, _), ns in scope(ws, golden(name)).items():
        (gpu if thread.startswith("GPU work") else own)[thread] += ns
    check(sum(own.values()) == profile.sums()["cpu_time"] and sum(gpu.values()) == profile.sums().get("gpu_time", 0), f"{own}, {gpu}")
    check(len(own) == len({(labels["pid"], labels["tid"]) for values, _, labels in profile.samples if values["cpu_time"]}), "a profile of each thread")


def test_kernels(ws, golden):
    """GPU time is that of kernels, copies and fills, each by its name below what launched it, as the Chrome trace has them."""
    wanted, found, below = collections.Counter(), collections.Counter(), 0
    for e in load_trace(export(ws, golden("gpu_everything"), "chrome", ".json"))["traceEvents"]:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            wanted[e["name"]] += round(e["dur"] * 1000)
    for values, frames, _ in Pprof(export(ws, golden("gpu_everything"), "pprof", ".pb.gz")).samples:
        if values["gpu_time"]:
            check(frames[0][3] == "[gpu]", f"GPU time of {frames[0]}")
            found[frames[0][0]] += values["gpu_time"]
            below += frames[1][3] == "[operator]"
    check(found == wanted and below > 3, f"{found - wanted}, {wanted - found}, {below} below operators")


@pytest.mark.parametrize("name", ("samples", "agent_samples"))
def test_sums_of_samples(ws, golden, name):
    profile, lines = Pprof(export(ws, golden(name), "pprof", ".pb.gz")), report(golden(name), "--by", "line")
    check(profile.types == [("sampled_cpu_time", "nanoseconds"), ("sampled_wait_time", "nanoseconds")], f"types {profile.types}")
    check(profile.sums() == {k: v for k, v in lines["sums"].items() if v} and profile.default == "sampled_cpu_time" and profile.period > 0, "sums")
    waits = running = 0
    for (_, frames), ns in scope(ws, golden(name)).items():
        idle = frames[-1] == ("(not running)", "[ptbpf]", 0)
        waits, running = waits + ns * idle, running + ns * (not idle)
    check({"sampled_cpu_time": running, "sampled_wait_time": waits} == profile.sums(), f"{running} ns running, {waits} ns not")


def test_stacks_of_samples(ws):
    """Frames, lines and operators of a capture that is written down."""
    case_captures(ws, "samples/operators")
    capture = ws + "/a.ptb"
    a, b, c = (("m.A", "pkg/m.py", 1), ("m.B", "pkg/m.py", 101), ("m.C", "pkg/m.py", 201))
    check(scope(ws, capture) == {
        ("thread 1 ", (a, b, c, ("aten::mm", "[operator]", 0))): 20000000, ("thread 1 ", (a, b, c)): 10000000,
        ("thread 1 ", (a, ("m.B", "pkg/m.py", 102), ("aten::mm", "[operator]", 0), ("(not running)", "[ptbpf]", 0))): 20000000,
        ("thread 2 ", (("(no Python frames)", "[ptbpf]", 0), ("autograd::engine::evaluate_function: A.b", "[operator]", 0), ("(not running)", "[ptbpf]", 0))): 30000000,
        ("thread 2 ", (("(no Python frames)", "[ptbpf]", 0), ("(not running)", "[ptbpf]", 0))): 20000000}, str(scope(ws, capture)))
    values, frames, labels = Pprof(export(ws, capture, "pprof", ".pb.gz")).samples[0]
    check(values == {"sampled_cpu_time": 20000000, "sampled_wait_time": 0} and labels["pid"] == 100 and labels["tid"] == 1, f"{values}, {labels}")
    check(frames == [("aten::mm", "[operator]", 0, "[operator]")] + [(*f, "[python library]") for f in (c, b, a)], str(frames))


def test_one_process(ws, golden):
    every = Pprof(export(ws, golden("children"), "pprof", ".pb.gz"))
    pids = {labels["pid"] for _, _, labels in every.samples}
    check(len(pids) > 1, f"processes {pids}")
    parts = collections.Counter()
    for pid in pids:
        one = Pprof(export(ws, golden("children"), "pprof", f".{pid}.pb.gz", "--pid", str(pid)))
        check({labels["pid"] for _, _, labels in one.samples} == {pid}, "only that one")
        parts.update(one.sums())
    check(parts == every.sums(), f"{parts}, {every.sums()}")
    run_ptbpf("export", golden("children"), "--format", "speedscope", "--pid", "1", "-o", ws + "/x", expect=(1,))
