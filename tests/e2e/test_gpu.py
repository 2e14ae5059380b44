# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""GPU activities end to end, on the mock device of tests/mock_cuda: what the program did against the trace; CUPTI that is
missing, too old, in use, that drops or reorders records or fails; calls recorded by kernel probes without an agent."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys

from support import AGENT, BUILD, PYTHON, ROOT, WORKLOADS, Skip, Tracer, check, load_trace, run_ptbpf, slices, workload
from gpu_target import MOCK, WORK, GpuTrace, need, same_flows, valid

DUMP = os.path.join(os.path.dirname(MOCK), "workloads", "libagent_dump.so")
sys.path.append(os.path.join(ROOT, "tools"))
NAMES = {"_Z11axpy_kernelPffi": "axpy_kernel(float*, float, int)", "plain_kernel": "plain_kernel",
         "_ZN2at6native13reduce_kernelILi512ELi1EEEvPKfPf": "void at::native::reduce_kernel<512, 1>(float const*, float*)"}


class Run(GpuTrace):
    """gpu_work.py under ptbpf attach, with the agent or without it, attached before it begins to work."""

    def __init__(self, ws, mode=(), options=(), env=None, agent=True, expect=(0,), name="a"):
        go, self.capture, self.path = f"{ws}/{name}.go", f"{ws}/{name}.ptb", f"{ws}/{name}.json"
        env = dict(env or {}, **({"LD_PRELOAD": AGENT} if agent else {}))
        with workload("gpu_work.py", MOCK, go, *mode, env=env) as p:
            p.wait_line("ready")
            self.pid = p.pid
            with Tracer("attach", "--pid", p.pid, "-o", self.capture, "--trace", self.path, *options) as t:
                t.wait_attached()
                open(go, "w").close()
                p.wait_line("^done$")
                self.code = t.stop(expect)
                self.err, self.out = t.err, t.out
            open(go + ".leave", "w").close()
            check(p.finish() == 0, f"the target failed\n{p.text()}")
            self.did = json.loads(next(line for line in p.out if line.startswith("{")))["did"]
        super().__init__(self.path)


class Done(GpuTrace):
    """An existing trace, and what the program printed."""

    def __init__(self, path, lines):
        super().__init__(path)
        self.did = json.loads(next(line for line in lines if line.startswith("{")))["did"]


def key_of_event(e):
    kind, args = WORK[e["cat"]], e["args"]
    name = e["name"] if kind == "kernel" else re.search(r"Memcpy (\w+)", e["name"])[1] if kind == "memcpy" else ""
    return kind, name, args.get("bytes", 0)


def key_of_deed(d):
    return d["kind"], NAMES.get(d["name"], d["name"]), d["bytes"]


def same_work(run):
    """Every piece of work, in the order in which it was put on its stream, launched by its call."""
    by_stream, deeds = collections.defaultdict(list), collections.defaultdict(list)
    for e in run.work():
        by_stream[e["args"]["stream"]].append(key_of_event(e))
    for d in run.did:
        deeds[d["side"]].append(key_of_deed(d))
    got, want = sorted(by_stream.values()), sorted(deeds.values())
    check([len(x) for x in got] == [len(x) for x in want], f"work per stream {[len(x) for x in got]}, done {[len(x) for x in want]}")
    for a, b in zip(got, want):
        odd = next((f"{x} instead of {y} at {k}" for k, (x, y) in enumerate(zip(a, b)) if x != y), None)
        check(not odd, f"order on a stream: {odd}")
    return len(run.did)


def same_links(run):
    """Each piece of work belongs to a call of the right name and thread, and to the operator around it."""
    calls = {e["args"]["correlation"]: e for e in run.calls()}
    want, got = collections.Counter(), collections.Counter()
    for d in run.did:
        want[key_of_deed(d), d["call"], d["tid"], d["op"]] += 1
    for e in run.work():
        call = calls.get(e["args"]["correlation"])
        check(call, f"no call with the correlation of {e['name']}")
        check(call["ts"] <= e["ts"], f"{e['name']} began before its launch")
        op = run.ops.get(e["args"].get("External id"))
        got[key_of_event(e), call["name"], call["tid"], op["name"] if op else None] += 1
    missing, more = want - got, got - want
    check(not missing and not more, f"missing {list(missing)[:3]}, instead {list(more)[:3]}")


