# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent in a real PyTorch process: when it is the source of operators, exact windows, threads and children that end,
tracers that die, other observers, agents that cannot do what is requested."""

import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from agent_target import ALIVE, OPS_ON, TORCH, AgentTarget, Window, change_semaphores, semaphores, sources_of
from support import (AGENT, PYTHON, WORKLOADS, Skip, Tracer, check, children_of, load_trace, require_root, run_ptbpf, slices,
                     wait_for, workload, workspace)
from test_budgets import flood


def need():
    require_root()
    if not os.path.exists(AGENT):
        raise Skip(f"the agent was not built: {AGENT}")


def source(window, target):
    used = window.sources().get(target.pid)
    check(used, f"the trace does not name the source: {window.trace['ptbpf']}")
    return used


def test_doctor(detail):
    """doctor --pid: the agent's state in a process with it and in one without."""
    need()
    with AgentTarget() as target, AgentTarget(agent=None) as plain:
        there, gone = (" ".join(line for line in run_ptbpf("doctor", "--pid", t.pid, expect=(0, 1, 3)).out if "agent" in line.lower())
                       for t in (target, plain))
    check(there and there != gone, f"prepared: {there!r}; not prepared: {gone!r}")
    detail(there.strip())


def test_used_where_it_is(ws, agent_target, detail):
    """attach records operators by the agent, with --agent off by probes; the slices are the same."""
    need()
    seen = {}
    for option in ("auto", "off"):
        with Window(ws, agent_target, "--agent", option, name=option) as w:
            agent_target.ask("ops", "exp", 300)
            agent_target.ask("begin", "label")
            agent_target.ask("ops", "neg", 7)
            agent_target.ask("end")
        seen[option] = [(e["name"], e["cat"]) for e in sorted(slices(w.trace), key=lambda e: (e["ts"], -e["dur"]))]
        used = source(w, agent_target)
        check((used[0] == "agent") == (option == "auto"), f"--agent {option}: {used}")
    check(seen["auto"] == seen["off"], f"{len(seen['auto'])} slices by the agent, {len(seen['off'])} by probes")
    check(seen["auto"].count(("aten::exp", "cpu_op")) == 300, "not 300 aten::exp")
    detail(f"{len(seen['auto'])} slices equal")


