# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory against the kernel's own counters, under a limit, in threads and children; leaks; CUDA libraries."""

import json
import os
import re
import signal

import pytest

from support import (PTBPF, PYTHON, WORKLOADS, Process, Skip, Tracer, check, load_trace, report_json, run_ptbpf, slices,
                     wait_for, workload, workspace)
from agent_target import sources_of
from memory_cgroup import Limited

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")


def near(what, got, want, part=0.01, slack=0):
    check(abs(got - want) <= abs(want) * part + slack, f"{what}: {got}, the kernel says {want}")


class Run:
    """memory_work.py under ptbpf, attached before it begins to work."""

    def __init__(self, ws, options, *work, expect=(0,), prepare=None, dies=False, python=None):
        self.ws, self.capture, self.path = ws, ws + "/a.ptb", ws + "/a.json"
        go = ws + "/go"
        with workload("memory_work.py", go, *work, python=python) as p:
            p.wait_line("ready")
            if prepare:
                prepare(p.pid)
            self.pid = p.pid
            with Tracer("attach", "--pid", p.pid, "-o", self.capture, "--trace", self.path, "--no-table", *options) as t:
                t.wait_attached()
                before = faults_of(p.pid)
                open(go, "w").close()
                if dies:
                    p.finish()
                else:
                    p.wait_line("^done$")
                    self.faults = [b - a for a, b in zip(before, faults_of(p.pid))]
                    t.signal(signal.SIGINT)
                self.code = t.expect(*expect)
                self.err = t.err
            open(go + ".leave", "w").close()
            self.status = p.finish()
            self.marks = [json.loads(line) for line in p.out if line.startswith("{")]
        self.trace = load_trace(self.path)

    def marked(self, name):
        return [m for m in self.marks if m["mark"] == name]

    def instants(self, name):
        return [e for e in self.trace["traceEvents"] if e.get("ph") == "i" and e["name"] == name]

    def counter(self, name):
        """[(Unix ns, {series: value})]"""
        base = self.trace["baseTimeNanoseconds"]
        return [(base + round(e["ts"] * 1000), e["args"]) for e in self.trace["traceEvents"]
                if e.get("ph") == "C" and e["name"] == name and e["pid"] == self.pid]

    def report(self):
        done = run_ptbpf("report", self.capture, "--memory", "--json", "--row-limit", "-1", expect=(0, 3))
        doc = json.loads("\n".join(done.out))
        return doc, next(p for p in doc["processes"] if p["pid"] == self.pid)


