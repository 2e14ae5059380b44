# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--when: what tests/workloads/stages.py ran inside annotations of a name is recorded, and nothing else; --every: each Nth of them."""

import collections
import json
import os

import pytest

from agent_target import Window, sources_of
from support import AGENT, PYTHON, WORKLOADS, CommandTarget, Tracer, check, load_trace, report_json, run_ptbpf, shared, slices


class Stages(CommandTarget):
    def __init__(self, env=None):
        super().__init__([PYTHON, "-u", os.path.join(WORKLOADS, "stages.py")], env=env)
        self.line("answer")

    def ran(self, *commands):
        return json.loads(self.ask(",".join(commands)))


@pytest.fixture
def stages():
    return shared(Stages)


def recorded(ws, target, *commands, when="prefill*", options=(), expect=(0,)):
    """What a window has, by name, its trace, and what the target says that it ran."""
    with Window(ws, target, "--when", when, *options, expect=expect) as w:
        ran = target.ran(*commands)
    totals = w.trace["ptbpf_totals"]["totals"]
    check(totals["unmatched_exits"] == 0 and totals["open_at_begin"] == 0, f"ends without begins: {totals}")
    return collections.Counter(e["name"] for e in slices(w.trace)), w, ran


def differs(cnt, want, names):
    """The names among these that were recorded more or less often than they ran."""
    return {n: f"{cnt[n]} instead of {want.get(n, 0)}" for n in names if cnt[n] != want.get(n, 0)}


def every_name(ran):
    return {name for names in ran.values() for name in names}


def test_two_threads(ws, stages):
    """Each thread follows its own annotations, though both are in different stages at each moment."""
    cnt, w, ran = recorded(ws, stages, "phases 6")
    check(not differs(cnt, ran["prefill"], every_name(ran)), f"{differs(cnt, ran['prefill'], every_name(ran))}")
    check(not set(cnt) - set(ran["prefill"]), f"what the program did not run in the stage: {set(cnt) - set(ran['prefill'])}")
    facts = w.trace["ptbpf"]["when"]
    check(facts["name"] == "prefill*" and facts["every"] == 1 and facts["recorded"] == 6 and facts["skipped"] == 0,
          f"the trace says {facts}")
    check(facts["hits_outside"] >= 2 * sum(ran["decode"].values()), f"hits outside: {facts}")
    check(w.trace["ptbpf"]["cost"]["hits"] > facts["hits_outside"], "the cost does not include hits outside")
    check("only inside 'prefill*': 6 annotations" in "\n".join(w.tracer.err), f"the summary line: {w.tracer.text()}")
    check(report_json(w.capture)["when"] == facts, "the report says something else")


def test_edges(ws, stages):
    """Exceptions, backward passes, threads without annotations, and stages that begin or end inside an operator."""
    cnt, w, ran = recorded(ws, stages, "raises 3", "backward", "worker 3", "edges")
    want = ran["prefill"]
    check(not differs(cnt, want, every_name(ran)), f"{differs(cnt, want, every_name(ran))}")
    raised = [e["name"] for e in slices(w.trace) if e["args"].get("ptbpf.unwound")]
    check(raised == ["aten::mm"] * 3, f"marked as ended by an exception: {raised}")
    cut = [e["name"] for e in slices(w.trace, cat="user_annotation") if e["args"].get("ptbpf.truncated")]
    check(cut in ([], ["prefill ends"]), f"annotations that were cut: {cut}")
    check(w.trace["ptbpf"]["when"]["recorded"] == sum(n for name, n in want.items() if name.startswith("prefill")),
          f"{w.trace['ptbpf']['when']}, but the program began {want}")


def test_every(ws, stages):
    """The first of each three, whole, with those inside it."""
    cnt, w, ran = recorded(ws, stages, "occurrences 7", options=("--every", 3))
    want = sum((collections.Counter(ran[f"prefill {n}"]) for n in (0, 3, 6)), collections.Counter())
    check(not differs(cnt, want, every_name(ran) | set(cnt)), f"{differs(cnt, want, every_name(ran) | set(cnt))}")
    facts = w.trace["ptbpf"]["when"]
    check((facts["every"], facts["recorded"], facts["skipped"]) == (3, 3, 4), f"the trace says {facts}")
    check("3 annotations, 4 skipped by --every" in "\n".join(w.tracer.err), f"the summary line: {w.tracer.text()}")


