# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every mode of ptbpf on a training loop, in a guest (tools/kernels/run.sh). One result line per mode.

  modes.py [MODE...]     traces are left in $MODES_OUT (default /run/out)
"""

import collections
import ctypes
import json
import os
import re
import signal
import struct
import sys
import threading
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import (PTBPF, PYTHON, WORKLOADS, CommandTarget, Failure, Skip, Tracer, check, load_trace, run_ptbpf, say,  # noqa: E402
                     slices, wait_for, workload)

OUT = os.environ.get("MODES_OUT", "/run/out")
AGENT = os.path.join(os.path.dirname(PTBPF), "libptbpf_agent.so")
LOOP = os.path.join(WORKLOADS, "train_loop.py")
WINDOW = "5s"
targets = {}


def release():
    return tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())


def target(kind):
    """A training loop that has begun, the same one for all modes of a kind; the losses of its steps continue."""
    if kind not in targets:
        env = {"LD_PRELOAD": AGENT} if kind == "agent" else {}
        p = workload("train_loop.py", 0, 2 if kind == "workers" else 0, env=env)
        p.wait_line("^step 20 ")
        targets[kind] = p
    return targets[kind]


def end_targets():
    """Their output remains."""
    for p in targets.values():
        p.__exit__()


def bpf_objects():
    """Programs and links in the kernel, among them remains of ptbpf."""
    libc = ctypes.CDLL(None, use_errno=True)

    def count(cmd):
        n = last = 0
        while True:
            attr = ctypes.create_string_buffer(struct.pack("II", last, 0).ljust(120, b"\0"), 120)
            if libc.syscall(321, cmd, attr, 120) != 0:
                return n
            last = struct.unpack_from("I", attr.raw, 4)[0]
            n += 1

    return count(11), count(31)  # BPF_PROG_GET_NEXT_ID, BPF_LINK_GET_NEXT_ID


def left_behind():
    with open("/sys/kernel/tracing/uprobe_events") as f:
        return sum(line.startswith("p:ptbpf_") for line in f)


def check_skipped(doc, t):
    """Linux 7.0 and later may skip hits where programs are preempted (tests/unit/probe_target.h); nothing else is missing then."""
    lost = {c["name"] for c in doc["ptbpf"]["loss"]["counters"] if c["loss"]}
    check(t.finish() == 0 or (release() >= (7, 0) and lost == {"MISSED"}), f"{lost}\n{t.text()}")


def continues(p, before):
    """Nothing is left in the kernel but what was there before, and the loop goes on."""
    wait_for(lambda: bpf_objects() == before, "the kernel to let go of programs and links")
    check(left_behind() == 0, "definitions are left in tracefs")
    p.wait_news("^step ", since=len(p.out))


def window(kind, name, *options, expect=None):
    """The trace of a window; the loop continues afterwards, and nothing is left in the kernel."""
    p = target(kind)
    before = bpf_objects()
    t = run_ptbpf("attach", "--pid", p.pid, "-d", WINDOW, "-o", f"/run/{name}.ptb", "--trace", f"{OUT}/{name}.json", "--no-table",
                  *options, expect=expect or (0, 3))
    os.unlink(f"/run/{name}.ptb")
    continues(p, before)
    doc = load_trace(f"{OUT}/{name}.json")
    if not expect:
        check_skipped(doc, t)
    return doc, t


def has_operators(doc):
    ops = slices(doc, cat="cpu_op")
    check(len(ops) > 50 and any(e["name"] == "aten::convolution" for e in ops), f"{len(ops)} operators")
    return ops


def attach(kind, name, *options, expect=None):
    """A window in which operators are recorded."""
    doc, t = window(kind, name, *options, expect=expect)
    return doc, has_operators(doc), t


def has_shapes(ops):
    n = sum(any(e["args"].get("Input Dims", [])) for e in ops)
    check(n > len(ops) // 2, f"{n} of {len(ops)} operators have shapes")


def has_stacks(doc, ops):
    """Every operator that began within the window has a Python stack from the loop's first function on."""
    begun = [e for e in ops if "ptbpf.open_at_attach" not in e["args"]]
    n = sum("train_loop.py(40): main;" in e["args"].get("Call stack", "") for e in begun)
    check(n == len(begun), f"{n} of {len(begun)} operators have whole stacks")
    modules = {e["name"] for e in doc["traceEvents"] if e.get("cat") == "python_function" and "Python module id" in e["args"]}
    check(any(name.startswith("nn.Module: Net") for name in modules), f"modules {modules}")


def summary(t):
    """The line with losses and cost."""
    return next((line for line in t.err if "slices" in line), "")


def refusal():
    """Before Linux 5.15 every command names the kernel that is needed."""
    doctor = run_ptbpf("doctor", expect=1)
    check(any(line.startswith("NO ") and "5.15" in line for line in doctor.out), doctor.text())
    for args in (("attach", "--wait", "--pid", os.getpid()), ("record", "--", "/bin/true")):
        t = run_ptbpf(args[0], "-o", "/run/r.ptb", *args[1:], expect=1)
        check("Linux 5.15 is needed" in t.err[0] and not any("exit code" in line for line in t.err), t.text())