def test_whole_work(ws, detail):
    """Kernels, copies, fills, streams, events, a graph: names, order, bytes, calls, operators, arrows, device."""
    need()
    run = Run(ws)
    cnt = same_work(run)
    same_links(run)
    flows = same_flows(run)
    valid(run.path)
    check(run.trace["deviceProperties"] and run.trace["deviceProperties"][0]["name"], f"device: {run.trace['deviceProperties']}")
    in_graph = [e for e in run.work() if e["args"].get("graph node id")]
    check(len(in_graph) == 6, f"{len(in_graph)} of 6 nodes of the graph")
    notes = {e["name"] for e in run.events if e.get("cat") == "gpu_user_annotation"}
    check({"step 0", "step 1", "step 2", "load", "graph"} <= notes, f"annotations on the GPU: {sorted(notes)}")
    check([a["gpu"] for a in run.agents()] == [True], f"agents {run.agents()}")
    detail(f"{cnt} pieces of work, {flows} arrows")


def test_graphs(ws, detail):
    """--activities graphs: a replayed kernel names the operators and annotations that were open when it was captured, by
    the agent and with operators from it, and the line that called them."""
    need()
    run = Run(ws, ("captured",), options=("--activities", "cpu,cuda,graphs", "--with-stack"))
    same_work(run)
    same_links(run)
    valid(run.path)
    both, layer = "mockgpu::both", "captured > layer > mockgpu::both"
    want = [(both, layer), (both, layer), (None, "captured > layer"), (both, both), (both, both), (None, "")] * 5
    got = [(e["args"].get("ptbpf.captured_op"), e["args"].get("ptbpf.captured_in")) for e in run.work() if e["args"].get("graph node id")]
    check(got == want, f"captured in {got[:6]}, not {want[:6]}")
    with open(os.path.join(WORKLOADS, "gpu_work.py")) as f:
        one, other = (f"gpu_work.py:{nr}" for nr, line in enumerate(f, 1) if "mockgpu.both(torch.ones(2))" in line)
    at = [e["args"].get("ptbpf.captured_at", "") for e in run.work() if e["args"].get("graph node id")]
    check(at == [one, one, "", other, other, ""] * 5, f"captured at {at[:6]}")
    ids = {e["args"]["ptbpf.captured_id"] for e in run.work() if "ptbpf.captured_id" in e["args"]}
    check(len(ids) == 2 and {run.ops[i]["name"] for i in ids} == {both}, f"ids {ids}")
    totals = run.trace["ptbpf_totals"]["totals"]
    check((totals["gpu_graph_work"], totals["gpu_graph_unknown"]) == (30, 0), f"{totals}")
    check([a["graphs"] for a in run.agents()] == [True], f"{run.agents()}")
    report = json.loads("\n".join(run_ptbpf("report", run.capture, "--gpu", "--json").out))
    (graph,) = report["graphs"]
    check((graph["launches"], graph["count"]) == (5, 30), f"{graph}")
    check({c["within"]: c["count"] for c in graph["captured_in"]} == {layer: 10, both: 10, "captured > layer": 5, "": 5}, f"{graph}")
    text = "\n".join(run_ptbpf("report", run.capture, "--gpu").out)
    check("CUDA graphs" in text and layer in text, f"no graphs:\n{text[:1500]}")
    import gpu_check_acts as acts
    figure, problem = acts.captured_ops(acts.from_trace(run.path))
    check(not problem and figure.startswith("5 replays of 4 kernels"), f"{figure}; {problem}")
    detail(f"{len(got)} kernels and fills of a graph")


def test_graphs_not_recorded(ws):
    """Without the request, and captured before the window: counted, said, and nothing is made up."""
    need()
    run = Run(ws, ("captured",))
    totals = run.trace["ptbpf_totals"]["totals"]
    check((totals["gpu_graph_work"], totals["gpu_graph_unknown"]) == (30, 30), f"{totals}")
    check(not [e for e in run.work() if any("captured" in k for k in e["args"])], "captures out of nothing")
    text = "\n".join(run_ptbpf("report", run.capture, "--gpu").out)
    check("(not known)" in text and "it is not known what captured them" in text, f"{text[:1500]}")


