# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Python stacks: the stack at every call of an operator is the one that the program itself saw there, in all environments."""

import json
import os
import re
import subprocess

import pytest

import environments
from support import AGENT, BUILD, PYTHON, ROOT, WORKLOADS, Process, Skip, Tracer, check, load_trace, loss_counters, run_ptbpf, workload

TOOL = os.path.join(BUILD, "tests", "stacks_tool")
FRAMES_MAX = 128  # PTB_PY_FRAMES_MAX
CUT = 1           # PTB_PY_CUT
BYTES = 12345     # of stack_work.py's allocations
MOCK = os.path.join(BUILD, "tests", "mock_cuda")

# The mounts of a chroot exist in the namespace of the process in it, and end with it.
IN_CHROOT = """
for m in proc sys dev; do mount --rbind "/$m" "$1/$m"; done
mount --bind "$2" "$1/ptbpf-tests"
[ -z "$3" ] || { mount -t tmpfs none "$1/mnt"; cp "$3" "$1/mnt/"; export LD_PRELOAD="/mnt/${3##*/}"; }
root=$1; shift 3
exec chroot "$root" "$@"
"""


SOURCES = ("probes", "agent")


def target(cases, env="main", source="probes", variables=None, script="stack_work.py"):
    """Whose operators are recorded by kernel probes or by the agent."""
    agent = AGENT if source == "agent" else ""
    if env == "main":
        return workload(script, cases, stdin=subprocess.PIPE, env={**({"LD_PRELOAD": agent} if agent else {}), **(variables or {})})
    e = environments.get(env)
    if e.why_not():
        raise Skip(e.why_not())
    command = [e.python, "-u", ("/ptbpf-tests/workloads/" if e.chroot else WORKLOADS + "/") + script, cases]
    if e.chroot:
        command = ["unshare", "--mount", "sh", "-ec", IN_CHROOT, "sh", e.chroot, os.path.join(ROOT, "tests"), agent, *command]
        agent = ""
    return Process(command, stdin=subprocess.PIPE, env={"LD_PRELOAD": agent} if agent else None)


def noted(p):
    """{(process, thread): stacks at its calls}, as the program saw them."""
    p.wait_line("^done")
    return noted_in(p.out)


def noted_in(lines, what="operators"):
    found = [json.loads(line[len("stacks "):]) for line in lines if line.startswith("stacks ")]
    return {(f["pid"], f["tid"]): f["stacks"] for f in found if f["what"] == what}


def recorded(capture, what="aten::neg"):
    """The same of the capture, each with its flags."""
    done = subprocess.run([TOOL, capture, what], capture_output=True, text=True, check=True)
    found = {}
    for row in json.loads(done.stdout):
        found.setdefault((row["pid"], row["tid"]), []).append((row["stack"], row["flags"]))
    return found


def record(p, ws, *options, source="probes", expect=(0, 3), children=0):
    """The stacks as the program saw them, and the tracer. Each of its children goes on when it is traced."""
    p.wait_line("^ready")
    options = [*options, "--children", "--log", "targets"] if children else options
    with Tracer("attach", "--pid", p.pid, "--with-stack", "-o", ws + "/a.ptb", "--no-table", *options) as t:
        t.wait_attached()
        p.send()
        for nr in range(children):
            pid = p.wait_news(r"^child (\d+)", nr + 1, since=0).group(1)
            t.wait_line(f"pid {pid}: its probes are in place", stream=t.err)
            p.send()
        truth = noted(p)
        t.stop(expect)
    check(("by the agent" in "\n".join(t.err)) == (source == "agent"), t.text())
    return truth, t


def compare(truth, found, freed=None):
    """All equal; functions whose names match `freed` may be unknown. The number of frames, and of those that are unknown."""
    check(truth.keys() <= found.keys(), f"no calls of {truth.keys() - found.keys()}")
    frames = unknown = 0
    for thread, stacks in truth.items():
        check(len(found[thread]) == len(stacks), f"{thread}: {len(found[thread])} calls recorded, {len(stacks)} made")
        for nr, (want, (got, flags)) in enumerate(zip(stacks, found[thread])):
            check(got is not None, f"{thread}: no stack at call {nr}: {want[:5]}")
            check(flags == (CUT if len(want) > FRAMES_MAX else 0), f"{thread}: flags {flags} at call {nr}, {len(want)} frames")
            want = [[re.sub("[\ud800-\udfff]", "\ufffd", text) for text in frame[:2]] + [frame[2]] for frame in want[:FRAMES_MAX]]
            check(len(got) == len(want) and all(g == w or (freed and not g and re.match(freed, w[1])) for g, w in zip(got, want)),
                  f"{thread}: call {nr}\nrecorded     {got[:8]}\nthe program  {want[:8]}")
            frames += len(got)
            unknown += sum(not g for g in got)
    return frames, unknown


CASES = "recursion,deep,loop,generators,coroutines,exceptions,classes,callbacks,comprehensions,texts,autograd,torch_calls,threads"


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("env", environments.NAMES)
def test_known_stacks(ws, env, source, detail):
    """Recursion, threads of before and after the attach, generators, tasks, exceptions, decorators, callbacks from C, exec, ..."""
    with target(CASES, env, source) as p:
        truth, t = record(p, ws, source=source)
    frames, _ = compare(truth, recorded(ws + "/a.ptb"))
    detail(f"{sum(map(len, truth.values()))} calls in {len(truth)} threads, {frames} frames, equal; {t.err[-1]}")


@pytest.mark.parametrize("source", SOURCES)
def test_many_code_objects(ws, source, detail):
    with target("many", source=source) as p:
        truth, t = record(p, ws, source=source, expect=(0,))
    frames, _ = compare(truth, recorded(ws + "/a.ptb"))
    detail(f"{frames} frames, equal; {t.err[-1]}")


