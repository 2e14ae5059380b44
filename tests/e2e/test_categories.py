# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Categories of memory against torch's, of windows that cut training at different places: what optimizers keep, and what
was there before the window. torch runs with free() switched off: it does not see that a block from before the window
ends, and takes the next one at its address for the same."""

import collections
import gzip
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from support import PTBPF, PYTHON, WORKLOADS, AskedTarget, Skip, Tracer, check, require_root, run_ptbpf, workspace

PREEXISTING, CREATE, VERSION, DESTROY = 1, 2, 3, 4
NAMES = ("PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "unknown")
PARAMETER, STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, DETAIL, UNKNOWN = range(8)
NO_FREE = os.path.join(os.path.dirname(os.path.abspath(PTBPF)), "tests", "workloads", "libno_free.so")
WORK = os.path.join(WORKLOADS, "category_work.py")


class Target(AskedTarget):
    """Both processes, for all kinds: torch's, which has ended, and ptbpf's."""
    _only = None

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ptbpf-test-")
        env = dict(os.environ, KINETO_LOG_LEVEL="99", NO_FREE=NO_FREE, LD_PRELOAD=NO_FREE)
        truth = subprocess.run([PYTHON, WORK, "--torch", self.folder], capture_output=True, text=True, timeout=300, env=env)
        if "No module named 'torch'" in truth.stderr:
            raise Skip("no torch")
        check(truth.returncode == 0, f"torch's own run ended with {truth.returncode}\n{truth.stderr}")
        self.proc = subprocess.Popen([PYTHON, "-u", WORK], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL)
        self.line("ready")

    @classmethod
    def get(cls):
        require_root()
        cls._only = cls._only or cls()
        return cls._only

    def rows(self, kind):
        capture, raw = (os.path.join(self.folder, kind + end) for end in (".ptb", ".ours.raw.json.gz"))
        self.tell(kind)
        self.line("set")
        with Tracer("attach", "--pid", self.proc.pid, "-o", capture, "--no-table", "--profile-memory",
                    "--execution-trace") as t:
            t.wait_attached()
            self.tell("go")
            self.line("done")
            t.stop()
        self.tell("end")
        t = run_ptbpf("export", capture, "--format", "memory-raw", "-o", raw)
        return read(raw), read(os.path.join(self.folder, kind + ".raw.json.gz")), t.text()

    @classmethod
    def end(cls):
        if cls._only:
            cls._only.proc.stdin.close()
            cls._only.proc.wait(180)
            shutil.rmtree(cls._only.folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def end_of_targets():
    yield
    Target.end()


def read(path):
    with gzip.open(path, "rt") as f:
        return json.load(f)


def chosen(rows, action):
    """[(bytes, category, category after it)]; in order of time, of one time by what they are."""
    found = [r for r in rows if r[1] == action]
    if action == VERSION:
        found = [[a[0], a[1], a[2], a[3], b[3]] for a, b in zip(found[::2], found[1::2])]
    time = (lambda r: 0) if action in (PREEXISTING, DESTROY) else (lambda r: r[0])
    return [r[2:] for r in sorted(found, key=lambda r: (time(r), r[2:]))]


def sums(rows):
    """Bytes that were there before or were allocated, by category."""
    out = collections.Counter()
    for _, action, size, category in rows:
        if action in (PREEXISTING, CREATE):
            out[category] += size
    return out


def compare(kind, theirs, ours):
    """{(torch's category, ours)} of what differs; all else must be equal."""
    differ = set()
    for action in (PREEXISTING, CREATE, VERSION):
        a, b = chosen(theirs, action), chosen(ours, action)
        check([r[0] for r in a] == [r[0] for r in b], f"{kind}: {len(a)} and {len(b)} blocks in rows of action {action}")
        if action == PREEXISTING:  # equal ones first: what is left has no order
            more, less = collections.Counter(map(tuple, a)), collections.Counter(map(tuple, b))
            a, b = sorted((more - less).elements()), sorted((less - more).elements())
        differ |= {(x, y) for r, s in zip(a, b) for x, y in zip(r[1:], s[1:]) if x != y}
    # torch does not see the end of what was there before; ptbpf does
    a, b = (collections.Counter(r[0] for r in chosen(rows, DESTROY)) for rows in (theirs, ours))
    before = collections.Counter(-r[0] for r in chosen(ours, PREEXISTING))
    check(not a - b and not b - a - before, f"{kind}: ends: only torch {a - b}, only ptbpf {b - a}, there before {before}")
    return differ


def truth(kind, *unknown_here):
    """unknown_here: torch's categories that ptbpf does not know for all that they are torch's."""
    ours, theirs, text = Target.get().rows(kind)
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
    """What a hook averages in step() is no state."""
    detail(truth("averaged"))


def test_after_forward(detail):
    """torch takes for an input what forward() left before the window."""
    detail(truth("after_forward", INPUT))


def test_after_backward(detail):
    """torch asks Python for gradients from before the window; what the first step makes of them follows."""
    detail(truth("after_backward", GRADIENT, PARAMETER, ACTIVATION))


def test_closure(detail):
    """Forward and backward run within step()."""
    detail(truth("closure", STATE, PARAMETER, INPUT, ACTIVATION))


def test_saved(detail):
    """State that an operator outside of step() reads could be something else."""
    detail(truth("saved", STATE))


class Running(AskedTarget):
    def __init__(self):
        self.proc = subprocess.Popen([PYTHON, "-u", WORK, "--running"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL)

    def there(self, folder):
        """Bytes that were there before a window of some steps that begins anywhere, by category."""
        capture, raw = folder + "/a.ptb", folder + "/a.raw.json.gz"
        with Tracer("attach", "--pid", self.proc.pid, "-o", capture, "--no-table", "--profile-memory", "--execution-trace") as t:
            t.wait_attached()
            self.tell("six")
            self.line("waited")
            t.stop((0, 3))
        run_ptbpf("export", capture, "--format", "memory-raw", "-o", raw, expect=(0, 3))
        return sums(r for r in read(raw) if r[1] == PREEXISTING)


def test_anywhere(detail):
    """A window may begin anywhere in a training step: parameters and state are known, nothing else is an input."""
    said = []
    with workspace() as folder:
        target = Running()
        try:
            for _ in range(2):
                state, parameters = map(int, target.line("running").split())
                for _ in range(3):
                    got = target.there(folder)
                    said.append({NAMES[c]: n for c, n in got.items()})
                    check(got[STATE] == state and got[PARAMETER] == parameters and not got[INPUT],
                          f"{state} bytes of state, {parameters} of parameters, no input; it reports {said[-1]}")
                target.tell("next")
        finally:
            target.proc.stdin.close()
            target.proc.kill()
            target.proc.wait()
    detail("; ".join(f"unknown {s.get('unknown', 0)}" for s in said))
