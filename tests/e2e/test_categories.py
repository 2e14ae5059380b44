# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Categories of memory compared with torch's, in windows that begin at different points of training: memory that optimizers
keep, and memory from before the window. torch runs with a free() that does nothing: it does not notice the end of a block from
before the window, and confuses it with the next block at its address."""

import collections
import os

from support import NO_FREE, PYTHON, WORKLOADS, CommandTarget, Tracer, check, run_ptbpf, shared, workspace
from memory_truth import TruthTarget, read

PREEXISTING, CREATE, VERSION, DESTROY = 1, 2, 3, 4
NAMES = ("PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "unknown")
PARAMETER, STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, DETAIL, UNKNOWN = range(8)
WORK = os.path.join(WORKLOADS, "category_work.py")


class Target(TruthTarget):
    def __init__(self):
        super().__init__("category_work.py", {"NO_FREE": NO_FREE, "LD_PRELOAD": NO_FREE})

    def rows(self, kind):
        capture = os.path.join(self.folder, kind + ".ptb")
        self.send(kind)
        self.line("set")
        with Tracer("attach", "--pid", self.proc.pid, "-o", capture, "--no-table", "--profile-memory",
                    "--execution-trace") as t:
            t.wait_attached()
            self.send("go")
            self.line("done")
            t.stop()
        self.send("end")
        ours, text = self.ours(capture)
        return ours, self.theirs(kind), text


def chosen(rows, action):
    """[(bytes, category, category afterwards)] in order of time, then of these values."""
    found = [r for r in rows if r[1] == action]
    if action == VERSION:
        found = [[a[0], a[1], a[2], a[3], b[3]] for a, b in zip(found[::2], found[1::2])]
    time = (lambda r: 0) if action in (PREEXISTING, DESTROY) else (lambda r: r[0])
    return [r[2:] for r in sorted(found, key=lambda r: (time(r), r[2:]))]


def sums(rows):
    """Bytes by category that existed before the window or were allocated in it."""
    out = collections.Counter()
    for _, action, size, category in rows:
        if action in (PREEXISTING, CREATE):
            out[category] += size
    return out


def compare(kind, theirs, ours):
    """{(torch's category, ptbpf's)} of blocks whose categories differ; everything else must be equal."""
    differ = set()
    for action in (PREEXISTING, CREATE, VERSION):
        a, b = chosen(theirs, action), chosen(ours, action)
        check([r[0] for r in a] == [r[0] for r in b], f"{kind}: {len(a)} and {len(b)} blocks in rows of action {action}")
        if action == PREEXISTING:  # equal ones first: the rest has no order
            more, less = collections.Counter(map(tuple, a)), collections.Counter(map(tuple, b))
            a, b = sorted((more - less).elements()), sorted((less - more).elements())
        differ |= {(x, y) for r, s in zip(a, b) for x, y in zip(r[1:], s[1:]) if x != y}
    # torch does not see the end of blocks from before the window; ptbpf does
    a, b = (collections.Counter(r[0] for r in chosen(rows, DESTROY)) for rows in (theirs, ours))
    before = collections.Counter(-r[0] for r in chosen(ours, PREEXISTING))
    check(not a - b and not b - a - before, f"{kind}: ends: only torch {a - b}, only ptbpf {b - a}, there before {before}")
    return differ


def truth(kind, *unknown_here):
    """unknown_here: torch's categories that are unknown to ptbpf although they are correct."""
    ours, theirs, text = shared(Target).rows(kind)
    differ = compare(kind, theirs, ours)
    want, got = sums(theirs), sums(ours)
    figures = ", ".join(f"{NAMES[c]} {want[c] / 1024:.1f}" + (f" (here {got[c] / 1024:.1f})" if want[c] != got[c] else "")
                        for c in range(8) if want[c] or got[c]) + " KiB"
    wrong = {(NAMES[a], NAMES[b]) for a, b in differ if b != UNKNOWN}
    check(not wrong, f"{kind}: categories (torch's, ours): {wrong}; {figures}")
    check({a for a, _ in differ} == set(unknown_here), f"{kind}: torch knows {[NAMES[a] for a, _ in differ]}, ptbpf does not; {figures}")
    check(not differ or "category is unknown" in text, f"{kind}: what is unknown is not counted: {text}")
    return figures


def test_momentum(detail):
    detail(truth("momentum"))


def test_momentum_foreach(detail):
    detail(truth("momentum_foreach"))


def test_momentum_first(detail):
    detail(truth("momentum_first"))


def test_momentum_one(detail):
    detail(truth("momentum_one"))


def test_adam_first(detail):
    detail(truth("adam_first"))


def test_adamw(detail):
    detail(truth("adamw"))


def test_adamw_foreach(detail):
    detail(truth("adamw_foreach"))


def test_adamw_foreach_first(detail):
    detail(truth("adamw_foreach_first"))


def test_adamw_fused(detail):
    detail(truth("adamw_fused"))


def test_normalized(detail):
    detail(truth("normalized"))


def test_transformer(detail):
    detail(truth("transformer"))


def test_accumulated(detail):
    detail(truth("accumulated"))


def test_averaged(detail):
    """Values that a hook averages in step() are not state."""
    detail(truth("averaged"))


def test_after_forward(detail):
    """torch classifies what forward() left before the window as an input."""
    detail(truth("after_forward", INPUT))


def test_after_backward(detail):
    """torch asks Python for gradients from before the window; what the first step derives from them follows."""
    detail(truth("after_backward", GRADIENT, PARAMETER, ACTIVATION))


def test_closure(detail):
    """Forward and backward inside of step()."""
    detail(truth("closure", STATE, PARAMETER, INPUT, ACTIVATION))


def test_saved(detail):
    """State that is read by an operator outside of step() may be something else."""
    detail(truth("saved", STATE))


class Running(CommandTarget):
    def __init__(self):
        super().__init__([PYTHON, "-u", WORK, "--running"])

    def there(self, folder):
        """Bytes from before a window of some steps that begins at any moment, by category."""
        capture, raw = folder + "/a.ptb", folder + "/a.raw.json.gz"
        with Tracer("attach", "--pid", self.proc.pid, "-o", capture, "--no-table", "--profile-memory", "--execution-trace") as t:
            t.wait_attached()
            self.send("six")
            self.line("waited")
            t.stop((0, 3))
        run_ptbpf("export", capture, "--format", "memory-raw", "-o", raw, expect=(0, 3))
        return sums(r for r in read(raw) if r[1] == PREEXISTING)


def test_anywhere(detail):
    """A window may begin at any moment of a training step: parameters and state are known, nothing else is an input."""
    found = []
    with workspace() as folder, Running() as target:
        for _ in range(2):
            state, parameters = map(int, target.line("running").split())
            for _ in range(3):
                got = target.there(folder)
                found.append({NAMES[c]: n for c, n in got.items()})
                check(got[STATE] == state and got[PARAMETER] == parameters and not got[INPUT],
                      f"{state} bytes of state, {parameters} of parameters, no input; it reports {found[-1]}")
            target.send("next")
    detail("; ".join(f"unknown {s.get('unknown', 0)}" for s in found))
