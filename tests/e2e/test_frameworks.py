# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Jobs of PyTorch Lightning, Accelerate and torchtitan, as docs/frameworks.md describes them: which steps and phases they have without a change, and with what is
set there. The packages are in an environment beside the main one (tools/setup.sh legs)."""

import os
import re

import pytest

from environments import Environment
from support import ENVS, ROOT, Tracer, check, load_trace, slices, workload, workspace

FRAMEWORKS = Environment("frameworks", os.path.join(ENVS, "frameworks", "bin", "python"))


def documented_profiler():
    """The Python code of the document."""
    with open(os.path.join(ROOT, "docs", "frameworks.md"), encoding="utf-8") as f:
        return next(code for code in re.findall(r"^```\n(.*?)^```", f.read(), re.M | re.S) if "class Annotations" in code)


def start(name, *args, **kw):
    return workload(name, *args, python=FRAMEWORKS.python, **kw)


@pytest.fixture(scope="module", autouse=True)
def jobs():
    """All at once, because importing their packages takes most of the time."""
    if FRAMEWORKS.why_not():
        pytest.skip(FRAMEWORKS.why_not())
    with workspace() as folder:
        with open(folder + "/annotations.py", "w", encoding="utf-8") as f:
            f.write(documented_profiler())
        annotated = {"PYTHONPATH": folder, "PTBPF_STEP_ON": "run_training_batch"}
        with (start("lightning_work.py") as plain, start("lightning_work.py", "annotations:Annotations", env=annotated) as named,
              start("accelerate_work.py") as accelerate, start("titan_work.py") as titan):
            yield {"lightning": plain, "annotated": named, "accelerate": accelerate, "titan": titan}


@pytest.fixture
def job(jobs, request):
    jobs[request.param].wait_line("^.* steps$")
    return jobs[request.param]


def of(name):
    return pytest.mark.parametrize("job", [name], indirect=True)


def traced(ws, job):
    """The trace of two whole rounds of the job at least, and the summary."""
    with Tracer("attach", "--pid", job.pid, "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--no-table") as t:
        t.wait_attached()
        job.wait_news("^.* steps$", 3)
        t.stop()
    return load_trace(ws + "/a.json"), next(line for line in t.err if "Cost to the job" in line)


def whole_steps(trace):
    return [e for e in slices(trace) if re.fullmatch(r"ProfilerStep#\d+", e["name"])]


def within(outer, events):
    return [e for e in events if e["tid"] == outer["tid"] and outer["ts"] <= e["ts"] and e["ts"] + e["dur"] <= outer["ts"] + outer["dur"]]


def each_has(steps, events, count):
    check(len(steps) >= 3, f"{len(steps)} steps")
    check([len(within(s, events)) for s in steps] == [count] * len(steps), "what is in each step")


@of("lightning")
def test_lightning(ws, job, detail):
    """Without a change: a step for each step of the optimizer, whose closure has the forward and the backward pass."""
    trace, _ = traced(ws, job)
    steps, ends = whole_steps(trace), slices(trace, "Optimizer.step#SGD.step")
    each_has(steps, ends, 1)
    each_has(ends[1:-1], slices(trace, "aten::square"), 1)
    check(slices(trace, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), "no loading of data")
    names = {e["name"] for e in slices(trace, cat="user_annotation")}
    check(not [n for n in names if "training_step" in n], f"there are phases: {names}")
    detail(f"{len(steps)} steps, annotations: {sorted(n for n in names if not n.startswith('ProfilerStep'))}")


@of("annotated")
def test_lightning_annotated(ws, job, detail):
    """With the profiler of the document: phases, and steps that the job's environment names."""
    trace, line = traced(ws, job)
    batches = slices(trace, "run_training_batch")
    each_has(whole_steps(trace), batches, 1)
    each_has(batches[1:-1], slices(trace, "[Strategy]SingleDeviceStrategy.training_step"), 1)
    each_has(batches[1:-1], slices(trace, "[Strategy]SingleDeviceStrategy.backward"), 1)
    evaluated = slices(trace, "[Strategy]SingleDeviceStrategy.validation_step")
    each_has(evaluated[1:-1], slices(trace, "aten::neg"), 1)
    check(trace["ptbpf"]["targets"][0]["step_on"] == "run_training_batch", f"targets: {trace['ptbpf']['targets']}")
    check("Steps end with 'run_training_batch' (PTBPF_STEP_ON)." in line, f"the summary: {line}")
    check(not [e for e in slices(trace) if "ptbpf.truncated" in e["args"]], "annotations that cross each other")
    detail(line)


@of("accelerate")
def test_accelerate(ws, job, detail):
    """Without a change: gradients of two batches in each step of the optimizer; evaluation is an annotation of the job's."""
    trace, _ = traced(ws, job)
    steps = whole_steps(trace)
    each_has(steps, slices(trace, "Optimizer.step#AdamW.step"), 1)
    each_has(steps, slices(trace, "MeanBackward0"), 2)
    check(slices(trace, "evaluate"), "no evaluation")
    detail(f"{len(steps)} steps")


@of("titan")
def test_titan(ws, job):
    """Without a change: the container of optimizers ends a step, not those in it."""
    trace, _ = traced(ws, job)
    steps = whole_steps(trace)
    each_has(steps, slices(trace, "Optimizer.step#OptimizersContainer.step"), 1)
    each_has(steps, slices(trace, "Optimizer.step#AdamW.step"), 1)
