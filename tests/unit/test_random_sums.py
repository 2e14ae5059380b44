# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Random records: what is reported always nests. Random programs: the sums of the table, which are made in one pass, are those that torch's profiler_util.py makes of
all events at hand."""

import collections
import json
import os
import random
import subprocess
import sys

import pytest

from support import ROOT, case_captures, check, run_ptbpf

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import run  # noqa: E402


def outputs(lines, ws, *reports):
    """The slices of each thread, and reports as JSON."""
    wrong = run.make({"a": [*lines]}, ws)
    check(not wrong, wrong)
    capture, trace = os.path.join(ws, "a.ptb"), os.path.join(ws, "a.json")
    run_ptbpf("export", capture, "--format", "chrome", "-o", trace, expect=(0, 3))
    with open(trace, encoding="utf-8") as f:
        threads = collections.defaultdict(list)
        for e in json.load(f)["traceEvents"]:
            if e["ph"] == "X" and e["cat"] != "Trace":
                begin = run.ns(e["ts"])
                threads[e["pid"], e["tid"]].append((begin, begin + run.ns(e["dur"]), e))
    return threads, [json.loads("\n".join(run_ptbpf("report", capture, "--json", "--row-limit", "-1", *words, expect=(0, 3)).out)) for words in reports]


def check_nesting(threads, at_least):
    """No two slices of a thread begin or end at once, and each lies in another one or beside it."""
    for slices in threads.values():
        around = []
        for begin, end, e in sorted(slices, key=lambda s: s[:2]):
            while around and around[-1] <= begin:
                around.pop()
            check(begin < end and (not around or end < around[-1]), f"{e} ends at or after {around[-1:]}")
            around.append(end)
    count = sum(map(len, threads.values()))
    check(count > at_least, f"{count} slices")


def probes(rand):
    """Of two threads in which anything begins and ends anywhere."""
    now = 2000000
    yield from ("window begin=1 @1000000", "func BOXED callBoxed", 'p1 caller addr=0x400 name="macro"',
                'opdef addr=0x1000 name="profiler::_record_function_enter_new"')
    if rand.random() < 0.3:
        yield "lost end_ns=2050100 cnt=1 @2050000"
    for _ in range(2000):
        now += rand.randrange(40)
        sp, handle, op = 0x8000 + rand.randrange(32) * 16, rand.randrange(1, 5), "aten::" + rand.choice("abc")
        at = f"sp={sp} @{now}"
        yield f"t{rand.randrange(1, 3)} " + rand.choice((
            f"enter {op} {at}", f"enter {op} {at}", f"exit {op} {at}", f"exit {op} {at}", f'scope_begin scope=7 handle={handle} "x" {at}',
            f"scope_end handle={handle} {at}", f"boxed_enter callBoxed opdef={rand.choice((0x1000, 0x2000))} {at}", f"exit callBoxed {at}", f"catch {at}",
            f"scope_begin caller=0x400 handle={handle + 2} {at}"))
    yield "window reason=1 @9000000"


def agent(rand):
    """Objects of an agent, and hostile: probes on the same thread."""
    now, kinds = 2000000, rand.choice((3, 6))
    yield from ("window begin=1 @1000000", 'p10 opdef addr=0x1000 name="aten::mm"', 'opdef addr=0x2000 name="aten::add.Tensor" flags=1')
    if rand.random() < 0.5:
        yield "lost end_ns=2000900 cnt=5 @2000500"
    for k in range(3000):
        now += rand.randrange(40)
        rf = 0x100 + rand.randrange(8) * 16
        sp = 0x7000 - 16 * rf
        name = rand.choice(("x", "y", "autograd::engine::evaluate_function: Z"))
        yield f"t{10 + rand.randrange(2)} " + (
            f"rf_begin rf={rf} opdef={rand.choice((0x1000, 0x2000))} seq={k // 4} @{now}", f'rf_begin rf={rf} seq=-1 scope={rand.randrange(9)} "{name}" @{now}',
            f"rf_end rf={rf} @{now}", f"enter aten::f sp={sp} @{now}", f"exit aten::f sp={sp} @{now}",
            f'scope_begin scope=7 handle={rf} sp={sp} "p" @{now}')[rand.randrange(kinds)]
    yield "window reason=1 @9000000"


@pytest.mark.parametrize("program, seed", [(p, seed) for p in (probes, agent) for seed in range(20)])
def test_slices_nest(ws, program, seed):
    check_nesting(outputs(program(random.Random(seed)), ws)[0], 300)


def allocating(rand, allocations):
    """Operators and annotations of two threads, which allocate and free; allocations: (when, bytes, thread, of the device)."""
    now, depth, mark, handles, live = 2000000, {1: [], 2: []}, {1: 0, 2: 0}, 0, []
    yield from ("window begin=1 @1000000", 'meta "profile_memory\\0true"', 'p1 process comm="python"')
    for i in range(600):
        now += 500 + rand.randrange(100)  # more than ends are moved apart by
        t = rand.randrange(1, 3)
        stack, sp = depth[t], 0x90000 - 256 * len(depth[t])
        what = rand.random()
        if what < 0.3:
            if live and rand.random() < 0.5:
                address, size, device = live.pop(rand.randrange(len(live)))
                size = -size
            else:
                address, size, device = 0x100000 + i * 0x1000, rand.randrange(1, 100000), rand.random() < 0.3
                live.append((address, size, device))
            allocations.append((now, size, t, device))
            yield f"t{t} " + (f"mem_report device_type=1 bytes={size}" if device else f"mem_alloc bytes={size}" if size > 0 else "mem_free") + f" addr={address} sp={sp + 100} @{now}"
        elif what < 0.65 and stack:
            name = stack.pop()
            yield f"t{t} exit {name} sp={0x90000 - 256 * len(stack) - 128} @{now}"
        elif what < 0.95 and len(stack) < 60:
            stack.append("aten::" + rand.choice(("a", "b", "is_leaf", "a.out")))
            yield f"t{t} enter {stack[-1]} sp={sp} @{now}"
        elif not mark[t]:
            handles += 1
            mark[t] = handles
            yield f't{t} scope_name sp={sp} "{rand.choice(("aten::a", "mine"))}" @{now}'
            yield f"scope_begin sp={sp - 64} handle={handles} scope=7 @{now}"
        else:
            yield f"t{rand.choice((t, 3 - t))} scope_end sp=0x1000 handle={mark[t]} @{now}"
            mark[t] = 0
    yield "window reason=1 @900000000"


Sums = collections.namedtuple("Sums", "count cpu_total_ns self_cpu_ns cpu_mem_bytes self_cpu_mem_bytes device_mem_bytes self_device_mem_bytes")


class Event:
    def __init__(self, begin, end, e, tid):
        self.begin, self.end, self.name, self.cat, self.tid = begin, end, e["name"], e["cat"], tid
        self.ends_elsewhere = "ptbpf.other_thread_end" in e["args"]
        self.parent, self.children = None, []


def tree(threads):
    """torch's EventList: _populate_cpu_children(), _remove_dup_nodes()."""
    events = []
    for (_, tid), slices in threads.items():
        stack = []
        for begin, end, e in sorted(slices, key=lambda s: (s[0], -s[1])):
            event = Event(begin, end, e, tid)
            if event.name == "aten::is_leaf" or event.name.startswith("profiler::_record_function"):
                continue
            events.append(event)
            if event.ends_elsewhere:
                continue
            while stack and not (event.begin < stack[-1].end and event.end <= stack[-1].end):
                stack.pop()
            if stack:
                event.parent = stack[-1]
                stack[-1].children.append(event)
            stack.append(event)
    again = True
    while again:
        again = False
        for e in events:
            p = e.parent
            if p and p.name == e.name and len(p.children) == 1:
                p.children = e.children
                for c in e.children:
                    c.parent = p
                events.remove(e)
                again = True
                break
    return events


