# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent in a real PyTorch process: when it is used and when not, sharp windows, threads and children that end,
tracers that die, other observers, agents that cannot do what is asked."""

import os
import random
import shutil
import signal
import subprocess
import time

from agent_target import AGENT, ALIVE, OPS_ON, TORCH, AgentTarget, Window, semaphores, sources_of, wish
from support import (PYTHON, WORKLOADS, Skip, Tracer, check, children_of, load_trace, require_root, run_ptbpf, slices,
                     wait_for, workload, workspace)


def need():
    require_root()
    if not os.path.exists(AGENT):
        raise Skip(f"the agent was not built: {AGENT}")


def source(window, target):
    told = window.sources().get(target.pid)
    check(told, f"the trace does not say which source was used: {window.trace['ptbpf']}")
    return told


def test_doctor_says(detail):
    """doctor --pid: there, and what it can do; not there."""
    need()
    with AgentTarget() as target, AgentTarget(agent=None) as plain:
        there, gone = (" ".join(line for line in run_ptbpf("doctor", "--pid", t.pid, expect=(0, 1, 3)).out if "agent" in line.lower())
                       for t in (target, plain))
    check(there and there != gone, f"prepared: {there!r}; not prepared: {gone!r}")
    detail(there.strip())


def test_used_where_it_is(ws, agent_target, detail):
    """attach takes operators from the agent; with --agent off from probes; the same slices."""
    need()
    seen = {}
    for option in ("auto", "off"):
        with Window(ws, agent_target, "--agent", option, name=option) as w:
            agent_target.ask("ops", "exp", 300)
            agent_target.ask("begin", "label")
            agent_target.ask("ops", "neg", 7)
            agent_target.ask("end")
        seen[option] = [(e["name"], e["cat"]) for e in sorted(slices(w.trace), key=lambda e: (e["ts"], -e["dur"]))]
        told = source(w, agent_target)
        check((told[0] == "agent") == (option == "auto"), f"--agent {option}: {told}")
    check(seen["auto"] == seen["off"], f"{len(seen['auto'])} slices by the agent, {len(seen['off'])} by probes")
    check(seen["auto"].count(("aten::exp", "cpu_op")) == 300, "not 300 aten::exp")
    detail(f"{len(seen['auto'])} slices equal")


def test_used_by_record(ws):
    need()
    script = os.path.join(WORKLOADS, "scripted.py")
    for option, want in (((), "agent"), (("--agent", "off"), "probes")):
        run_ptbpf("record", "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", *option, "--", PYTHON, script)
        doc = load_trace(ws + "/r.json")
        told = {"agent" if s == "agent" else "probes" for s, _ in sources_of(doc).values()}
        check(told == {want}, f"record {' '.join(option)}: source {told}")
        check(len(slices(doc, "aten::neg")) == 100, f"{len(slices(doc, 'aten::neg'))} of 100 aten::neg, source {want}")


def test_sharp_window(ws, agent_target):
    """What ends before it or begins after it is not there; what crosses its end says so."""
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


def test_busy_edges(ws, agent_target):
    """Windows over a thread that never stops: nothing outside, nothing lost, no gap within."""
    need()
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
        check(ops[-1][0] + ops[-1][1] <= end + 0.002, f"an operator ends at {ops[-1][0] + ops[-1][1]}, the window at {end}")
        check(w.count("aten::exp") == 100, f"{w.count('aten::exp')} of 100 aten::exp")
        at = [t for t, _ in ops]
        widest = max((b - a for a, b in zip(at, at[1:])), default=0)
        check(end - at[-1] < max(1e5, widest * 2), f"the last {end - at[-1]:.0f} us have no operator")


def test_short_threads(ws, agent_target):
    """Threads that end with a part-filled chunk: every operator of each is there."""
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
    """Eight threads at once whose operators raise: each begin has its end."""
    need()
    with Window(ws, agent_target) as w:
        agent_target.ask("parallel", 8, 300)
    check(w.count("aten::neg") == 2400 and w.count("aten::mm") == 2400, f"{w.count('aten::neg')}, {w.count('aten::mm')} of 2400")
    check(not agent_target.ask("callbacks"), "still registered")


def test_forked_children(ws, detail):
    """A forked child has no agent's thread: probes see it with --children, and nobody listens inside it."""
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
    """A training loop with data loader workers, prepared, with --children."""
    need()
    with workload("train_loop.py", 0, 2, env={"LD_PRELOAD": AGENT}) as p:
        p.wait_line("step 20")
        with Tracer("attach", "--pid", p.pid, "--children", "-d", "2s", "-o", ws + "/a.ptb", "--trace", ws + "/a.json") as t:
            t.wait_attached()
            t.expect(0, 3)
        doc = load_trace(ws + "/a.json")
        check("aten::stack" in {e["name"] for e in slices(doc) if e["pid"] != p.pid}, "no collation in the workers")
        told = sources_of(doc)
        check(told.get(p.pid, ("",))[0] == "agent", f"sources {told}")
        check({e["name"] for e in slices(doc, pid=p.pid)} >= {"aten::conv2d", "forward"}, "the loop's own operators are missing")
        p.wait_news(r"step \d+")
        check(p.alive() and children_of(p.pid), "the loop or its workers died")