def faults_of(pid):
    """Minor and major faults of the process so far."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return [int(fields[7]), int(fields[9])]


def inside(outer, events):
    return [e for e in events if e["tid"] == outer["tid"] and outer["ts"] <= e["ts"] < outer["ts"] + outer["dur"]]


def test_kernel_counters(ws, detail):
    """Faults against getrusage and /proc/PID/stat, RSS against /proc/PID/status, mappings against /proc/PID/maps."""
    r = Run(ws, ("--kernel-memory",), "faults")
    for m in r.marked("touch"):
        note = slices(r.trace, f"touch {m['k']}")[0]
        near(f"faults of {note['name']}", note["args"].get("Page Faults", 0), sum(m["faults"]))
        fill = inside(note, slices(r.trace, "aten::fill_"))[0]["args"]
        near("faults of aten::fill_", fill["Page Faults"], m["bytes"] // PAGE)
        # more than the tensor's bytes: a fault on a page of code also maps its neighbours, at most a whole large folio
        near("Fault Bytes of aten::fill_", fill["Fault Bytes"], m["grown"], slack=MIB)
        near("RSS Delta of aten::fill_", fill["RSS Delta"], m["grown"], slack=MIB)
        check(m["grown"] >= m["bytes"], f"a tensor of {m['bytes']} bytes was written, the process grew by {m['grown']}")
        maps = inside(note, r.instants("mmap"))
        check(any(e["args"]["Addr"] >= m["mapping"][0] and e["args"]["Addr"] + e["args"]["Bytes"] <= m["mapping"][1]
                  and e["args"]["Bytes"] >= m["bytes"] for e in maps),
              f"no mmap of {m['mapping']}, which /proc/PID/maps shows: {[e['args'] for e in maps]}")
        near("bytes mapped", sum(e["args"]["Bytes"] for e in maps), m["virtual"], slack=MIB)
    doc, process = r.report()
    kernel = process["kernel"]
    near("faults of the window", kernel["minor_faults"] + kernel["major_faults"], sum(r.faults))
    check(doc["kernel_memory"] is True, "the report does not say that kernel memory was recorded")
    worst = check_rss(r)
    detail(f"{sum(r.faults)} faults, RSS within {worst / 1024:.0f} KiB at {len(r.marked('rss'))} instants")


def record_known(ws, source, *work, rounds=20):
    """Slices of kernel_memory.py with operators of that source, and what `report --memory` says of each annotation."""
    run_ptbpf("record", "--agent", source, "--kernel-memory", "--no-table", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--",
              PYTHON, os.path.join(WORKLOADS, "kernel_memory.py"), rounds, *work,
              env=dict(os.environ, MALLOC_MMAP_THRESHOLD_=str(MIB)))
    trace = load_trace(ws + "/r.json")
    used = {name for name, _ in sources_of(trace).values()}
    check((used == {"agent"}) == (source == "auto"), f"--agent {source}: operators by {used}")
    doc = json.loads("\n".join(run_ptbpf("report", ws + "/r.ptb", "--memory", "--json", "--row-limit", "-1").out))
    return trace, doc["processes"][0]


def figures(trace, name, *keys, skip=3, least=10):
    """Of each slice of that name, but for the first ones, which also load code."""
    found = sorted(slices(trace, name), key=lambda e: e["ts"])[skip:]
    check(len(found) >= least, f"{len(found)} slices {name}")
    return [tuple(e["args"].get(key, 0) for key in keys) for e in found]


@pytest.mark.parametrize("source", ["auto", "off"])
def test_faults_of_the_operator_that_had_them(ws, source):
    """Faults and resident memory belong to what was open when they happened, whichever source records operators."""
    trace, _ = record_known(ws, source, "operators")
    made = 16 * MIB
    want = {"touch": (100, 100 * PAGE), "aten::neg": (0, 0), "aten::fill_": (made // PAGE, made),
            "make": (made // PAGE + 1, made + PAGE), "free": (0, -made - PAGE)}
    for name, (faults, grown) in want.items():
        got = figures(trace, name, "Page Faults", "RSS Delta")
        wrong = [g for g in got if g != (faults, grown)]
        # the interpreter's own heap grows now and then, and a fault in a file may map many of its pages
        check(len(wrong) <= len(got) // 4, f"{name}: {wrong} of {len(got)}, expected {faults} faults, {grown} bytes")
        check(sum(g[0] for g in got) <= (faults + 1) * len(got), f"{name}: {got}, expected {faults} faults")


@pytest.mark.parametrize("source", ["auto", "off"])
def test_address_space_is_not_memory(ws, source):
    """Mapped bytes are what the address space grew by, whatever the calls were asked for; the interpreter's own heap may grow meanwhile."""
    _, process = record_known(ws, source, "address_space")
    net = {k["annotation"]: k["mapped_bytes"] - k["unmapped_bytes"] for k in process["kernel"]["by_faults"] if k["annotation"]}
    want = {"nothing is there": 0, "reserve": 20 << 40, "give back": -20 << 40, "grow": 20 * (64 * MIB + PAGE),
            "shrink": -20 * 56 * MIB, "free": -20 * (8 * MIB + PAGE)}
    for name, size in want.items():
        check(abs(net.get(name, 0) - size) < MIB, f"{name}: {net.get(name, 0)} mapped, net, of 20 rounds, expected {size}")


@pytest.mark.parametrize("source", ["auto", "off"])
def test_taken_from_outside(ws, source):
    """Pages that another process takes away are no operator's, whichever is open."""
    with open(ws + "/data", "wb") as f:
        f.write(b"x" * 64 * MIB)
        f.flush()
        os.fsync(f.fileno())
    trace, _ = record_known(ws, source, "outside", ws + "/data", rounds=6)
    read = figures(trace, "read it", "RSS Delta", skip=1, least=5)
    lost = figures(trace, "taken away meanwhile", "RSS Delta", skip=1, least=5)
    check(all(abs(grown - 64 * MIB) < MIB for grown, in read), f"64 MiB were read: {read}")
    check(all(0 <= grown < MIB for grown, in lost), f"nothing but 4 pages was touched: {lost}")


def test_put_together_from_outside(ws):
    """Pages that another process, or khugepaged, adds by putting a huge page together are no operator's."""
    trace, _ = record_known(ws, "auto", "collapse", rounds=8)
    grown = figures(trace, "put together meanwhile", "RSS Delta", skip=2, least=6)
    check(all(0 <= g < MIB for g, in grown), f"511 pages came from outside: {grown}")


