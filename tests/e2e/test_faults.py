# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each allocation, read, write, bpf() and perf_event_open() of ptbpf fails once: no crash, one sentence, no probe and no unfinished
file left but a capture, which can be read. Where ptbpf itself has no memory (base/mem.h) it ends there. A preloaded library (tests/workloads/fault.c) lets the call from the N-th distinct call stack fail. By default a random choice of
the stacks of each kind; with PTBPF_SOAK all of them."""

import os
import random
import signal

from support import PTBPF, Process, Skip, check, every, modified_code, run_ptbpf, soak, workload, workspace

LIBRARY = os.path.join(os.path.dirname(PTBPF), "tests", "workloads", "libfault.so")
ATTACH = ("--execution-trace", "--profile-memory", "--kernel-memory", "-d", "30ms", "--no-table")
EXHAUSTED = "ptbpf: memory is exhausted"
SENTENCES = 6  # lines on stderr that a failure may print, progress and hints included


def faulty(log, kind, n, *args):
    """Runs ptbpf with one call failing; returns (distinct stacks, whether a call failed, what is wrong or None)."""
    if not os.path.exists(LIBRARY):
        raise Skip("tests/workloads/libfault.so is not built")
    env = dict(os.environ, LD_PRELOAD=LIBRARY, PTBPF_FAULT=f"{kind}:{n}", PTBPF_FAULT_LOG=log)
    with Process([PTBPF, *map(str, args)], env=env) as p:
        code = p.finish(120)
        messages = [line for line in p.err if line.startswith("ptbpf: ")]
        wrong = (f"exit {code} is not one of ptbpf's own" if code not in (0, 1, 3)
                 else "no sentence" if code and not messages
                 else "it went on without memory" if code != 1 and any(m.startswith(EXHAUSTED) for m in messages)
                 else f"{len(messages)} lines" if len(messages) > SENTENCES else None)
        text = f"{kind}:{n} of {p.name()}: exit {code}: {wrong}\n{p.text()}"
    if not wrong:
        with open(log) as f:
            stacks, failed = map(int, f.read().split())
        return stacks, failed, None
    return 0, 1, text


def judge(results):
    wrong = [text for _, _, text in results if text]
    check(not wrong, f"{len(wrong)} of {len(results)} runs failed badly\n" + "\n".join(wrong[:12]))
    return f"{len(results)} runs, a call failed in {sum(failed for _, failed, _ in results)}"


def unfinished(ws):
    """What is left of outputs: nothing but captures, which are readable."""
    left = [name for name in os.listdir(ws) if name.endswith(".partial")]
    captures = [name for name in left if ".ptb." in name]
    check(len(left) == len(captures), f"unfinished outputs are left: {left}")
    for name in captures:
        run_ptbpf("report", os.path.join(ws, name), expect=(0, 3))
    return f"{len(captures)} unfinished captures"


def chosen(stacks, some):
    """The stacks that fail: all under a soak, else `some` of them."""
    numbers = range(1, stacks + 1)
    return list(numbers) if soak() or stacks <= some else sorted(random.sample(numbers, some))


def test_offline_commands(ws, detail):
    """report and export: every stack of every kind."""
    with workload("busy.py", 0, 0.002) as p:
        p.wait_line("ready")
        run_ptbpf("attach", "--pid", p.pid, "-o", ws + "/a.ptb", *ATTACH, expect=(0, 3))
        p.signal(signal.SIGTERM)
        jobs = []
        for k, args in enumerate((("report", ws + "/a.ptb"), ("report", ws + "/a.ptb", "--memory"),
                                  ("report", ws + "/a.ptb", "--json"),
                                  ("export", ws + "/a.ptb", "-f", "chrome", "-o", ws + "/{}.json.gz"),
                                  ("export", ws + "/a.ptb", "-f", "et", "-o", ws + "/{}.json"),
                                  ("export", ws + "/a.ptb", "-f", "memory", "-o", ws + "/{}.json"),
                                  ("export", ws + "/a.ptb", "-f", "flamegraph", "-o", ws + "/{}.html"))):
            for kind in ("alloc", "read", "write"):
                def run(n, args=args, kind=kind, k=k):
                    name = f"{k}{kind}{n}"
                    return faulty(f"{ws}/{name}.log", kind, n, *(a.replace("{}", name) for a in args))
                stacks = run(0)[0]
                jobs += [(run, n) for n in chosen(stacks, 8)]
        detail(judge(every(jobs, lambda job: job[0](job[1]))) + "; " + unfinished(ws))


def test_attach(detail):
    """One failure after another with a busy target, whose results stay the same and whose code stays as in its files."""
    with workspace() as ws, workload("busy.py", 0, 0.002) as p:
        p.wait_line("ready")

        def run(kind, n):
            name = f"{ws}/{kind}{n}"
            return faulty(name + ".log", kind, n, "attach", "--pid", p.pid, "-o", name + ".ptb", "--trace",
                          name + ".json.gz", *ATTACH, *(("--perf-uprobes",) if kind == "perf" else ()))
        jobs = []
        for kind, some in (("alloc", 3), ("read", 2), ("write", 1), ("bpf", 3), ("perf", 1)):
            stacks = run(kind, 0)[0]
            jobs += [(kind, n) for n in chosen(stacks, some)]
        text = judge(every(jobs, lambda job: run(*job))) + "; " + unfinished(ws)
        check(p.alive(), f"the target died\n{p.text()}")
        left = modified_code(p.pid)
        check(not left, f"probes are left: {left}")
        p.signal(signal.SIGTERM)
        check(p.finish() == 0, f"the target failed\n{p.text()}")
        steps, digest = p.wait_line(r"final (\d+) (\w+)").groups()
    with workload("busy.py", steps) as p:
        p.finish(600)
        check(p.wait_line(r"final (\d+) (\w+)")[2] == digest, "the target's results differ from an undisturbed run's")
    detail(f"{text}; {steps} steps with equal results")