def sums(events, allocations, exact):
    """key_averages() by name and whether it is an annotation."""
    rows = {}

    def charged(e, device):
        return sum(size for ts, size, tid, on in allocations if on == device and e.begin <= ts <= e.end and (not exact or tid == e.tid))

    for e in events:
        own = [e.end - e.begin - sum(c.end - c.begin for c in e.children)]
        memory = []
        for device in (False, True):
            everything = charged(e, device)
            memory += [everything, everything - sum(charged(c, device) for c in e.children)]
        if e.ends_elsewhere:
            own, memory[1], memory[3] = [0], 0, 0
        key = e.name, e.cat
        values = (1, e.end - e.begin, *own, *memory)
        rows[key] = tuple(map(sum, zip(rows.get(key, (0,) * 7), values)))
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_sums(ws, seed):
    allocations = []
    threads, reports = outputs(allocating(random.Random(seed), allocations), ws, ("--no-exact-memory",), ("--exact-memory",))
    check_nesting(threads, 50)
    events = tree(threads)
    for exact, report in enumerate(reports):
        want = sums(events, allocations, exact)
        alone = [size for ts, size, t, _ in allocations if not any(begin <= ts <= end and (not exact or t == tid)
                                                                   for (_, tid), slices in threads.items() for begin, end, _ in slices)]
        got = {(r["key"], r["category"]): tuple(r[k] for k in Sums._fields) for r in report["rows"]}
        rest = got.pop(("[memory]", "cpu_instant_event"), None)
        check(got == want, f"seed {seed}, exact {exact}: {got} is not {want}")
        check((rest[0], rest[3] + rest[5]) == (len(alone), sum(alone)) if rest else not alone, f"{rest}, not {alone}")