def check_rss(r):
    track, worst = r.counter("RSS"), 0
    check(len(track) > 8, f"the RSS counter has {len(track)} values")
    for m in r.marked("rss"):
        now = [v for ts, v in track if ts <= m["unix_ns"] + 150_000_000][-1]
        for series, field in (("anonymous", "RssAnon"), ("file", "RssFile"), ("shared", "RssShmem")):
            near(f"RSS, {series}", now[series], m[field], slack=2 * MIB)
            worst = max(worst, abs(now[series] - m[field]))
    return worst


def test_own_thread_counts(ws):
    """Work of one thread is not charged to operators of another; frees across threads are matched."""
    r = Run(ws, ("--profile-memory",), "threads")
    events = [e for e in r.instants("[memory]") if abs(e["args"]["Bytes"]) in (1021 * 4, 1031 * 4)]
    check(len(events) == 4, f"{len(events)} events of the two blocks")
    for size in (1021 * 4, 1031 * 4):
        pair = sorted((e for e in events if abs(e["args"]["Bytes"]) == size), key=lambda e: e["ts"])
        check([e["args"]["Bytes"] for e in pair] == [size, -size], "not an allocation and its free")
        check(pair[0]["args"]["Addr"] == pair[1]["args"]["Addr"] and pair[0]["tid"] != pair[1]["tid"], "not one block in two threads")
    _, process = r.report()
    check(process["live_bytes"] == 0, f"{process['live_bytes']} bytes live at the end")
    exact = json.loads("\n".join(run_ptbpf("report", r.capture, "--json", "--exact-memory", "--no-steps").out))["rows"]
    rows = {row["key"]: row["cpu_mem_bytes"] for row in exact}
    want = {"makes for the thread": 4084, "frees the other's": -4084, "makes one": 4124, "frees the thread's": -4124}
    check(all(rows[k] == v for k, v in want.items()), f"{ {k: rows.get(k) for k in want} }, expected {want}")


def test_old_blocks(ws):
    """Blocks from before the window: their free is counted, no size is invented."""
    r = Run(ws, ("--profile-memory",), "old_blocks")
    check(sorted(e["args"]["Bytes"] for e in r.instants("[memory]"))[-2:] == [28, 36], "the new blocks are not there")
    check(not any(abs(e["args"]["Bytes"]) in (8012, 8044) for e in r.instants("[memory]")), "an unknown size")
    doc, process = r.report()
    check(doc["totals"]["freed_unknown"] >= 2 and process["freed_unknown"] >= 2, f"not counted: {doc['totals']}")


def test_reclaim_stalls(detail):
    """A cgroup that is too small for a file that is read: the operator that waited for memory is charged."""
    with Limited(96) as group, workspace() as ws:
        with open(ws + "/data", "wb") as f:
            f.truncate(256 * MIB)
            for k in range(0, 256, 2):
                f.seek(k * MIB)
                f.write(os.urandom(2 * MIB))
            f.flush()
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # a page is charged to the process that reads it first
        r = Run(ws, ("--kernel-memory",), "reclaim", ws + "/data", 256, prepare=group.add)
        stalls = r.instants("cgroup reclaim stall") + r.instants("reclaim stall")
        check(stalls, "no reclaim although the file does not fit")
        check(sum(e["args"]["Pages Reclaimed"] for e in stalls) * PAGE > 64 * MIB, "hardly anything reclaimed")
        ops = [e for e in slices(r.trace, cat="cpu_op") if e["args"].get("Reclaim us")]
        charged, stalled = sum(e["args"]["Reclaim us"] for e in ops if e["name"] == "aten::max"), sum(
            e["args"]["Duration us"] for e in stalls)
        check(charged > 0.5 * stalled > 0, f"{stalled} us of stalls, aten::max has {charged}")
        _, process = r.report()
        check("aten::max" in json.dumps(process["kernel"]), "the report does not name the operator")
        text = "\n".join(run_ptbpf("report", r.capture, "--memory").out)
        check("reclaim" in text.lower() and "aten::max" in text, f"not on the first screen:\n{text[:1500]}")
        detail(f"{len(stalls)} stalls, {stalled / 1e3:.1f} ms, {100 * charged / stalled:.0f} % in aten::max")