def doctor():
    t = run_ptbpf("doctor")
    wrong = [line for line in t.out if re.match(r"(NO|\?) ", line)]
    check(not wrong, "\n".join(wrong))
    return "; ".join(re.sub(r" +", " ", line) for line in t.out if line.startswith("no "))


def names():
    return summary(attach("plain", "names")[2])


def shapes():
    _, ops, t = attach("plain", "shapes", "--record-shapes")
    has_shapes(ops)
    return summary(t)


def execution_trace():
    _, ops, t = attach("plain", "et", "--execution-trace", "--et", f"{OUT}/et.et.json")
    has_shapes(ops)
    return summary(t)


def memory():
    doc, _, t = attach("plain", "memory", "--profile-memory", "--kernel-memory")
    check(any(e.get("name") == "[memory]" for e in doc["traceEvents"]), "no allocation")
    return summary(t)


def perf_uprobes():
    _, ops, t = attach("plain", "perf", "--perf-uprobes", "--record-shapes")
    has_shapes(ops)
    return summary(t)


def everything():
    _, ops, t = attach("plain", "all", "--execution-trace", "--profile-memory", "--kernel-memory", "--activities", "cpu,cuda,sync")
    has_shapes(ops)
    return summary(t)


def stacks():
    doc, ops, t = attach("plain", "stacks", "--with-modules")
    has_stacks(doc, ops)
    return summary(t)


def sched():
    if "PREEMPT_RT" in os.uname().version and release() < (6, 12):
        done = run_ptbpf("attach", "--pid", target("plain").pid, "--sched", "-d", "1s", expect=(1,))
        check("real-time" in done.text(), done.text())
        return "refused"
    doc, _, t = attach("plain", "sched", "--sched")
    check(sum(e["ph"] == "T" for e in doc["traceEvents"]) > 20, "no states of threads")
    return summary(t)


def hotplug():
    """A processor goes and comes back again and again in a window of waits and samples."""
    path, done = "/sys/devices/system/cpu/cpu1/online", threading.Event()

    def turn():
        while not done.wait(0.5):
            for state in "01":
                with open(path, "w", encoding="utf-8") as f:
                    f.write(state)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        doc, t = window("plain", "hotplug", "--sched", "--with-samples", "99", expect=(0, 3))
    finally:
        done.set()
        thread.join()
    check(sum(e["ph"] == "T" for e in doc["traceEvents"]) > 20, "no states of threads")
    return summary(t)


def samples_beside():
    """Samples in a window of operators with their stacks."""
    doc, ops, t = attach("plain", "beside", "--with-samples", "99", "--with-modules", expect=(0, 3))
    has_stacks(doc, ops)
    found = sum(e.get("cat") == "python_sample" and "train_loop.py" in e["args"].get("Call stack", "") for e in doc["traceEvents"])
    check(found > 20, f"{found} samples in the loop")
    return summary(t)


def samples():
    """Samples of threads that run and of threads that wait, all with a Python stack."""
    doc, t = window("workers", "samples", "--sample-stacks", "99", "--children", expect=(0, 3))
    found = [e for e in doc["traceEvents"] if e.get("cat") == "python_sample"]
    states = collections.Counter(e["args"]["ptbpf.state"] for e in found if "train_loop.py" in e["args"].get("Call stack", ""))
    check(states["running"] > 20 and states["blocked"] > 20, f"{len(found)} samples, with the loop in their stacks {states}")
    return summary(t)


def schedule():
    """Windows of `ptbpf sample`. An emulated machine may take so long to attach that the first one is skipped."""
    p = target("plain")
    before = bpf_objects()
    run_ptbpf("sample", "--pid", p.pid, "--dir", f"{OUT}/windows", "--schedule", "wait=20s,active=5s,repeat=2", "--control", "off",
              expect=(0, 3))
    with open(f"{OUT}/windows/windows.jsonl", encoding="utf-8") as f:
        windows = [json.loads(line) for line in f]
    wait_for(lambda: bpf_objects() == before, "the kernel to let go of programs and links")
    recorded = [w["capture"] for w in windows if "capture" in w]
    check(len(windows) == 2 and recorded, f"{windows}")
    for nr, capture in enumerate(recorded):
        run_ptbpf("export", capture, "--format", "chrome", "-o", f"{OUT}/w{nr}.json", expect=(0, 3))
        has_operators(load_trace(f"{OUT}/w{nr}.json"))


def live():
    """A screen of `ptbpf top` as JSON, with operators."""
    p = target("plain")
    before = bpf_objects()
    frame = json.loads("\n".join(run_ptbpf("top", p.pid, "--once", "--json", "--operators", "--max-overhead", "off", "--interval", WINDOW).out))
    continues(p, before)
    names = {row["name"] for row in frame["operators"]}
    check("aten::addmm" in names and any("train_loop.py" in row["name"] for row in frame["lines"]), f"{names}, {frame['lines'][:5]}")
    main = next(t for t in frame["threads"] if t["tid"] == p.pid)
    check(main["on_cpu_ns"] > 0, f"{main}")
    return f"{len(names)} operators, seen {frame['window_ns'] / frame['wall_ns']:.0%}"


