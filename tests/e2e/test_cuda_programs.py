# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CUDA programs without PyTorch, one in C and one in Python with ctypes, on the mock device: each call and each piece of work
that they report, under record and attach, recorded by the agent or by probes; a CUPTI that is not installed."""

import collections
import os
import random
import re
import shutil
import subprocess
import time

from support import AGENT, BUILD, PYTHON, WORKLOADS, CommandTarget, Failure, Skip, Tracer, check, run_ptbpf, workload, workspace
from agent_target import change_semaphores, semaphores
from gpu_target import MOCK, WORK, GpuTrace, need, same_flows, valid

TARGET = os.path.join(BUILD, "tests", "workloads", "target_cuda")
KERNELS = {"_Z3addPfS_i": "add(float*, float*, int)", "_Z4gemmILi4EEvPKfS1_Pf": "void gemm<4>(float const*, float const*, float*)"}
THREADS, STEPS, DRIVER_STEPS = 3, 40, 10
# Pauses before the work, in which the tracer learns that CUDA is loaded, and after it, in which the names of kernels
# are read in the process.
REST_MS = 700
OFF = ("--agent", "off")
Call = collections.namedtuple("Call", "name stream bytes work")


class Program(CommandTarget):
    """target_cuda.c, which executes commands and prints what it did."""

    def __init__(self, folder=MOCK, wrap=(), **env):
        super().__init__([*wrap, TARGET], env=dict(env, LD_LIBRARY_PATH=folder))
        check(self.ask("init") == [], "the program could not begin")

    def answer(self):
        lines = []
        for line in self.proc.stdout:
            if line.startswith("ok"):
                check(line.split()[1:] in ([], ["0"], [str(self.pid)]), f"the program printed {line}")
                return lines
            lines.append(line)
        raise Failure(f"the program ended with {self.proc.wait()}")


def calls_of(lines):
    """{thread: [Call]} from what a program prints (target_cuda.c)."""
    did, tid = collections.defaultdict(list), None
    for words in (line.split() for line in lines):
        if words[:1] == ["call"]:
            tid, name, stream, size = words[1:]
            did[int(tid)].append(Call(name.removesuffix("_v2"), stream, int(size), []))
        elif words[:1] == ["work"]:
            did[int(tid)][-1].work.append((words[1], KERNELS.get(words[2], words[2]), int(words[3])))
    check(len(did) >= 3, f"the program did nothing: {list(lines)[-3:]}")
    return did


def work_of(e):
    kind = WORK[e["cat"]]
    name = e["name"] if kind == "kernel" else re.search(r"Memcpy (\w+)", e["name"])[1] if kind == "memcpy" else "-"
    return kind, name, e["args"].get("bytes", 0)


def same_calls(trace, did, wanted):
    """Compares, thread by thread and in order, the calls that `wanted` selects; returns [(Call, event)]."""
    got, both = collections.defaultdict(list), []
    for e in trace.calls("cuda_runtime", "cuda_driver"):
        name = e["name"].removesuffix("_v2")
        if wanted(name):
            got[e["tid"]].append((name, e))
    check(set(got) == {tid for tid, calls in did.items() if any(wanted(c.name) for c in calls)}, f"threads {sorted(got)}, worked: {sorted(did)}")
    for tid, calls in did.items():
        want = [c for c in calls if wanted(c.name)]
        names = [name for name, _ in got[tid]]
        odd = next((k for k, (c, name) in enumerate(zip(want, names)) if c.name != name), min(len(want), len(names)))
        check([c.name for c in want] == names, f"thread {tid}: {len(names)} calls of {len(want)}; at {odd}: {names[odd:odd + 3]} "
              f"instead of {[c.name for c in want][odd:odd + 3]}")
        both += zip(want, (e for _, e in got[tid]))
    return both


def by_agent(trace, did):
    """What CUPTI records: every call with its work, by correlation; streams, bytes, order on each stream."""
    def wanted(name):
        return name in called and not name.startswith(("cuCtx", "cuEvent", "cuStream"))  # of libcuda's functions CUPTI reports only those with work

    called = {c.name for calls in did.values() for c in calls}
    work, streams, on_stream = collections.defaultdict(list), set(), collections.defaultdict(list)
    for e in trace.work():
        work[e["args"]["correlation"]].append(e)
        on_stream[e["args"]["stream"]].append(e)
    for call, e in same_calls(trace, did, wanted):
        mine = sorted(work.pop(e["args"]["correlation"], []), key=lambda w: w["ts"])
        check([work_of(w) for w in mine] == call.work, f"{call}: {[work_of(w) for w in mine]}")
        check(all(e["ts"] <= w["ts"] for w in mine), f"{call}: work before its call")
        streams |= {(call.stream, w["args"]["stream"]) for w in mine}
        check(all(bool(w["args"].get("graph node id")) == (call.name == "cudaGraphLaunch") for w in mine), f"{call}: graph nodes")
    check(not work, f"work that no call did: {[work_of(w) for ws in work.values() for w in ws][:3]}")
    check(len(dict(streams)) == len({b for _, b in streams}) == len(streams), f"streams of the program and of the trace: {sorted(streams)}")
    for stream, events in on_stream.items():  # one after another, never at the same time
        check(all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in zip(events, events[1:])), f"stream {stream}: work overlaps")
    same_flows(trace)
    check([a["gpu"] for a in trace.agents()] == [True], f"agents {trace.agents()}")
    return sum(len(events) for events in on_stream.values())


def by_probes(trace, did, kernels=KERNELS.values()):
    """What kernel probes record: every call with stream and bytes, the kernel's name if its host function has one; no GPU
    work."""
    check(not trace.work(), "GPU work without CUPTI")
    both = same_calls(trace, did, {c.name for calls in did.values() for c in calls}.__contains__)
    streams = set()
    for call, e in both:
        args = e["args"]
        check(args.get("ptbpf.host_only") is True and args.get("ptbpf.bytes", 0) == call.bytes, f"{call}: {args}")
        copies = [name for kind, name, _ in call.work if kind == "memcpy"]
        check([args["ptbpf.copy"]] == copies if "ptbpf.copy" in args else not copies, f"{call}: {args}")
        if call.stream != "-" and "ptbpf.stream" in args:
            streams.add((call.stream, args["ptbpf.stream"]))
        if call.name == "cudaLaunchKernel":
            check(args.get("ptbpf.kernel") in kernels, f"{call}: kernel {args.get('ptbpf.kernel')}")
    check(len(dict(streams)) == len(streams), f"a stream has several handles: {sorted(streams)}")
    check(not any("ptbpf.error" in e["args"] for _, e in both), "calls that failed")
    return len(both)


def nameless(trace, did):
    """The host functions of its kernels are in no file."""
    return by_probes(trace, did, (None,))


def names_at_most(t):
    """At most names of kernels are missing: they are read in the process, which may have ended."""
    names = r"ptbpf: incomplete: \d+ address(es)? whose name could not be read [^)]*\)"
    check(t.proc.returncode == 0 or re.fullmatch(names, t.err[-1]), t.err[-1])


def recorded(program, probes=by_probes, env=None, off_env=None, at_once=False):
    """`ptbpf record` of a program, with the agent and without it (then with off_env)."""
    need()
    figures = []
    with workspace() as ws:
        for judge, options in ((by_agent, ()), (probes, OFF)):
            done = run_ptbpf("record", "--activities", "cuda", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", *options, "--",
                             *program, env={**(env or {}), **(off_env or {} if options else {})},
                             expect=(0, 3) if at_once else 0)
            names_at_most(done)
            figures.append(judge(GpuTrace(ws + "/r.json"), calls_of(done.out)))
            valid(ws + "/r.json")
    return "{} pieces of work by the agent, {} calls by probes".format(*figures)


def test_c_recorded(detail):
    detail(recorded((TARGET, THREADS, STEPS, REST_MS, DRIVER_STEPS), env={"LD_LIBRARY_PATH": MOCK},
                    off_env={"TARGET_CUDA_AWAITS_PROBES": "1"}))


def test_c_at_once(detail):
    """A program that works immediately and ends: nothing is missed."""
    either = (*KERNELS.values(), None)
    env = {"LD_LIBRARY_PATH": MOCK, "MOCK_CUDA_INIT_MS": "100"}
    detail(recorded((TARGET, THREADS, STEPS, 0, DRIVER_STEPS), lambda trace, did: by_probes(trace, did, either), env,
                    at_once=True))


def test_python_recorded(detail):
    detail(recorded((PYTHON, os.path.join(WORKLOADS, "cuda_work.py"), "--mock", MOCK, "--steps", STEPS, "--rest", REST_MS), nameless))


def attached(ws, pid, act, *options, name="a", expect=(0,)):
    """The trace of a window around act(), and the result of act()."""
    path = f"{ws}/{name}.json"
    with Tracer("attach", "--pid", pid, "--activities", "cuda", "-o", f"{ws}/{name}.ptb", "--trace", path, "--no-table", *options) as t:
        t.wait_attached()
        lines = act()
        if os.path.exists(f"/proc/{pid}"):
            t.stop(expect)
        else:
            t.expect(*expect, 3)  # the window has ended with the target: a signal would interrupt the export
            names_at_most(t)
    valid(path)
    return GpuTrace(path), lines


def test_c_attached(detail):
    """One process, several windows, by the agent and by probes; the driver's own interface, too."""
    need()
    with workspace() as ws, Program(CUDA_INJECTION64_PATH=AGENT) as p:
        figures = []
        for k, (judge, options) in enumerate(((by_agent, ()), (by_probes, OFF), (by_agent, ()))):
            trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS) + p.ask("driver", DRIVER_STEPS), *options, name=f"c{k}")
            figures.append(judge(trace, calls_of(lines)))
    with workspace() as ws, Program() as p:  # an empty window
        trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS))
        by_probes(trace, calls_of(lines))
    check(figures[0] == figures[2], f"pieces of work in equal windows: {figures}")
    detail(f"{figures[0]} pieces of work by the agent, {figures[1]} calls by probes")