def test_oom_kill(detail):
    """The OOM killer kills the target: the trace has the event, with the operator that allocated."""
    with Limited(96) as group, workspace() as ws:
        r = Run(ws, ("--kernel-memory", "--profile-memory"), "exhaust", 512, prepare=group.add, dies=True)
        check(r.status == -signal.SIGKILL, f"the target was not killed but ended with {r.status}: {r.marks}")
        kills = [e for e in r.instants("OOM kill") if e["pid"] == r.pid]
        check(len(kills) == 1, f"{len(kills)} kills in the trace")
        args = kills[0]["args"]
        check(args.get("Operator") == "aten::fill_" and args.get("Annotation") == "takes all there is", f"asked by: {args}")
        check(args["Pages"] * PAGE > 64 * MIB, f"victim's pages: {args}")
        _, process = r.report()
        check(process["oom_kill_count"] == 1, "the report does not count it")
        text = "\n".join(run_ptbpf("report", r.capture, "--memory").out[:40])
        check("kill" in text.lower() and "aten::fill_" in text, f"not on the first screen:\n{text}")
        check("aten::ones" in json.dumps(process["live"]), "the holder of the memory is missing")
        detail(f"killed in {args['Operator']}, {args['Pages'] * PAGE // MIB} MiB resident")


def leak(ws, mode, *extra):
    with workload("leak.py", mode) as p:
        p.wait_line("step 20$")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/a.ptb", "--no-table", "--profile-memory", *extra) as t:
            t.wait_attached()
            p.wait_news("step", 6)
            t.stop()
    text = run_ptbpf("report", ws + "/a.ptb", "--memory").out
    return json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--memory", "--json").out))["processes"][0], text


def test_planted_leak(ws, detail):
    """The tensor that leaks in each step is listed first; the same loop without the leak has no candidate."""
    process, text = leak(ws, "leak", "--record-shapes")
    first = process["growing"][0]
    check(first["operator"] == "aten::cumsum" and first["annotation"] == "update statistics", f"named first: {first}")
    check(abs(first["bytes_per_period"] / (32 * 128 * 4) - 1) < 0.05, f"{first['bytes_per_period']} bytes a step")
    check(first["shapes"].startswith("[[32, 128]"), f"shapes: {first['shapes']}")
    check(len(process["growing"]) == 1, f"more candidates: {process['growing'][1:]}")
    screen = "\n".join(text[:40])
    check("aten::cumsum" in screen and "update statistics" in screen, f"not on the first screen:\n{screen}")
    steps = process["period_count"]
    process, _ = leak(ws, "healthy")
    check(not process["growing"], f"a healthy loop has candidates: {process['growing']}")
    detail(f"{first['bytes_per_period']:.0f} bytes a step over {steps} steps; healthy: none of {process['period_count']}")


def test_planted_leak_of_strings(ws, detail):
    """Strings that a training loop keeps are not torch's: the report says what grows, and blames no operator and no line."""
    process, text = leak(ws, "strings", "--kernel-memory", "--with-stack")
    beside = process["rss"]["growth_beside_torch"]
    check(not process["growing"] and beside, f"what grows: {process['growing']}, {beside}")
    check(0.5 < beside["bytes_per_period"] / (400 * 480) < 2, f"{beside['bytes_per_period']} bytes a step")
    first = next(i for i, line in enumerate(text) if "GROWS          RSS" in line)
    said = " ".join(text[first:first + 3])
    check("not PyTorch's" in said and "Python objects or a library" in said, said)
    check(re.search(r"(heap \(brk\)|anonymous mappings) \+", said), said)
    check("aten::" not in said and "Optimizer" not in said and ".py" not in said, said)
    detail(" ".join(said.split()))


def test_children(ws):
    """A child's blocks are not the parent's. It lives long enough for probes that have to wait until others are placed."""
    with workload("spin.py", env={**os.environ, "CHILD_SECONDS": "3"}) as p:
        p.wait_line("rate")
        with Tracer("attach", "--pid", p.pid, "--children", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table",
                    "--profile-memory", "--kernel-memory") as t:
            t.wait_attached()
            p.signal(signal.SIGUSR1)
            child = int(p.wait_line(r"forked (\d+)")[1])
            wait_for(lambda: not os.path.exists(f"/proc/{child}"), "the child to end")
            p.wait_news("rate")
            t.stop((0, 3))
        check(p.alive(), "the target died")
        doc = load_trace(ws + "/a.json")
        for pid in (p.pid, child):
            signs = [e["args"]["Bytes"] for e in doc["traceEvents"] if e.get("name") == "[memory]" and e["pid"] == pid]
            check(len(signs) > 1000 and set(signs) == {64, -64}, f"{len(signs)} events of {pid}, sizes {set(signs)}")
        report = json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--memory", "--json", expect=(0, 3)).out))
        check({c["pid"] for c in report["processes"]} >= {p.pid, child}, "a process is missing in the report")
        kernel = next(c["kernel"] for c in report["processes"] if c["pid"] == child)
        check(kernel and kernel["minor_faults"] > 100, f"a forked child copies what it writes: {kernel}")