def test_values_stacks_memory(ws, stages):
    """Arguments, Python stacks and allocations come with the same operators; allocations outside are kept, for the sums."""
    options = ("--execution-trace", "--with-stack", "--profile-memory", "--kernel-memory")
    cnt, w, ran = recorded(ws, stages, "phases 4", "raises 2", "edges", when="prefill 3", options=options)
    want = collections.Counter({"prefill 3": 1, "nested": 1, "aten::neg": 4, "aten::exp": 1, "aten::tanh": 2})
    check(not differs(cnt, want, every_name(ran) | set(cnt)), f"{differs(cnt, want, every_name(ran) | set(cnt))}")
    ops = slices(w.trace, cat="cpu_op")
    check(all(e["args"].get("Input Dims") == [[3]] for e in ops), f"arguments: {[e['args'] for e in ops]}")
    check(any(e["name"].endswith(": work") for e in w.trace["traceEvents"] if e.get("cat") == "python_function"),
          "no stack names the function that ran the operators")
    memory = [e for e in w.trace["traceEvents"] if e["name"] == "[memory]"]
    check(len(memory) > 2 * len(ops), f"{len(memory)} allocations and frees: those outside are missing")


def test_no_occurrence(ws, stages):
    cnt, w, _ = recorded(ws, stages, "phases 2", when="prefil")
    check(not cnt, f"recorded outside: {cnt}")
    check(w.trace["ptbpf"]["when"]["recorded"] == 0 and "of which none began" in "\n".join(w.tracer.err), w.tracer.text())


def test_agent_is_not_used(ws):
    """Kernel probes compare names, also in a process that has the agent."""
    with Stages(env={"LD_PRELOAD": AGENT}) as target:
        cnt, w, ran = recorded(ws, target, "phases 2")
    check(not differs(cnt, ran["prefill"], every_name(ran)), f"{differs(cnt, ran['prefill'], every_name(ran))}")
    check(sources_of(w.trace)[target.pid] == ("probes", "only they know the annotations of --when"), f"{sources_of(w.trace)}")
    check("kernel probes, not its agent, record operators" in "\n".join(w.tracer.err), w.tracer.text())


def test_sample(ws, stages):
    """The log says how many annotations a window has."""
    with Tracer("sample", "--pid", stages.pid, "--dir", ws + "/w", "--schedule", "wait=10ms,active=500ms,repeat=1", "--when", "prefill*",
                "--every", 2, "--traces", "json") as t:
        while t.alive():
            stages.ran("phases 2")
        t.expect(0)
    with open(ws + "/w/windows.jsonl", encoding="utf-8") as f:
        line = json.loads(f.readline())
    facts = load_trace(line["trace"])["ptbpf"]["when"]
    check(line["when"] == {"recorded": facts["recorded"], "skipped": facts["skipped"]}, f"{line['when']}, but the trace says {facts}")
    check(facts["recorded"] and facts["recorded"] - facts["skipped"] in (0, 1), f"every second: {facts}")
    check(f"only inside --when: {facts['recorded']} annotation" in "\n".join(t.err), t.text())


@pytest.mark.unprivileged
def test_refusals():
    for options, words in ((("--every", "2"), "--every 2 needs --when"), (("--when", "x", "--sample-stacks", "99"), "--sample-stacks"),
                           (("--when", "x", "--agent", "inject"), "--agent inject"), (("--when", "x", "--step-on", "y"), "--step-on"),
                           (("--when", "x", "--activities", "cuda"), "--activities"), (("--when", "x" * 129), "128 bytes"),
                           (("--when", "x", "--every", "-1"), "valid values are 1 and more")):
        done = run_ptbpf("attach", "--pid", "1", *options, expect=(2,))
        check(words in "\n".join(done.err), f"{options}: {done.text()}")
    done = run_ptbpf("sample", "--pid", "1", "--dir", "/nonexistent", "--when", "x", "--schedule", "active=5", expect=(2,))
    check("a --schedule in steps excludes --when" in "\n".join(done.err), done.text())