def test_table_and_report(ws):
    """The table has GPU columns; report --gpu counts what was done."""
    need()
    run = Run(ws)
    table = "\n".join(run.out)
    check("Self CUDA" in table and "mockgpu::scale" in table, f"no GPU columns:\n{table[:1500]}")
    report = json.loads("\n".join(run_ptbpf("report", run.capture, "--gpu", "--json").out))
    check(report, "report --gpu is empty")
    text = "\n".join(run_ptbpf("report", run.capture, "--gpu").out)
    check("axpy_kernel" in text, f"report --gpu does not know the kernel:\n{text[:1000]}")
    again = ws + "/again.json"
    run_ptbpf("export", run.capture, "--format", "chrome", "-o", again)
    with open(again) as a, open(run.path) as b:
        check(a.read().count('"kernel"') == b.read().count('"kernel"'), "export gives other kernels than attach")


def test_many_threads(ws, detail):
    need()
    run = Run(ws, ("threads",))
    check(same_work(run) == 160, "not 160 pieces of work")
    same_links(run)
    detail("4 threads")


def test_recorded(ws):
    """ptbpf record: with its agent all work is recorded; with --agent off only the calls."""
    need()
    for options, activities in (((), True), (("--agent", "off"), False)):
        done = run_ptbpf("record", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", *options, "--", PYTHON,
                         os.path.join(WORKLOADS, "gpu_work.py"), MOCK, "-", expect=(0, 3))
        run = Done(ws + "/r.json", done.out)
        if activities:
            same_work(run)
            same_links(run)
        else:
            check(not run.work(), "GPU work without an agent")
            launches = sum("LaunchKernel" in e["name"] for e in run.calls("cuda_runtime", "cuda_driver"))
            check(launches, "no launches by host probes")


def test_from_the_host(ws, detail):
    """No agent in the process: launches, copies, fills, waits by probes, with bytes and streams; no GPU activity."""
    need(agent=False)
    run = Run(ws, agent=False)
    check(not run.work(), "GPU work out of nothing")
    names = collections.Counter(e["name"] for e in run.calls())
    want = collections.Counter(d["call"] for d in run.did if d["call"] != "cudaGraphLaunch")
    want["cudaLaunchKernel"] += 2  # captured into a graph: launched by the host, but not run
    want["cudaMemsetAsync"] += 1
    want["cudaGraphLaunch"] = 2
    odd = {n: (names[n], c) for n, c in want.items() if names[n] != c}
    check(not odd, f"calls (seen, done): {odd}; all: {dict(names)}")
    waits = names["cudaStreamSynchronize"], names["cudaDeviceSynchronize"]
    check(waits == (3, 1), f"waits {waits}")
    valid(run.path)
    detail(f"{sum(names.values())} calls")


def test_off(ws):
    """--gpu off: nothing, with the agent and without."""
    need()
    for agent in (True, False):
        run = Run(ws, options=("--gpu", "off"), agent=agent, name=f"off{agent}")
        check(not run.work() and not run.calls("cuda_runtime", "cuda_driver"), f"GPU events with --gpu off, agent {agent}")
        check(sum(e["name"] == "mockgpu::scale" for e in slices(run.trace)) == 3, "the operators are gone")


def test_unordered(ws):
    """Records in another order, at another clock rate, much later, are joined with the same operators."""
    need()
    run = Run(ws, env={"MOCK_CUPTI_REORDER": "1", "MOCK_CUPTI_OFFSET_NS": "123456789012", "MOCK_CUPTI_DRIFT_PPM": "80",
                       "MOCK_CUPTI_BATCH_MS": "300", "MOCK_CUPTI_NESTED": "1"})
    same_work(run)
    same_links(run)
    same_flows(run)
    valid(run.path)