def with_values():
    """60 frames at once, each with its number and as many values more; every seventh has 3000. The last 30 end with their thread."""
    yield from ("window begin=1 @1000000", 'meta "args\\0\\"full\\""', 'p1 t1 process comm="python"')
    for k in range(3):
        at = 2000000 + k * 100000
        for i in range(60):
            yield f"enter aten::f sp={0x90000 - i * 256} args={i},{i}*{3000 if i % 7 == 0 else i} @{at + i * 10}"
        for i in reversed(range(30 if k == 2 else 0, 60)):
            yield f"exit aten::f sp={0x90000 - i * 256 - 128} @{at + 10000 + (60 - i) * 10}"
    yield "task_exit @3000000"
    yield "window reason=1 @9000000"


def test_values(ws):
    """What is kept of frames that are open is not mixed up."""
    (slices,) = outputs(with_values(), ws)[0].values()
    for nr, (_, _, e) in enumerate(sorted(slices, key=lambda s: s[:2])):
        level = nr % 60
        check(e["args"]["Concrete Inputs"] == [str(level)] * (1 + (3000 if level % 7 == 0 else level)), f"{nr}: {e}"[:500])
    check(len(slices) == 180, f"{len(slices)} slices")


def test_never_a_backward(ws):
    """Inference with gradients on: the number of operators that wait for a backward node is bounded; others are counted."""
    count = (1 << 18) + 1000
    with open(os.path.join(ws, "a.txt"), "w", encoding="utf-8") as f:
        f.write("window begin=1 @1000000\n")
        f.writelines(f"enter aten::mm sp=0x9000 @{ts}\nseq sp=0x8000 seq={ts} @{ts + 10}\nexit aten::mm sp=0x8f00 @{ts + 50}\n"
                     for ts in range(2000000, 2000000 + 100 * count, 100))
        f.write("window reason=1 @1000000000\n")
    with open(os.path.join(ws, "a.txt"), encoding="utf-8") as f:
        subprocess.run([run.CAPTURE_TEXT, os.path.join(ws, "a.ptb")], stdin=f, check=True)
    totals = json.loads("\n".join(run_ptbpf("report", ws + "/a.ptb", "--json").out))["totals"]
    check((totals["operators"], totals["forgotten_forwards"]) == (count, 1000), f"{totals}")


PIDS = 4194304  # by so much the numbers of another machine's processes are moved


def without_numbers(doc, begin):
    """All events of processes but for their numbers: (thread, when, all else)."""
    given = ("External id", "Record function id", "Ev Idx", "ptbpf.pid", "ptbpf.tid", "Python id", "Python parent id")
    return sorted((str(e["tid"] % PIDS if isinstance(e["tid"], int) else e["tid"]), e["name"], run.ns(e["ts"]) - begin, run.ns(e.get("dur", 0)),
                   json.dumps({k: v for k, v in e.get("args", {}).items() if k not in given}))
                  for e in doc["traceEvents"] if e["ph"] in "Xi" and e.get("cat") != "Trace" and e["name"] != "LOST records")


def test_every_kind(ws):
    """Of every kind of record the same is made where its capture is read with that of another machine."""
    case_captures(ws, "seed/every_kind")
    docs = []
    for captures in (["a"], ["other", "a"]):
        run_ptbpf("export", *(f"{ws}/{c}.ptb" for c in captures), "--format", "chrome", "-o", ws + "/t.json", expect=(3,))
        with open(ws + "/t.json", encoding="utf-8") as f:
            docs.append(json.load(f))
    pids = docs[1]["ptbpf"]["merged"]["captures"][1]["pid_shift"]
    begins = [min(run.ns(e["ts"]) for e in doc["traceEvents"] if e.get("cat") == "cpu_op") for doc in docs]
    one, joined = map(without_numbers, docs, begins)
    check(pids == PIDS and len(one) > 300, f"{pids} {len(one)}")
    check(one == joined, "\n".join(f"{a}\n{b}" for a, b in zip(one, joined) if a != b)[:3000])
    check(docs[0]["ptbpf_totals"] == docs[1]["ptbpf_totals"], f"{docs[0]['ptbpf_totals']} {docs[1]['ptbpf_totals']}")