def test_python_attached(detail):
    need()
    figures = []
    with workspace() as ws:
        for k, (judge, env) in enumerate(((by_agent, {"LD_PRELOAD": AGENT}), (nameless, {}))):
            go = f"{ws}/{k}.go"
            with workload("cuda_work.py", "--mock", MOCK, "--steps", STEPS, "--wait", go, env=env) as p:
                p.wait_line("ready")

                def act():
                    open(go, "w").close()
                    check(p.finish() == 0, f"the program failed\n{p.text()}")
                    return p.out

                trace, lines = attached(ws, p.pid, act)
                figures.append(judge(trace, calls_of(lines)))
    detail("{} pieces of work by the agent, {} calls by probes".format(*figures))


def test_asleep(ws, detail):
    """The agent is loaded, but CUDA's driver was not configured to call it: probes record the calls."""
    need()
    with Program(LD_PRELOAD=AGENT) as p:
        trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS))
        agents = trace.agents()
        check(len(agents) == 1 and agents[0]["host_calls"] and not agents[0]["gpu"], f"agents {agents}")
        detail(f"{by_probes(trace, calls_of(lines))} calls by probes")


def test_waits(ws, detail):
    """--activities sync: one slice for each wait that CUPTI reports; none without it."""
    need()
    kinds = {"cudaStreamSynchronize": "Stream Sync", "cudaDeviceSynchronize": "Context Sync", "cudaEventSynchronize": "Event Sync",
             "cudaStreamWaitEvent": "Stream Wait Event", "cudaMemcpy": "Stream Sync"}
    with Program(CUDA_INJECTION64_PATH=AGENT) as p:
        for k, options in enumerate((("--activities", "cuda,sync"), ())):
            trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS), *options, name=f"s{k}")
            did = calls_of(lines)
            by_agent(trace, did)
            got = collections.Counter(e["name"] for e in trace.calls("cuda_sync"))
            want = collections.Counter(kinds[c.name] for calls in did.values() for c in calls if c.name in kinds)
            check(len(want) > 2 and got == (want if options else collections.Counter()), f"{options}: {got}, did {want}")
        detail(f"{sum(want.values())} waits")