def test_dropped(ws, detail):
    """CUPTI drops records: they are counted, the exit code is 3, and the last line reports them."""
    need()
    run = Run(ws, ("many", 2000), env={"MOCK_CUPTI_DROP": "7"}, expect=(3,))
    check(any("CUPTI dropped" in line for line in run.err[-3:]), f"no message: {run.err[-3:]}")
    lost = len(run.did) - len(run.work())
    check(lost > 0, "nothing was dropped")
    # calls were dropped, too: work without its call is kept, without an arrow
    text = "\n".join(run.err)
    dropped = int(re.search(r"(\d+) activity records that CUPTI dropped", text)[1])
    check(dropped >= lost, f"{dropped} dropped, {lost} pieces of work are missing")
    valid(run.path)
    detail(f"{dropped} of {2 * len(run.did)} records")


def test_wrong_times(ws, detail):
    """CUPTI's times of some kernels are none, reversed or far away: they are counted by that reason, and the exit code is 3."""
    need()
    run = Run(ws, ("many", 2000), env={"MOCK_CUPTI_WRONG": "5"}, expect=(3,))
    lost = len(run.did) - len(run.work())
    text = "\n".join(run.err)
    none = int(re.search(r"(\d+) activity records of CUPTI that have no times", text)[1])
    wrong = int(re.search(r"(\d+) GPU records left out: they end before they begin", text)[1])
    check(none >= 90 and none + wrong == lost and abs(wrong - 3 * none) <= 3, f"{none} and {wrong} of {lost}: {text}")
    check("buffers" not in text and "damaged" not in text, f"another reason: {text}")
    totals = run.trace["ptbpf_totals"]
    check(totals["totals"]["gpu_wrong_times"] == wrong and totals["totals"]["gpu_outside"] < 10, f"{totals['totals']}")
    valid(run.path)
    detail(f"{none} without times, {wrong} with wrong ones")


def test_many_launches(ws, detail):
    """More than any buffer holds; all are recorded."""
    need()
    run = Run(ws, ("many", 60000), expect=(0, 3))
    check(run.code == 0, f"incomplete: {run.err[-2:]}")
    detail(f"{same_work(run)} kernels")


def test_versions(ws, detail):
    """CUPTI that is too old, too new, or returns errors: no GPU activities, the reason is reported, operators are recorded."""
    need()
    texts = []
    for k, (env, pattern, code) in enumerate((({"MOCK_CUPTI_VERSION": "14"}, "older", (3,)), ({"MOCK_CUPTI_VERSION": "990000"}, "newer", (3,)),
                                              ({"MOCK_CUPTI_FAIL": "cuptiActivityEnable:999"}, "error", (3,)))):
        run = Run(ws, env=env, expect=(0, *code), name=f"v{k}")
        check(not run.work(), f"{env}: GPU work")
        whys = [a["gpu_why"] for a in run.agents()]
        check(len(whys) == 1 and pattern in whys[0], f"{env}: {run.agents()}")
        check(sum(e["name"] == "mockgpu::scale" for e in slices(run.trace)) == 3, f"{env}: the operators are gone")
        texts.append(whys[0])
    detail("; ".join(texts))


def test_new_library(ws, detail):
    """The mock with the functions of CUDA 13.2, in a program without torch, because torch's wheel has a library of that
    name."""
    need()
    run = without_torch(ws, {"GPU_WORK_CUPTI_PATH": os.path.join(MOCK, "cupti13", "libcupti.so.13")})
    detail(f"CUPTI {run.agents()[0]['cupti_version']}")


def test_in_use(ws, detail):
    """Another subscriber: CUPTI is not used, with the reason."""
    need()
    run = Run(ws, env={"MOCK_CUPTI_FAIL": "cuptiSubscribe:39"}, expect=(0, 3))
    whys = [a["gpu_why"] for a in run.agents()]
    check(run.work() or "another tool" in whys[0], f"{run.agents()}")
    detail(whys[0] or "served beside the other")