def mock_libraries():
    path = os.path.join(os.path.dirname(PTBPF), "tests", "mock_cuda")
    if not os.path.exists(path + "/libcudart.so.12"):
        raise Skip("the mock CUDA libraries are not built")
    return path


def python_without_cuda():
    """An environment whose torch has no libcudart of its own: of two that are mapped ptbpf probes one."""
    code = "import torch; print('libcudart' in open('/proc/self/maps').read())"
    for python in (PYTHON, "/usr/bin/python3"):
        with Process([python, "-c", code]) as p:
            if p.finish() == 0 and "False" in p.out:
                return python
    raise Skip("every torch here has its own CUDA libraries")


def test_cuda_calls(ws, detail):
    """Each call of the CUDA libraries with its result, size, and whether it failed."""
    folder = mock_libraries()
    r = Run(ws, ("--profile-memory",), "cuda", folder, python=python_without_cuda())
    calls = r.marked("cuda")[0]["calls"]
    seen = sorted((e for e in r.trace["traceEvents"] if e.get("cat") == "memory_api"), key=lambda e: e["ts"])
    outer = [e for e in seen if not e["name"].startswith("cuMem")]
    direct = [c for c in calls if c["name"].startswith("cuda")]
    check([e["name"] for e in outer] == [c["name"] for c in direct], f"{[e['name'] for e in outer]}, called {direct}")
    for e, c in zip(outer, direct):
        same_call(e, c)
    # the results of the driver's functions cannot be recorded (cuda_sites.c), their arguments can
    driver = [(e["name"], e["args"].get("Bytes", 0) or e["args"].get("Addr", 0)) for e in seen if e not in outer]
    want = []
    for c in calls:
        want += [(name, c.get("bytes", 0) or c.get("addr", 0)) for name in INSIDE.get(c["name"], [c["name"].replace("_v2", "")])]
    want = [w for w in want if w not in (("cuMemAlloc", 3019),)]  # refused by the runtime itself
    check(driver == want, f"driver's calls: {driver}, expected {want}")
    blind = [e["args"]["Bytes"] for e in outer if "ptbpf.no_result" in e["args"]]
    check(blind in ([], [3019]), f"returns were not seen: {blind}")  # refused at once, without any work
    detail(f"{len(outer)} runtime and {len(driver)} driver calls")


INSIDE = {"cudaMalloc": ["cuMemAlloc"], "cudaFree": ["cuMemFree"], "cudaMallocAsync": ["cuMemAllocAsync"],
          "cudaFreeAsync": ["cuMemFreeAsync"], "cudaHostAlloc": ["cuMemHostAlloc"], "cudaFreeHost": ["cuMemFreeHost"]}


def fits(e, c):
    args = e["args"]
    return args.get("Addr", 0) == (c.get("addr") or 0) and args.get("Bytes", 0) == c.get("bytes", 0)


def same_call(e, c):
    check(fits(e, c), f"{e['name']}: {e['args']}, called: {c}")
    check(bool(e["args"].get("Error")) == bool(c["result"]) or "Error" not in e["args"], f"{e['args']}, returned {c['result']}")


def test_options_are_checked(ws):
    """What was not recorded is not shown, and a request for it prints a message."""
    with workload("spin.py") as p:
        p.wait_line("rate")
        run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table")
        check(not [e for e in load_trace(ws + "/a.json")["traceEvents"] if e["name"] == "[memory]"], "memory events that were not requested")
        for args in (("report", ws + "/a.ptb", "--memory"), ("report", ws + "/a.ptb", "--exact-memory"),
                     ("export", ws + "/a.ptb", "--format", "memory", "-o", ws + "/m.json")):
            done = run_ptbpf(*args, expect=1)
            check(any("--profile-memory" in line for line in done.err), f"no advice:\n{done.text()}")
        check(not os.path.exists(ws + "/m.json"), "a file was left")
        check(report_json(ws + "/a.ptb")["rows"], "the table is gone")