def test_execs(ws, detail):
    """The process becomes another program under the tracer."""
    need()
    with AgentTarget() as target:
        with Tracer("attach", "--pid", target.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table") as t:
            t.wait_attached()
            for _ in range(50):
                target.ask("ops", "exp", 10)
                time.sleep(0.004)
            target.tell("exec")
            t.expect(3)
        got = len(slices(load_trace(ws + "/a.json"), "aten::exp"))
        # what the agent has not sent yet, two tenths of a second at most, goes with the program: that is told
        check(got >= 100 and any("exec" in line for line in t.err), f"{got} of 500 operators before exec\n{t.text()}")
        check("before their agent sent" in t.text(), t.text())
        detail(f"{got} of 500 operators before exec")


def test_killed_tracer(ws, agent_target, detail):
    """kill -9 of ptbpf: nobody listens within a second, and the next one is served."""
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
    """A target that makes no call any more is left as fast."""
    need()
    with Window(ws, agent_target) as w:
        agent_target.ask("ops", "neg", 10)
    check(agent_target.ask("until_silent", 1.0) is not None, "still registered")
    check(w.count("aten::neg") == 10, f"{w.count('aten::neg')} of 10")


def test_thousand_wishes(ws, agent_target):
    """Semaphores go up and down at any moment, a thousand times, under operators on many threads."""
    need()
    with Window(ws, agent_target, name="first"):
        agent_target.ask("ops", "neg", 10)
    found = semaphores(agent_target.pid)
    check({"ops", "chunk", "inputs"} <= set(found), f"semaphores {found}")
    rng = random.Random(7)
    agent_target.ask("busy_start")
    for k in range(1000):
        names = rng.choice((("ops", "chunk"), ("ops", "inputs", "chunk"), ("chunk", "ops", "inputs", "outputs")))
        addresses = [found[n] for n in names]
        wish(agent_target.pid, addresses, 1)
        time.sleep(rng.choice((0, 0.001, 0.02, 0.06) if k % 20 == 0 else (0, 0.001, 0.004)))
        wish(agent_target.pid, addresses, -1)
        if k % 100 == 0:
            agent_target.ask("parallel", 4, 20)
    check(agent_target.ask("busy_stop") > 1000, "the busy thread stood still")
    check(agent_target.ask("until_silent", 1.0) is not None, "a callback is left")
    state = agent_target.ask("ctl")["state"]
    check(state & ALIVE and not state & OPS_ON, f"state {state:#x}")
    with Window(ws, agent_target, name="last") as w:
        agent_target.ask("ops", "exp", 100)
    check(w.count("aten::exp") == 100, f"{w.count('aten::exp')} of 100 afterwards")


def test_short_windows(ws, agent_target):
    """Attach after attach, each with its own edges."""
    need()
    for k in range(12):
        options = ((), ("--record-shapes",), ("--execution-trace",), ("--agent", "off"))[k % 4]
        with Window(ws, agent_target, *options, name=f"s{k}") as w:
            agent_target.ask("ops", "exp", 50 + k)
        check(w.count("aten::exp") == 50 + k, f"window {k} {options}: {w.count('aten::exp')} of {50 + k}")
    check(agent_target.ask("until_silent", 1.0) is not None, "a callback is left")


def test_torch_profiler_beside(ws):
    """torch.profiler before, during and after a window: both have all."""
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
                    told = target.ask("profile_stop")
                target.ask("ops", "neg", 30)
            target.ask("ops", "tan", 10)
            if order in ("outside", "after"):
                told = target.ask("profile_stop")
            check(told.get("aten::exp") == 100, f"{order}: torch.profiler has {told}")
            check((w.count("aten::exp"), w.count("aten::neg"), w.count("aten::tan")) == (100, 30, 0), f"{order}: {order} of ptbpf")
        check(target.ask("until_silent", 1.0) is not None, "a callback is left")


def test_torch_observer_beside(ws):
    """The same with ExecutionTraceObserver, and outputs asked for by both."""
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


def patched(ws, old, new, times=1):
    """A copy of the agent's library with other bytes."""
    with open(AGENT, "rb") as f:
        raw = f.read()
    check(raw.count(old) >= 1 and len(old) == len(new), f"{old!r} is not in the agent's library")
    path = os.path.join(ws, os.path.basename(AGENT))
    with open(path, "wb") as f:
        f.write(raw.replace(old, new))
    return path


def test_refused_agents(ws, detail):
    """One of another version, one that finds no torch: probes take over, and the trace says why."""
    need()
    texts = []
    for old, new in ((b"PTBAGEN\0\2\0\0\0", b"PTBAGEN\0\x63\0\0\0"), (b"addGlobalCallback", b"addGlobalCallbacc")):
        with AgentTarget(agent=patched(ws, old, new)) as target:
            with Window(ws, target, "--agent", "auto", expect=(0, 3)) as w:
                target.ask("ops", "exp", 60)
            check(w.count("aten::exp") == 60, f"{w.count('aten::exp')} of 60")
            told = source(w, target)
            check(told[0] != "agent" and told[1], f"source {told}")
            texts.append(told[1])
    detail("; ".join(texts))


def test_broken_layout(ws, detail):
    """Settings that cannot be true: the agent does not register, says so, and serves the next one."""
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
            mem.seek(address + 64)  # cfg.rf: offsets that lie outside of the object
            mem.write(b"\xff\x00" + b"\xf0\xff" * 6)
        wish(target.pid, [found["chunk"], found["ops"]], 1)
        state = wait_for(lambda: (lambda c: c["ops_why"] and c)(target.ask("ctl")), "the agent to say why not", 5)
        check(not state["state"] & OPS_ON and not target.ask("callbacks"), f"registered with a broken layout: {state}")
        wish(target.pid, [found["chunk"], found["ops"]], -1)
        target.ask("ops", "neg", 100)
        with Window(ws, target, name="next") as w:
            target.ask("ops", "exp", 40)
        check(w.count("aten::exp") == 40 and source(w, target)[0] == "agent", f"{w.count('aten::exp')} of 40, {w.sources()}")
        detail(f"why {state['ops_why']}")


def test_quiet_when_idle(detail):
    """No tracer: no callback, one thread at most, asleep."""
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
    """In programs that cannot use torch it does nothing; in a Python without torch its thread sleeps; loaded and unloaded
    at will it stays."""
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


def test_loaded_twice(ws):
    """A second copy under another name, beside the first: one of them serves, once."""
    need()
    with AgentTarget() as target:
        shutil.copy(AGENT, ws + "/" + os.path.basename(AGENT))
        check(all(target.ask("load", ws + "/" + os.path.basename(AGENT), 2)), "could not be loaded again")
        with Window(ws, target) as w:
            target.ask("ops", "exp", 123)
        check(w.count("aten::exp") == 123, f"{w.count('aten::exp')} of 123")
        target.proc.stdin.close()
        check(target.proc.wait(180) == 0, f"ended with {target.proc.returncode}")