def test_used_by_record(ws):
    need()
    script = os.path.join(WORKLOADS, "scripted.py")
    for option, want in (((), "agent"), (("--agent", "off"), "probes")):
        run_ptbpf("record", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", *option, "--", PYTHON, script)
        doc = load_trace(ws + "/r.json")
        used = {"agent" if s == "agent" else "probes" for s, _ in sources_of(doc).values()}
        check(used == {want}, f"record {' '.join(option)}: source {used}")
        check(len(slices(doc, "aten::neg")) == 100, f"{len(slices(doc, 'aten::neg'))} of 100 aten::neg, source {want}")


def test_sharp_window(ws, agent_target):
    """Operators that end before the window or begin after it are not recorded; those that cross its end are marked."""
    need()
    agent_target.ask("ops", "sin", 50)
    agent_target.ask("begin", "crosses the beginning")
    with Window(ws, agent_target) as w:
        agent_target.ask("ops", "exp", 1000)
        agent_target.ask("end")
        agent_target.ask("begin", "crosses the end")
        agent_target.ask("ops", "neg", 10)
    agent_target.ask("end")
    agent_target.ask("ops", "tan", 50)
    got = {name: w.count("aten::" + name) for name in ("sin", "exp", "neg", "tan")}
    check(got == {"sin": 0, "exp": 1000, "neg": 10, "tan": 0}, f"{got}")
    open_end = slices(w.trace, "crosses the end")
    check(len(open_end) == 1 and open_end[0]["args"].get("finished") in (False, "false"), f"not marked: {open_end}")


def test_open_all_the_time(ws, agent_target):
    """An annotation around everything, and a thread in which nothing begins or ends: whoever comes later cannot see them, and says so."""
    need()
    agent_target.ask("begin", "around everything")
    said = {}
    for option in ("auto", "off"):
        for ops in (0, 10):
            with Window(ws, agent_target, "--agent", option, name=f"{option}{ops}", expect=(0,) if ops else (3,)) as w:
                if ops:
                    agent_target.ask("ops", "exp", ops)
            check(w.count("aten::exp") == ops and not w.count("around everything"), f"{slices(w.trace)}")
            said[option, ops] = w.trace["ptbpf_totals"]["account"], w.tracer.text()
    agent_target.ask("end")
    for (option, ops), texts in said.items():
        text = "no annotation began or ended" if ops else "nothing began or ended"
        check(all(text in t.lower() for t in texts), f"--agent {option}, {ops} operators: {texts}")


def test_busy_edges(ws, agent_target):
    """Windows over a thread that never pauses: nothing outside of the window, nothing lost, no gap."""
    need()
    gaps = []
    for k in range(5):
        agent_target.ask("busy_start")
        with Window(ws, agent_target, name=f"b{k}") as w:
            ready = w.tracer
            agent_target.ask("ops", "exp", 100)
        total = agent_target.ask("busy_stop")
        check(ready.proc.returncode == 0, "incomplete")
        ops = sorted((e["ts"], e["dur"]) for e in slices(w.trace, "aten::cos"))
        end = max(e["ts"] for e in w.trace["traceEvents"] if e["name"] == "Record Window End")
        check(0 < len(ops) < total, f"{len(ops)} of {total} operators")
        # times of a thread are set 3 ns apart, also those of an operator that began at the window's end
        check(ops[-1][0] + ops[-1][1] <= end + 0.01, f"an operator ends at {ops[-1][0] + ops[-1][1]}, the window at {end}")
        check(w.count("aten::exp") == 100, f"{w.count('aten::exp')} of 100 aten::exp")
        gaps.append(end - ops[-1][0])
    check(min(gaps) < 1e5, f"so many us at the end of each window have no operator: {gaps}")  # a thread may wait for a CPU in some


def test_short_threads(ws, agent_target):
    """Threads that end with a partly filled chunk: all of their operators are recorded."""
    need()
    with Window(ws, agent_target) as w:
        agent_target.ask("threads", 200, 7)
    check(source(w, agent_target)[0] == "agent", f"{source(w, agent_target)}")
    by_thread = {}
    for e in slices(w.trace, "aten::exp"):
        by_thread[e["tid"]] = by_thread.get(e["tid"], 0) + 1
    check(sum(by_thread.values()) == 1400, f"{sum(by_thread.values())} of 1400 operators of 200 threads")
    check(len({e["name"] for e in slices(w.trace) if e["name"].startswith("thread ")}) == 200, "annotations are missing")


def test_raising_threads(ws, agent_target):
    """Eight threads at once whose operators raise: each begin has an end."""
    need()
    with Window(ws, agent_target) as w:
        agent_target.ask("parallel", 8, 300)
    check(w.count("aten::neg") == 2400 and w.count("aten::mm") == 2400, f"{w.count('aten::neg')}, {w.count('aten::mm')} of 2400")
    check(not agent_target.ask("callbacks"), "still registered")


def test_forked_children(ws, detail):
    """A forked child has no agent thread: probes record it with --children, and no callback is registered in it."""
    need()
    with AgentTarget() as target:
        with Window(ws, target, "--children", expect=(0, 3)) as w:
            target.ask("ops", "exp", 20)
            pid, status = target.ask("fork", 4000)
            target.ask("ops", "exp", 20)
        check(os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, 7), f"the child ended with {status}")
        check(w.count("aten::exp") == 40, f"{w.count('aten::exp')} of 40 operators of the parent")
        check(target.ask("fork", 10)[1] == 0, "a child that is forked later has a callback")
        detail(f"{len(slices(w.trace, 'aten::sin', pid=pid))} of 4000 operators of the child")