def test_as_it_comes():
    """Records in another order, from another clock, much later, with nested calls; in the layout of every version."""
    need()
    cnt = set()
    for env in ({"MOCK_CUPTI_REORDER": "1"}, {"MOCK_CUPTI_OFFSET_NS": "123456789012", "MOCK_CUPTI_DRIFT_PPM": "80"},
                {"MOCK_CUPTI_BATCH_MS": "300"}, {"MOCK_CUPTI_NESTED": "1"}, {"MOCK_CUPTI_VERSION": "18"},
                {"MOCK_CUPTI_VERSION": "22"}, {"MOCK_CUPTI_VERSION": "130000"}):
        with workspace() as ws, Program(CUDA_INJECTION64_PATH=AGENT, **env) as p:
            trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS) + p.ask("driver", DRIVER_STEPS))
            cnt.add(by_agent(trace, calls_of(lines)))
    check(len(cnt) == 1, f"pieces of work: {cnt}")


def test_forks(ws, detail):
    """A child that continues to use CUDA, as no program should: it does no harm, and the parent's trace is complete."""
    need()
    with Program(CUDA_INJECTION64_PATH=AGENT) as p:
        trace, lines = attached(ws, p.pid, lambda: p.ask("work", 2, 5) + p.ask("fork") + p.ask("work", 2, 5), expect=(0, 3))
        cnt = by_agent(trace, calls_of(lines))
        check(p.ask("fork") == [], "a child after the window")
        detail(f"{cnt} pieces of work")