@pytest.mark.parametrize("source", SOURCES)
def test_freed_code(ws, source, detail):
    """Each code object takes the place of the one before: its name, file and line are its own or unknown, which is counted."""
    with target("freed", source=source) as p:
        truth, t = record(p, ws, source=source)
    frames, unknown = compare(truth, recorded(ws + "/a.ptb"), "same|f|<module>")
    run_ptbpf("export", ws + "/a.ptb", "--format", "chrome", "-o", ws + "/a.json", expect=(0, 3))
    gone = loss_counters(load_trace(ws + "/a.json")).get("PY_CODE_GONE", 0)
    check(unknown == gone, f"{unknown} frames are unknown, {gone} code objects counted")
    detail(f"{frames} frames, {unknown} unknown, the others equal; {t.err[-1]}")


@pytest.mark.parametrize("source", SOURCES)
def test_forks(ws, source, detail):
    """Forked processes have stacks from their first probe on. What their parent has, too, is known after they ended."""
    with target("forks", source=source) as p:
        truth, t = record(p, ws, source=source, children=3)
    found = recorded(ws + "/a.ptb")
    for thread, stacks in truth.items():  # operators before the first probe are missing
        check(len(found.get(thread, [])) > 5, f"{len(found.get(thread, []))} of {len(stacks)} calls of {thread}")
        truth[thread] = stacks[-len(found[thread]):]
    frames, unknown = compare(truth, found, "of_child")
    detail(f"{sum(map(len, truth.values()))} calls in {len(truth)} processes, {frames} frames, {unknown} unknown, the others equal; {t.err[-1]}")


@pytest.mark.parametrize("source", SOURCES)
def test_exec(ws, source):
    """A process that executes another program: its interpreter is found anew, and its stacks are its own."""
    with target("execs", source=source) as p:
        truth, t = record(p, ws, source=source, children=1)
    found = recorded(ws + "/a.ptb")
    for thread, stacks in truth.items():
        check(len(found.get(thread, [])) > 5, f"{len(found.get(thread, []))} of {len(stacks)} calls of {thread}")
        found[thread] = [f for f in found[thread] if f[0] is not None][-len(stacks):]  # since its interpreter was found
        truth[thread] = stacks[-len(found[thread]):]
    compare(truth, found)


@pytest.mark.parametrize("source", SOURCES)
def test_allocations_and_launches(ws, source, detail):
    """At allocations, whatever records the operators, and at launches, which are seen where no agent records the GPU."""
    with target("other_points", source=source, variables=None if source == "agent" else {"STACK_WORK_CUDA": MOCK}) as p:
        record(p, ws, "--profile-memory", source=source)
        lines = list(p.out)
    for what, name in (("allocations", BYTES),) + ((("launches", "cudaLaunchKernel"),) if source == "probes" else ()):
        truth = noted_in(lines, what)
        check(len(truth) == 2, f"{what} of {len(truth)} threads")
        frames, _ = compare(truth, recorded(ws + "/a.ptb", str(name)))
        detail(f"{sum(map(len, truth.values()))} {what}, {frames} frames, equal")


def test_injected(ws):
    """The agent is loaded into a running program; threads from before have stacks, too."""
    with target("recursion,generators,coroutines,classes,threads") as p:
        truth, _ = record(p, ws, "--agent", "inject", source="agent")
    compare(truth, recorded(ws + "/a.ptb"))


def test_record(ws):
    """A program from its first operator: also those of `import torch` have stacks."""
    t = run_ptbpf("record", "--with-stack", "-o", ws + "/a.ptb", "--no-table", "--", PYTHON, "-u", WORKLOADS + "/stack_work.py", "spaced",
                  expect=(0, 3))
    truth, found = noted_in(t.out), recorded(ws + "/a.ptb")
    check(all(stack for stack, _ in sum(found.values(), [])), "calls without a stack")
    compare(truth, {thread: calls[-len(truth[thread]):] for thread, calls in found.items()})  # without those of the file's classes


def libtorch():
    return subprocess.run([PYTHON, "-c", "import os, torch; print(os.path.dirname(torch.__file__) + '/lib/libtorch_cpu.so')"], capture_output=True,
                          text=True, check=True).stdout.strip()


def test_refused(ws):
    """A process whose CPython cannot be read is traced without stacks: a message, the trace and the exit code say so."""
    why = "CPython 3.15.0b2: it is a preliminary version, whose layout may differ from the release's"
    with Process([os.path.join(BUILD, "tests", "workloads", "fake_python"), "preliminary"], env={"LD_PRELOAD": libtorch()}) as p:
        p.wait_line("^ready")
        t = run_ptbpf("attach", "--pid", p.pid, "--with-stack", "-d", "0.1", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table", expect=3)
    check(f"pid {p.pid}: no Python stacks: {why}" in "\n".join(t.err) and "1 processes whose Python stacks cannot be read" in t.err[-1], t.text())
    document = load_trace(ws + "/a.json")
    check(loss_counters(document).get("NO_STACKS") == 1, f"{document['ptbpf']['loss']}")
    check(document["ptbpf"]["capture"]["python"] == [{"pid": p.pid, "version": "3.15.0b2", "why": why}], f"{document['ptbpf']['capture']}")


def test_no_python(ws):
    with Process(["sleep", "1000"], env={"LD_PRELOAD": libtorch()}) as p:
        t = run_ptbpf("attach", "--pid", p.pid, "--with-stack", "--wait", "-d", "0.1", "-o", ws + "/a.ptb", "--no-table", expect=3)
    said = [line for line in t.err if "Python" in line]
    check(len(said) == 1 and "no Python interpreter in it" in said[0], t.text())