def killed():
    """kill -9 of ptbpf: the loop continues, the next window is complete, and nothing stays registered after it."""
    p = target("plain")
    with Tracer("attach", "--pid", p.pid, "-o", "/run/k.ptb", "--no-table", "--perf-uprobes") as t:
        t.wait_attached()
        t.signal(signal.SIGKILL)
        t.finish()
    stale = left_behind()
    check(stale > 0, "nothing was registered")
    attach("plain", "after", "--perf-uprobes")
    return f"{stale} definitions were left and removed"


def agent():
    _, ops, t = attach("agent", "agent", "--record-shapes")
    has_shapes(ops)
    return summary(t)


def agent_stacks():
    doc, ops, t = attach("agent", "agent-stacks", "--with-modules")
    has_stacks(doc, ops)
    return summary(t)


def agent_everything():
    _, ops, t = attach("agent", "agent-all", "--execution-trace", "--profile-memory", "--kernel-memory")
    has_shapes(ops)
    return summary(t)


def inject():
    """The agent is injected into a loop that was started without it."""
    doc, ops, t = attach("injected", "inject", "--agent", "inject", "--record-shapes")
    has_shapes(ops)
    check(any(a["injected"] for a in doc["ptbpf"]["agents"]), f"not loaded\n{t.text()}")
    return summary(t)


def children():
    return summary(attach("workers", "children", "--children", expect=(0, 3))[2])


def threads():
    """A thread from before the window and eight that begin in it, whose operators are counted; none is the main thread."""
    end_targets()
    found = []
    for agent in (False, True):
        with CommandTarget([PYTHON, os.path.join(WORKLOADS, "agent_work.py")], env={"LD_PRELOAD": AGENT if agent else ""}) as p:
            p.line("answer")
            p.ask("busy_start")
            with Tracer("attach", "--pid", p.pid, "-o", "/run/t.ptb", "--trace", f"{OUT}/threads.json", "--no-table") as t:
                t.wait_attached()
                tids = json.loads(p.ask("threads", 8, 100))
                t.stop(expect=(0, 3))
            p.ask("busy_stop")
        doc = load_trace(f"{OUT}/threads.json")
        check_skipped(doc, t)
        check(bool(doc["ptbpf"].get("agents")) == agent, f"agents {doc['ptbpf'].get('agents')}")
        new = collections.Counter(e["tid"] for e in slices(doc, "aten::exp"))
        old = collections.Counter(e["tid"] for e in slices(doc, "aten::cos"))
        check(new == {tid: 100 for tid in tids} and len(old) == 1 and p.pid not in old, f"new {new}, old {old}\n{t.text()}")
        found.append(f"{len(new)} new threads and {len(old)} old")
    return "; with the agent ".join(found)


def record():
    end_targets()  # the processor is theirs otherwise
    t = run_ptbpf("record", "-o", "/run/r.ptb", "--trace", f"{OUT}/record.json", "--no-table", "--", PYTHON, LOOP, 40)
    check("finished 40 steps" in t.out, t.text())
    check(len(slices(load_trace(f"{OUT}/record.json"), cat="cpu_op")) > 1000, "few operators")
    return summary(t)


def losses_equal():
    """The traced loops compute the same losses as one without ptbpf."""
    if "plain" not in targets:
        raise Skip("no mode has run before")
    end_targets()
    with workload("train_loop.py", 40) as ref:
        check(ref.finish() == 0, ref.text())
        want = [line for line in ref.out if line.startswith("step ")]
    for kind, p in targets.items():
        if kind != "workers" and p.out[:len(want)] != want:
            raise Failure(f"{kind}: {p.out[:3]}, alone {want}")


def quiet_kernel():
    """The kernel log has no complaints."""
    with os.popen("dmesg") as f:
        bad = [line for line in f if re.search(r"WARNING:|BUG:|Oops|general protection|hung task|segfault", line)]
    check(not bad, "".join(bad[:5]))


def run(fn):
    """Prints the result line of a mode; a guest has no pytest."""
    name = f"modes.{fn.__name__}"
    try:
        say("PASS", name, fn() or "")
    except Skip as why:
        say("SKIP", name, str(why))
    except Failure as why:
        say("FAIL", name, str(why))
        return False
    except Exception:
        say("FAIL", name, "unexpected error\n" + traceback.format_exc())
        return False
    return True


TOO_OLD = [refusal, quiet_kernel]
MODES = [doctor, names, shapes, execution_trace, memory, stacks, sched, hotplug, perf_uprobes, everything, schedule, live, killed, agent,
         agent_stacks, agent_everything, inject, children, samples, samples_beside, threads, record, losses_equal, quiet_kernel]

if __name__ == "__main__":
    try:
        modes = MODES if release() >= (5, 15) else TOO_OLD
        results = [run(fn) for fn in modes if not sys.argv[1:] or fn.__name__ in sys.argv[1:]]
    finally:
        end_targets()
    sys.exit(0 if all(results) else 1)