def test_loader_workers(ws):
    """A training loop with data loader workers, with the agent and --children."""
    need()
    with workload("train_loop.py", 0, 2, env={"LD_PRELOAD": AGENT}) as p:
        p.wait_line("step 20")
        with Tracer("attach", "--pid", p.pid, "--children", "-d", "2s", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            t.expect(0, 3)
        doc = load_trace(ws + "/a.json")
        check("aten::stack" in {e["name"] for e in slices(doc) if e["pid"] != p.pid}, "no collation in the workers")
        used = sources_of(doc)
        check(used.get(p.pid, ("",))[0] == "agent", f"sources {used}")
        check({e["name"] for e in slices(doc, pid=p.pid)} >= {"aten::conv2d", "forward"}, "the loop's own operators are missing")
        p.wait_news(r"step \d+")
        check(p.alive() and children_of(p.pid), "the loop or its workers died")


def test_execs(ws, detail):
    """The traced process executes another program."""
    need()
    with AgentTarget() as target:
        with Tracer("attach", "--pid", target.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table") as t:
            t.wait_attached()
            for _ in range(50):
                target.ask("ops", "exp", 10)
                time.sleep(0.004)
            target.send("exec")
            t.expect(3)
        got = len(slices(load_trace(ws + "/a.json"), "aten::exp"))
        # records that the agent has not sent yet, of 0.2 s at most, are lost with the program, and ptbpf reports that
        check(got >= 100 and any("exec" in line for line in t.err), f"{got} of 500 operators before exec\n{t.text()}")
        check("whose agent did not send its last" in t.text(), t.text())
        detail(f"{got} of 500 operators before exec")


def test_killed_tracer(ws, agent_target, detail):
    """kill -9 of ptbpf: the callback is removed within a second, and the next ptbpf can attach."""
    need()
    times = []
    for k in range(5):
        with Tracer("attach", "--pid", agent_target.pid, "-o", f"{ws}/k{k}.ptb", "--no-table") as t:
            t.wait_attached()
            agent_target.ask("ops", "neg", 100)
            check(agent_target.ask("callbacks"), "no callback while attached")
            t.signal(signal.SIGKILL)
            t.finish()
            times.append(agent_target.ask("until_silent", 1.0))
            check(times[-1] is not None, "still registered a second after the tracer was killed")
    with Window(ws, agent_target) as w:
        agent_target.ask("ops", "exp", 200)
    check(w.count("aten::exp") == 200 and source(w, agent_target)[0] == "agent", f"{w.count('aten::exp')} of 200, {w.sources()}")
    detail(f"silent after at most {1000 * max(times):.0f} ms")


def test_idle_target_is_left(ws, agent_target):
    """The agent detaches equally fast from a target that makes no more calls."""
    need()
    with Window(ws, agent_target) as w:
        agent_target.ask("ops", "neg", 10)
    check(agent_target.ask("until_silent", 1.0) is not None, "still registered")
    check(w.count("aten::neg") == 10, f"{w.count('aten::neg')} of 10")


def test_thousand_requests(ws, agent_target):
    """Semaphores are raised and lowered at random moments, a thousand times, while many threads run operators."""
    need()
    with Window(ws, agent_target, name="first"):
        agent_target.ask("ops", "neg", 10)
    found = semaphores(agent_target.pid)
    check({"ops", "chunk", "inputs"} <= set(found), f"semaphores {found}")
    rng = random.Random(7)
    agent_target.ask("busy_start")
    for k in range(1000):
        names = rng.choice((("ops", "chunk"), ("ops", "inputs", "chunk"), ("chunk", "ops", "inputs", "outputs"), ("stacks", "ops", "chunk")))
        addresses = [found[n] for n in names]
        change_semaphores(agent_target.pid, addresses, 1)
        time.sleep(rng.choice((0, 0.001, 0.02, 0.06) if k % 20 == 0 else (0, 0.001, 0.004)))
        change_semaphores(agent_target.pid, addresses, -1)
        if k % 100 == 0:
            agent_target.ask("parallel", 4, 20)
    check(agent_target.ask("busy_stop") > 1000, "the busy thread did nothing")
    check(agent_target.ask("until_silent", 1.0) is not None, "a callback is left")
    state = agent_target.ask("ctl")["state"]
    check(state & ALIVE and not state & OPS_ON, f"state {state:#x}")
    with Window(ws, agent_target, name="last") as w:
        agent_target.ask("ops", "exp", 100)
    check(w.count("aten::exp") == 100, f"{w.count('aten::exp')} of 100 afterwards")


def test_short_windows(ws, agent_target):
    """One attach after another, each with exact edges."""
    need()
    for k in range(12):
        options = ((), ("--record-shapes",), ("--execution-trace",), ("--agent", "off"), ("--with-stack",),
                   ("--with-stack", "--execution-trace", "--profile-memory", "--kernel-memory"))[k % 6]
        with Window(ws, agent_target, *options, name=f"s{k}") as w:
            agent_target.ask("ops", "exp", 50 + k)
        check(w.count("aten::exp") == 50 + k, f"window {k} {options}: {w.count('aten::exp')} of {50 + k}")
    check(agent_target.ask("until_silent", 1.0) is not None, "a callback is left")


def test_torch_profiler_beside(ws):
    """torch.profiler before, during and after a window: both have all operators."""
    need()
    with AgentTarget() as target:
        for k, order in enumerate(("outside", "inside", "before", "after")):
            if order in ("outside", "before"):
                target.ask("profile_start")
            with Window(ws, target, name=f"p{k}") as w:
                if order in ("inside", "after"):
                    target.ask("profile_start")
                target.ask("ops", "exp", 100)
                if order in ("inside", "before"):
                    found = target.ask("profile_stop")
                target.ask("ops", "neg", 30)
            target.ask("ops", "tan", 10)
            if order in ("outside", "after"):
                found = target.ask("profile_stop")
            check(found.get("aten::exp") == 100, f"{order}: torch.profiler has {found}")
            check((w.count("aten::exp"), w.count("aten::neg"), w.count("aten::tan")) == (100, 30, 0), f"{order}: {order} of ptbpf")
        check(target.ask("until_silent", 1.0) is not None, "a callback is left")


def test_torch_observer_beside(ws):
    """The same with ExecutionTraceObserver, when both record outputs."""
    need()
    with AgentTarget() as target:
        target.ask("observe_start", ws + "/et.json")
        with Window(ws, target, "--execution-trace") as w:
            target.ask("ops", "exp", 100)
        target.ask("ops", "exp", 10)
        target.ask("observe_stop")
        with open(ws + "/et.json") as f:
            theirs = f.read().count('"name": "aten::exp"')
        check((w.count("aten::exp"), theirs) == (100, 110), f"ptbpf {w.count('aten::exp')} of 100, torch {theirs} of 110")


def patched(ws, old, new):
    """A copy of the agent's library in which bytes that match `old` are replaced."""
    with open(AGENT, "rb") as f:
        raw = f.read()
    found = re.search(old, raw, re.S)
    check(found and len(found[0]) == len(new), f"{old!r} is not in the agent's library")
    path = os.path.join(ws, os.path.basename(AGENT))
    with open(path, "wb") as f:
        f.write(re.sub(old, new, raw, flags=re.S))
    return path


def test_refused_agents(ws, detail):
    """An agent of another version, and one that finds no torch: probes are used instead, and the trace has the reason."""
    need()
    texts = []
    for old, new in ((b"PTBAGEN\0....", b"PTBAGEN\0\x63\0\0\0"), (b"addGlobalCallback", b"addGlobalCallbacc")):
        with AgentTarget(agent=patched(ws, old, new)) as target:
            with Window(ws, target, "--agent", "auto", expect=(0, 3)) as w:
                target.ask("ops", "exp", 60)
            check(w.count("aten::exp") == 60, f"{w.count('aten::exp')} of 60")
            used = source(w, target)
            check(used[0] != "agent" and used[1], f"source {used}")
            texts.append(used[1])
    detail("; ".join(texts))


def test_older_agent(ws):
    """An agent from before there were Python stacks: it records operators, but with --with-stack probes do, and the trace has the reason."""
    need()
    with AgentTarget(agent=patched(ws, b"ptbpf\0stacks\0", b"ptbpf\0stackz\0")) as target:
        for options, want in (((), "agent"), (("--with-stack",), "probes")):
            with Window(ws, target, *options) as w:
                target.ask("ops", "exp", 60)
            check(w.count("aten::exp") == 60, f"{w.count('aten::exp')} of 60")
            used = source(w, target)
            check(used == (want, "its library is an older one, without Python stacks" if options else ""), f"source {used}")


def test_broken_layout(ws, detail):
    """Invalid settings: the agent does not register, reports the reason, and works with the next tracer."""
    need()
    with AgentTarget() as target:
        with Window(ws, target, name="first"):
            target.ask("ops", "neg", 10)
        found = semaphores(target.pid)
        with open(f"/proc/{target.pid}/maps") as f:
            begin = next(int(line.split("-")[0], 16) for line in f if line.rstrip().endswith(os.path.basename(AGENT)))
        check(begin, "the agent is not mapped")
        address = int(target.ask("ctl_address"))
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as mem:
            mem.seek(address + 64)  # cfg.rf: offsets outside of the object
            mem.write(b"\xff\x00" + b"\xf0\xff" * 6)
        change_semaphores(target.pid, [found["chunk"], found["ops"]], 1)
        state = wait_for(lambda: (lambda c: c["ops_why"] and c)(target.ask("ctl")), "the reason of the agent", 5)
        check(not state["state"] & OPS_ON and not target.ask("callbacks"), f"registered with a broken layout: {state}")
        change_semaphores(target.pid, [found["chunk"], found["ops"]], -1)
        target.ask("ops", "neg", 100)
        with Window(ws, target, name="next") as w:
            target.ask("ops", "exp", 40)
        check(w.count("aten::exp") == 40 and source(w, target)[0] == "agent", f"{w.count('aten::exp')} of 40, {w.sources()}")
        detail(f"why {state['ops_why']}")


def test_quiet_when_idle(detail):
    """Without a tracer: no callback, at most one thread, which sleeps."""
    need()
    with AgentTarget() as target, AgentTarget(agent=None) as plain:
        ctl = target.ask("ctl")
        check(ctl["magic"] == "PTBAGENT" and ctl["state"] & (ALIVE | TORCH), f"{ctl}")
        check(not ctl["state"] & OPS_ON and not target.ask("callbacks"), "registered without a tracer")
        more = target.ask("threads_now") - plain.ask("threads_now")
        check(0 <= more <= 1, f"{more} threads more than without the agent")

        def usage():
            with open(f"/proc/{target.pid}/task/{ctl['tid']}/schedstat") as f:
                return int(f.read().split()[0])

        begin, spent = time.monotonic_ns(), usage()
        target.ask("ops", "neg", 200000)
        share = (usage() - spent) / (time.monotonic_ns() - begin)
        check(share < 0.01, f"its thread takes {100 * share:.2f} % of a processor")
        with open(f"/proc/{target.pid}/task/{ctl['tid']}/status") as f:
            blocked = next(line.split()[1] for line in f if line.startswith("SigBlk"))
        free = [s.name for s in signal.Signals if s not in (signal.SIGKILL, signal.SIGSTOP) and not int(blocked, 16) >> (s - 1) & 1]
        check(not free, f"signals that its thread takes: {free}")
        detail(f"{100 * share:.3f} % of a processor")


def test_no_torch():
    """In programs without torch the agent does nothing; in a Python without torch its thread sleeps; it stays loaded after
    dlclose()."""
    need()
    done = subprocess.run(["/bin/sh", "-c", "sleep 0.2; ls /proc/$$/task | wc -l; exit 3"], env=dict(os.environ, LD_PRELOAD=AGENT),
                          capture_output=True, text=True, timeout=180)
    check((done.returncode, done.stdout.split(), done.stderr) == (3, ["1"], ""), f"{done}")
    with AgentTarget("notorch") as target, workspace() as ws:
        check(target.ask("threads_now") <= 2, f"{target.ask('threads_now')} threads")
        check(not target.ask("ctl")["state"] & (TORCH | OPS_ON), f"{target.ask('ctl')}")
        shutil.copy(AGENT, ws + "/again.so")
        check(all(target.ask("load", AGENT, 20)) and all(target.ask("load", ws + "/again.so", 3)), "could not be loaded again")
        target.proc.stdin.close()
        check(target.proc.wait(180) == 0, f"ended with {target.proc.returncode}")


def test_acts_late(ws):
    """The window begins after the agent has acted on all requests, although it says before that it records, as it does for another tracer."""
    with flood("slow") as p:
        p.wait_line("ready")
        with Tracer("attach", "--activities", "cuda,sync", "--pid", p.pid, "-o", ws + "/a.ptb", "--no-table") as t:
            t.wait_attached()
            check("acted" in p.out, "the window began before")
            t.stop()


@pytest.mark.parametrize("others, source_of_other", [((), "agent"), (("--record-shapes",), "probes")])
def test_two_tracers(ws, agent_target, others, source_of_other):
    """A second tracer comes and goes within the window of the first, which misses nothing for that. With other options it uses probes."""
    need()
    with Window(ws, agent_target, name="a") as first:
        agent_target.ask("busy_start")
        for k in range(2):
            with Window(ws, agent_target, *others, name=f"b{k}", expect=(0, 3)) as w:  # 3: the agent goes on for the first
                agent_target.ask("ops", "exp", 100)
            check(w.count("aten::exp") == 100, f"{w.count('aten::exp')} of 100 in window {k}")
            used = source(w, agent_target)
            check(used == (source_of_other, "another tracer uses it with other options" if others else ""), f"source {used}")
        cnt = agent_target.ask("busy_stop")
    check(source(first, agent_target)[0] == "agent" and first.count("aten::cos") == cnt, f"{first.count('aten::cos')} of {cnt}")


def test_loaded_twice(ws):
    """A second copy of the agent under another name: only one of them records."""
    need()
    with AgentTarget() as target:
        shutil.copy(AGENT, ws + "/" + os.path.basename(AGENT))
        check(all(target.ask("load", ws + "/" + os.path.basename(AGENT), 2)), "could not be loaded again")
        with Window(ws, target) as w:
            target.ask("ops", "exp", 123)
        check(w.count("aten::exp") == 123, f"{w.count('aten::exp')} of 123")
        target.proc.stdin.close()
        check(target.proc.wait(180) == 0, f"ended with {target.proc.returncode}")