def test_thousand_requests(ws, detail):
    """Requests are raised and lowered a thousand times while threads work; a window afterwards is complete, and after it
    nothing is active."""
    need()
    with Program(CUDA_INJECTION64_PATH=AGENT) as p:
        attached(ws, p.pid, lambda: p.ask("work", 1, 2), name="first")
        found = semaphores(p.pid)
        rng = random.Random(11)
        p.send("work", 2, 15000)
        for k in range(1000):
            addresses = [found[n] for n in rng.choice((("gpu", "chunk"), ("chunk", "gpu")))]
            change_semaphores(p.pid, addresses, 1)
            time.sleep(rng.choice((0, 0.02, 0.06, 0.15) if k % 20 == 0 else (0, 0.001, 0.004)))
            change_semaphores(p.pid, addresses, -1)
        calls_of(p.answer())
        trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS), name="last")
        detail(f"{by_agent(trace, calls_of(lines))} pieces of work afterwards")


def test_overflow(ws, detail):
    """A ring that is far too small: missing records are counted, the others are correct, the program is not delayed."""
    need()
    with Program(CUDA_INJECTION64_PATH=AGENT) as p:
        trace, lines = attached(ws, p.pid, lambda: p.ask("work", 4, 1500), "--ringbuf", "64KiB", expect=(3,))
        loss = trace.trace["ptbpf"]["loss"]
        check(loss["lost_records"] > 0, f"nothing lost: {loss}")
        did = collections.Counter(w for calls in calls_of(lines).values() for c in calls for w in c.work)
        got = collections.Counter(map(work_of, trace.work()))
        check(not got - did and sum(got.values()) < sum(did.values()), f"work that was not done: {list(got - did)[:3]}")
        detail(f"{sum(got.values())} of {sum(did.values())} pieces of work, {loss['lost_records']} records lost")


# A mount namespace without an installed CUPTI.
HIDDEN = ("unshare", "--mount", "sh", "-ec",
          'for d in /usr/local/cuda*; do [ ! -d "$d" ] || mount -t tmpfs none "$d"; done; exec "$@"', "sh")
ANY_CUPTI = """
import ctypes, sys
for name in ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"):
    try:
        ctypes.CDLL(name)
    except OSError:
        continue
    sys.exit(name)
"""


def test_no_cupti(ws, detail):
    """CUPTI is not found: ptbpf reports that, and probes record the calls."""
    need()
    found = subprocess.run([*HIDDEN, PYTHON, "-c", ANY_CUPTI], capture_output=True, text=True)
    if found.returncode:
        raise Skip(f"a CUPTI cannot be hidden here: {found.stderr.strip()}")
    for name in ("libcuda.so.1", "libcudart.so.12"):
        shutil.copy(os.path.join(MOCK, name), ws)
    with Program(ws, HIDDEN, CUDA_INJECTION64_PATH=AGENT) as p:
        trace, lines = attached(ws, p.pid, lambda: p.ask("work", THREADS, STEPS), expect=(0, 3))
        agents = trace.agents()
        check(len(agents) == 1 and not agents[0]["gpu"] and "CUPTI" in agents[0]["gpu_why"], f"agents {agents}")
        by_probes(trace, calls_of(lines))
        detail(agents[0]["gpu_why"])