def test_attach_again(ws):
    """Several windows: each has its own work; nothing is active in between."""
    need()
    with workload("gpu_work.py", MOCK, ws + "/go", env={"LD_PRELOAD": AGENT}) as p:
        p.wait_line("ready")
        for k in range(3):
            run_ptbpf("attach", "--pid", p.pid, "-d", "200ms", "-o", f"{ws}/{k}.ptb", "--trace", f"{ws}/{k}.json", "--no-table", expect=(3,))
            check(not [e for e in load_trace(f"{ws}/{k}.json")["traceEvents"] if e.get("cat") == "kernel"], "kernels that were not launched")
        with Tracer("attach", "--pid", p.pid, "-o", ws + "/last.ptb", "--trace", ws + "/last.json", "--no-table") as t:
            t.wait_attached()
            open(ws + "/go", "w").close()
            p.wait_line("^done$")
            t.stop()
        run = Done(ws + "/last.json", p.out)
        open(ws + "/go.leave", "w").close()
        check(p.finish() == 0, f"the target failed\n{p.text()}")
        same_work(run)


def test_forks(ws):
    need()
    run = Run(ws, ("fork",), options=("--children",), expect=(0, 3))
    same_work(run)
    same_links(run)


def without_torch(ws, env):
    done = run_ptbpf("record", "--activities", "cuda", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", "--", PYTHON,
                     os.path.join(WORKLOADS, "gpu_work.py"), MOCK, "-", "notorch", expect=(0, 3), env=env)
    run = Done(ws + "/r.json", done.out)
    check(same_work(run) == 100, "not 100 pieces of work")
    return run


def test_no_torch(ws):
    """A program without torch: --activities cuda."""
    need()
    without_torch(ws, {})


def test_inside_and_outside(ws, detail):
    """What an in-process reader receives (agent_dump.c, tools/gpu_check.sh) is what ptbpf's trace has."""
    need()
    import gpu_check_acts as acts
    run = Run(ws)
    code = (f"import ctypes, os, sys, time; sys.argv = ['gpu_work.py', {MOCK!r}, {ws + '/in.go'!r}]\n"
            f"sys.path.insert(0, {WORKLOADS!r}); import gpu_work\n"
            f"d = ctypes.CDLL({DUMP!r}); gpu = gpu_work.Gpu(); ops = gpu_work.operators(gpu); time.sleep(0.2)\n"
            f"assert d.agent_dump_begin({ws + '/chunks'!r}.encode(), 16 | 32 | 64) == 0\n"
            "end = time.monotonic() + 10\n"
            "while not d.agent_dump_state() & 16 and time.monotonic() < end: time.sleep(0.01)\n"
            "gpu_work.work(gpu); print(d.agent_dump_end(3000))\n")
    done = subprocess.run([PYTHON, "-c", code], env=dict(os.environ, LD_PRELOAD=AGENT), capture_output=True, text=True, timeout=180)
    check(done.returncode == 0 and done.stdout.strip() == "0", f"{done.returncode}: {done.stdout} {done.stderr[-500:]}")
    inside, outside = acts.from_chunks(ws + "/chunks"), acts.from_trace(run.path)
    check(not inside.problems, f"{inside.problems}")
    for kind in ("kernel", "memcpy", "memset"):
        figure, problem = acts.same_counts(outside, inside, kind)
        check(not problem, f"{kind}: {problem}")
    for what in (acts.same_order, acts.linked):
        figure, problem = what(outside, inside)
        check(not problem, f"{what.__name__}: {problem}")
    figure, problem = acts.captured_nodes(inside)
    check(not problem and figure.startswith("4 kernels of 3 nodes and 3 copies"), f"{figure}; {problem}")
    detail(f"{len(inside.work)} pieces of work, {inside.clocks} pairs of clocks")


def test_bundle(ws, detail):
    """The output of tools/gpu_check.sh --bundle runs by itself and reports that there is no GPU."""
    need()
    tool = os.path.join(ROOT, "tools", "gpu_check.sh")
    done = subprocess.run([tool, "--build", BUILD, "--bundle", ws + "/b"], capture_output=True, text=True)
    check(done.returncode == 0, f"{done.stderr}")
    if shutil.which("nvidia-smi"):
        raise Skip("there is a GPU here: use tools/gpu_check.sh")
    done = subprocess.run([ws + "/b/tools/gpu_check.sh"], capture_output=True, text=True)
    check(done.returncode == 2 and len(done.stderr.splitlines()) == 1, f"exit {done.returncode}: {done.stderr}")
    detail(done.stderr.strip())
