# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Container, pod, job and rank of the processes: in traces, and in the log of windows."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import pytest

import memory_cgroup
from agent_target import AgentTarget, Window
from own_torch import own_torch
from support import (AGENT, PYTHON, ROOT, WORKLOADS, Process, Skip, Tracer, check, children_of, load_trace, run_ptbpf, slices, soak, wait_for,
                     workload)

ID = "0123456789abcdef" * 4
UID = "6f2a1b3c-0d4e-4f5a-8b6c-7d8e9f0a1b2c"


def is_valid(path):
    done = subprocess.run([sys.executable, ROOT + "/tools/validate_trace.py", path], capture_output=True, text=True)
    check(done.returncode == 0, done.stdout + done.stderr)


def ready_ranks(p):
    """pids by rank"""
    found = {int(rank): int(pid) for pid, rank in re.findall(r"^ready (\d+) (\d)", "\n".join(p.out), re.M)}
    return [found[0], found[1]] if len(found) == 2 else None


def test_torchrun(ws):
    """Two ranks in one capture: each has its own trace, with the rank that torch.profiler writes."""
    env = dict(os.environ, AWS_SECRET_ACCESS_KEY="hunter2", PT_PROFILER_JOB_NAME="exp-1", OMP_NUM_THREADS="1")
    with Process([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", WORKLOADS + "/rank_work.py", ws],
                 env=env) as p:
        pids = wait_for(lambda: ready_ranks(p), "both ranks")
        with Tracer("attach", "--pid", f"{pids[1]},{pids[0]}", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            at = len(p.out)
            wait_for(lambda: all(p.out[at:].count(f"at {pid} {rank}") > 1 for rank, pid in enumerate(pids)), "fifty rounds of each rank")
            t.stop()
        run_ptbpf("sample", "--pid", f"{pids[0]},{pids[1]}", "--dir", ws + "/w", "--schedule", "active=300ms,repeat=1")
    both = load_trace(ws + "/a.json")
    for rank, pid in enumerate(pids):
        path = f"{ws}/rank{rank}.json"
        run_ptbpf("export", ws + "/a.ptb", "--format", "chrome", "--pid", pid, "-o", path)
        is_valid(path)
        mine, torch = load_trace(path), load_trace(f"{ws}/torch-{rank}.json")
        check({e["pid"] for e in slices(mine)} == {pid}, "a trace of one process has slices of another")
        check([e["args"]["External id"] for e in slices(mine)] == [e["args"]["External id"] for e in slices(both, pid=pid)],
              "ids depend on --pid")
        check(mine["distributedInfo"] == torch["distributedInfo"], f"{mine['distributedInfo']} instead of {torch['distributedInfo']}")
        check(mine["PT_PROFILER_JOB_NAME"] == torch["PT_PROFILER_JOB_NAME"] == "exp-1", "the name of the job")
        job = next(t["job"] for t in mine["ptbpf"]["targets"] if t["pid"] == pid)
        check(job["environment"]["LOCAL_RANK"] == rank and job["environment"]["OMP_NUM_THREADS"] == 1 and job["ns_pid"] == pid, f"job: {job}")
        with open(path, encoding="utf-8") as f:
            check("hunter2" not in f.read() and "HOME" not in job["environment"], "more of the environment than its job")
    check(both["distributedInfo"]["rank"] == 1, "a trace of several ranks is not of the first process")
    with open(ws + "/w/windows.jsonl", encoding="utf-8") as f:
        w = json.loads(f.read())
    run_id = job["environment"]["TORCHELASTIC_RUN_ID"]
    check(w["ranks"] == [0, 1] and w["jobs"] == ["torchrun:" + run_id], f"the log: {w}")


@pytest.mark.parametrize("source", ("agent", "probes"))
def test_ranks_without_launcher(ws, source):
    """Only torch.distributed knows their ranks; a group that is made in the window is known, too."""
    env = {"LD_PRELOAD": AGENT} if source == "agent" else {}
    with contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(workload("rank_work.py", ws, rank, env=env)) for rank in (0, 1)]
        for p in ranks:
            p.wait_line("^ready")
        with Tracer("attach", "--pid", f"{ranks[0].pid},{ranks[1].pid}", "-o", ws + "/a.ptb", "--no-table") as t:
            t.wait_attached()
            with open(ws + "/more", "w", encoding="ascii"):
                pass
            for p in ranks:
                p.wait_line("^more")
            t.stop()
    run_ptbpf("export", ws + "/a.ptb", "--format", "chrome", "--split-ranks", ws + "/split")
    for rank in (0, 1):
        want, got = load_trace(f"{ws}/more-{rank}.json")["distributedInfo"], load_trace(f"{ws}/split/rank{rank}.pt.trace.json.gz")["distributedInfo"]
        check(got == want and len(want["pg_config"]) == 2 + rank, f"{got} instead of {want}")


@pytest.mark.parametrize("source", ("agent", "probes"))
def test_names_are_the_last_ones(ws, source):
    """A process that takes another name within the window, after its first operator, and runs none under that name."""
    with AgentTarget(agent=AGENT if source == "agent" else None) as target:
        with Window(ws, target) as w:
            target.ask("ops", "neg", 10)
            target.ask("rename", "last-name")
    named = {e["name"]: e["args"]["name"] for e in w.trace["traceEvents"]
             if e["ph"] == "M" and e["name"] in ("process_name", "thread_name") and e["tid"] in (0, target.pid)}
    check(named == {"process_name": "last-name", "thread_name": f"thread {target.pid} (last-name)"}, f"names: {named}")


def recorded(folder):
    """The complete windows: on a busy machine some begin so late that the next one ends them, or are without a process that another one still reads."""
    with contextlib.suppress(FileNotFoundError), open(folder + "/windows.jsonl", encoding="utf-8") as f:
        return [w for w in map(json.loads, f) if w["exit"] == 0 and w["seconds"] > 0.9 and "left_out" not in w]
    return []


@contextlib.contextmanager
def control_group(*names):
    made = [memory_cgroup.make()[0]]
    try:
        for name in names:
            os.mkdir(os.path.join(made[-1], name))
            made.append(os.path.join(made[-1], name))
        yield made[-1]
    finally:
        for path in reversed(made):
            wait_for(lambda path=path: rmdir(path), "the control group to be empty")


def rmdir(path):
    with contextlib.suppress(OSError):
        os.rmdir(path)
    return not os.path.exists(path)


def test_pod(ws):
    """A process with a pid namespace and a control group as in Kubernetes."""
    names = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice", f"cri-containerd-{ID}.scope"
    with control_group(*names) as group:
        with Process(["unshare", "--pid", "--fork", "--kill-child", PYTHON, "-u", WORKLOADS + "/spin.py"]) as p:
            pid = wait_for(lambda: children_of(p.pid), "the inner process")[0]
            try:
                with open(group + "/cgroup.procs", "w", encoding="ascii") as f:
                    f.write(str(pid))
            except OSError as why:
                raise Skip(f"{group} takes no process: {why.strerror}") from None
            p.wait_line("rate")
            run_ptbpf("attach", "--pid", pid, "-d", "300ms", "-o", ws + "/a.ptb", "--trace", ws + "/a.json")
            run_ptbpf("sample", "--pid", pid, "--dir", ws + "/w", "--schedule", "active=100ms,repeat=1")
            os.kill(pid, 9)
            p.finish()
    is_valid(ws + "/a.json")
    doc = load_trace(ws + "/a.json")
    job = doc["ptbpf"]["targets"][0]["job"]
    check(job["ns_pid"] == 1 and job["cgroup"].endswith("/".join(names)), f"job: {job}")
    check((job["container_id"], job["container_runtime"], job["pod_uid"]) == (ID, "containerd", UID), f"job: {job}")
    check(doc["distributedInfo"] == {"backend": "", "rank": 0, "world_size": 1}, f"rank: {doc['distributedInfo']}")
    with open(ws + "/w/windows.jsonl", encoding="utf-8") as f:
        w = json.loads(f.read())
    check(w["jobs"] == ["pod:" + UID] and "ranks" not in w, f"the log: {w}")


@pytest.mark.parametrize("count, limit", ((64, 64), (64, 16)) if soak() else ((8, 8), (4, 2)))
def test_workers(ws, count, limit, detail):
    """Processes of one job, all in one window, with probes that they share, or some in each window in turn: one plan, and slices of each."""
    with control_group() as group, own_torch() as env:
        with workload("many_workers.py", count, "leave", env=env) as p:
            p.wait_line("ready")
            pids = sorted(children_of(p.pid))
            check(len(pids) == count, f"{len(pids)} workers")
            try:
                for pid in pids:
                    with open(group + "/cgroup.procs", "w", encoding="ascii") as f:
                        f.write(str(pid))
            except OSError as why:
                raise Skip(f"{group} takes no process: {why.strerror}") from None
            with Tracer("sample", "--cgroup", "/" + os.path.basename(group), "--process-limit", limit, "--dir", ws + "/w",
                        "--schedule", f"wait={'60s' if count == 64 else '10s'},active=1s,skip_first_wait=1", "--max-overhead", "100%",
                        "--traces", "json") as t:
                # on a busy machine some are skipped or late
                wait_for(lambda: {pid for w in recorded(ws + "/w") for pid in w["pids"]} == set(pids), "windows of all workers",
                         900 if soak() else None)
                log = recorded(ws + "/w")
                t.signal(signal.SIGTERM)
                t.finish()
            check(p.alive() and len(children_of(p.pid)) == count, "a worker ended")
    for w in log:
        check(w.get("selected", count) == count and len(w["pids"]) == limit, f"the log: {w}")
        doc = load_trace(w["trace"])
        check({e["pid"] for e in slices(doc, "aten::neg")} == set(w["pids"]), "a worker without operators")
        probes = doc["ptbpf"]["probes"]
        check(probes["attached"] > probes["functions"] * limit, f"the workers do not share a plan: {probes}")
        detail(f"{limit} of {count} workers: attached in {probes['attach_ms']:.0f} ms, "
               f"{doc['ptbpf']['cost']['collector_rss_bytes'] >> 20} MiB, window late by {w['late_seconds']:.1f} s")
