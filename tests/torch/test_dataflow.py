# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Data flow in Execution Traces: an allocator reuses addresses, but no tensor or storage may be confused with another at the
same address.

The truth is torch's ExecutionTraceObserver in a process whose free() does nothing during the step, so that each address belongs
to one object. Every tensor and storage that any operator takes or returns must be the same one in ptbpf's file: ids are equal
up to renaming, in both directions. The result of torch's observer in an ordinary process is printed for comparison."""

import os
import subprocess

import pytest

import compare
from compare_et import is_tensor
from et_truth import load
from support import AGENT, NO_FREE, PYTHON, Skip, Tracer, check, require_root, run_ptbpf, workload

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "dataflow_target.py")


def observed(path, kind, *options, env=None):
    p = subprocess.run([PYTHON, TARGET, kind, "--torch", path, *options], capture_output=True, text=True, timeout=300,
                       env=dict(os.environ, **(env or {})))
    if "No module named 'torch'" in p.stderr:
        raise Skip("no torch")
    check(p.returncode == 0, f"torch's own run ended with {p.returncode}\n{p.stderr}")
    return steps(load(path, own=True))


def steps(et):
    """Nodes within the step's annotation, by thread, in order of their beginning."""
    roots = {n.id for n in et.nodes.values() if n.name == "## step ##"}
    check(len(roots) == 1, f"{len(roots)} steps")
    first = min(roots)
    threads, main_tid = {}, et.nodes[first].attrs["tid"]
    inside = set(roots)
    for i, n in sorted(et.nodes.items()):
        if n.parent in inside:
            inside.add(i)
        if i > first and (i in inside or n.attrs["tid"] != main_tid):
            threads.setdefault(n.attrs["tid"], []).append(n)
    return sorted(threads.values(), key=lambda t: t[0].id)


def tensors(values):
    for v in values:
        if is_tensor(v):
            yield v
        elif isinstance(v, list):
            yield from tensors(v)


def pairs(want, got):
    """Tensors at the same position in both files: [(node, node, end, tensor, tensor)], in order."""
    check(len(want) == len(got), f"{len(want)} threads and {len(got)}")
    out = []
    for a, b in zip(want, got):
        names = [[compare.spelled(n.name) for n in side] for side in (a, b)]
        check(names[0] == names[1], f"other operators\n{compare.unlike(*names)}")
        for x, y in zip(a, b):
            for end in ("inputs", "outputs"):
                s, t = (list(tensors(getattr(n, end)["values"])) for n in (x, y))
                # an inner `detach` has arguments only for an observer
                check(len(s) == len(t) or not t, f"{x.name}: {len(s)} and {len(t)} tensors among its {end}")
                out += [(x, y, end, p, q) for p, q in zip(s, t)]
    return out


def edges(threads, field, known):
    """(node that returned it, node that takes it) for each tensor or storage of leaves; nodes are named by their partners."""
    nodes = sorted((n for t in threads for n in t), key=lambda n: n.id)
    parents = {n.parent for n in nodes}
    made, out = {}, set()
    for n in nodes:
        if n.id in parents or n.id not in known:
            continue
        for k, v in enumerate(tensors(n.inputs["values"])):
            if v[field] in made:
                out.add((made[v[field]], known[n.id], k))
        for v in tensors(n.outputs["values"]):
            made[v[field]] = known[n.id]
    return out


def judge(want, got):
    """[(true edges, false, missing) of tensors, of storages], and wrong ids."""
    both, wrong = pairs(want, got), []
    for field in (0, 1):
        to, back = {}, {}
        for x, y, end, p, q in both:
            if to.setdefault(p[field], q[field]) != q[field] or back.setdefault(q[field], p[field]) != p[field]:
                wrong.append(f"{('tensor', 'storage')[field]} {p[field]} is {q[field]} among the {end} of {x.name} ({x.id}, {y.id}), "
                             f"was {to.get(p[field])}; {q[field]} was {back.get(q[field])}")
    counts = []
    for field in (0, 1):
        a = edges(want, field, {x.id: x.id for x, _, _, _, _ in both})
        b = edges(got, field, {y.id: x.id for x, y, _, _, _ in both})
        counts.append((len(a), len(b - a), len(a - b)))
    return counts, wrong


# Frees of memory show the end of a storage that only a Python object holds (torch.load)
OPTIONS = {"aliases": ["--profile-memory"]}


def recorded(ws, kind, agent):
    path, env = ws + "/a.ptb", {"LD_PRELOAD": AGENT} if agent else {}
    require_root()
    with workload(TARGET, kind, "--go", ws + "/go", env=env) as p:
        p.wait_line("^ready$", deadline=300)
        with Tracer("attach", "--pid", p.pid, "-o", path, "--no-table", "--execution-trace", "--agent", "auto" if agent else "off",
                    *OPTIONS.get(kind, ())) as t:
            t.wait_attached()
            open(ws + "/go", "w").close()
            p.wait_line("^done$", deadline=300)
            t.stop((0,))
        os.unlink(ws + "/go")
    return path


def exported(ws, path, *options):
    out = ws + "/ours.json"
    run_ptbpf("export", path, "--format", "et", "-o", out, *options)
    return steps(load(out))


def summary(counts):
    return "; ".join(f"{name}: {n} true edges, {false} false, {missing} missing"
                     for name, (n, false, missing) in zip(("tensors", "storages"), counts))


@pytest.mark.parametrize("kind", ["gpt2", "resnet", "adam", "aliases", "threads"])
def test_flow(ws, kind, detail):
    want = observed(ws + "/truth.json", kind, "--no-free", NO_FREE, env={"LD_PRELOAD": NO_FREE})
    theirs, _ = judge(want, observed(ws + "/torch.json", kind))
    for agent in (False, True):
        counts, wrong = judge(want, exported(ws, recorded(ws, kind, agent)))
        check(not wrong and not any(c[1] or c[2] for c in counts),
              f"{'agent' if agent else 'probes'}: {summary(counts)}; {len(wrong)} wrong ids\n" + "\n".join(wrong[:12]))
    detail(f"{summary(counts)} (torch's own trace: {summary(theirs)})")
