# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares the arguments of the slices of two Chrome traces: `Input Dims`, `Input type`, `Input Strides`, `Concrete Inputs` of
every pair, value by value, and in full mode the sequence number.

Every known difference is a row of DIFFERENCES with the same title as in differences.md; a row explains single values, which
then count as known, not as equal. Any other difference fails."""

import collections

import compare

KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
ENOUGH = 0.999  # of all compared values must be equal, even if rows explain the others
NO_TRUTH = set()  # titles of rows for values that are wrong in torch or do not exist in the process: not counted as compared
DIFFERENCES = []


class Site:
    """Two values that differ: the pair of slices, the kind of value, which input, and both values."""

    def __init__(self, kind, want_node, got_node, index=None, want=None, got=None):
        self.kind, self.want_node, self.got_node = kind, want_node, got_node
        self.index, self.want, self.got = index, want, got
        self.name = want_node.name

    def __str__(self):
        where = f"{self.name}: {self.kind}" + ("" if self.index is None else f" [{self.index}]")
        return f"{where}: torch {str(self.want)[:160]!r}, ptbpf {str(self.got)[:160]!r}"


def known(title, no_truth=False):
    def register(test):
        DIFFERENCES.append((title, test))
        NO_TRUTH.update([title] if no_truth else [])
        return test

    return register


def explain(rows, site, ctx):
    return next((title for title, test in rows if test(site, ctx)), None)


CXX_TYPES = ("float", "double", "int", "long int", "short int", "signed char", "unsigned char", "bool")
SCOPES = ("PythonDispatchMode", "PythonSubclass")
DIMS = 16


@known("arguments that are made only for a profiler", no_truth=True)
def made_for_profilers(site, ctx):
    """RECORD_FUNCTION with a list of arguments in torch's own code: the list exists only if an observer needs inputs."""
    return site.index is None and site.name in SCOPES and not site.got


def is_deep(shape):
    return isinstance(shape, list) and (len(shape) > DIMS or any(map(is_deep, shape)))


def without_deep(shape):
    return shape if not isinstance(shape, list) else [] if len(shape) > DIMS and not isinstance(shape[0], list) else \
        [without_deep(s) for s in shape]


@known("more than 16 dimensions")
def too_many_dimensions(site, ctx):
    return is_deep(site.want) and site.got == without_deep(site.want)


@known("symbolic sizes")
def symbolic(site, ctx):
    return ctx["payload"] in ("symbolic_sizes", "jagged") and (
        site.got in ([], "") if site.kind.startswith("Input") else isinstance(site.got, str) and "<SymInt>" in site.got)


@known("more on the stack than the operator's inputs")
def whole_stack(site, ctx):
    """Calls whose arguments are on a stack of values: torch.profiler prints the whole stack."""
    want, got = site.want, site.got
    return (site.index is None and isinstance(want, list) and isinstance(got, list) and 0 < len(got) < len(want)
            and want[-len(got):] == got and ctx["payload"] == "functorch_transforms")


@known("numbers among a custom function's arguments")
def only_tensors(site, ctx):
    """torch.profiler records them, but not with profile_all_threads, and the observer never does."""
    types = site.got_node.inputs["types"] if hasattr(site.got_node, "inputs") else site.got_node.args.get("Input type", [])
    got = site.got if isinstance(site.got, list) and len(site.got) == len(types) else []
    if site.index is not None or not isinstance(site.want, list) or len(site.want) >= len(got) or "::" in site.name:
        return False
    got = [value for value, text in zip(got, types) if t_is_tensor(text)]
    return len(got) == len(site.want) and (site.kind.endswith("values") or got == site.want)


def t_is_tensor(text):
    """In an Execution Trace a tensor's type contains the word; in a Chrome trace it is the name of its numbers' type."""
    return text.startswith("Tensor(") or text in CXX_TYPES or text.startswith("c10::")


@known("annotation arguments of other Python types")
def other_python_types(site, ctx):
    return (ctx["payload"] == "annotation_args" and site.name == "## TEST 2 ##" and
            (site.got in ("<PyObject>", "PyObject", "<Unknown>", "Unknown", "") or (site.got == [] and site.kind.endswith((" shape", " stride")))))


@known("lists of tensors in the older profiler", no_truth=True)
def older_lists(site, ctx):
    return ctx.get("legacy") and site.want == [] and isinstance(site.got, list) and all(isinstance(v, list) for v in site.got)


@known("numbers of calls that autograd does not see, in 1.13")
def older_numbers(site, ctx):
    return (ctx["torch"].startswith("1.") and site.kind in ("Sequence number", "seq_id") and site.want == -1 and site.got >= 0
            and not site.name.startswith("autograd::engine::"))


STATEFUL = ("optimizers", "transformer", "compile_eager", "compile_aot_eager", "compile_inductor")


def is_number(text):
    if isinstance(text, str) and text.startswith("["):
        return all(map(is_number, text[1:-1].split(",")))
    try:
        return not isinstance(text, (list, bool)) and float(text) == float(text)
    except (TypeError, ValueError):
        return False


@known("numbers that change from run to run", no_truth=True)
def counts_runs(site, ctx):
    """Optimizers count their steps; the other process ran the payload a different number of times."""
    return (not ctx["same_run"] and ctx["payload"] in STATEFUL and site.kind.endswith((" value", "Concrete Inputs"))
            and is_number(site.want) and is_number(site.got))


@known("evaluate_function without a number in torch")
def lent_number(site, ctx):
    return (site.kind == "Sequence number" and site.want == -1
            and site.name.startswith("autograd::engine::evaluate_function: "))


class ArgsVerdict:
    def __init__(self):
        self.pairs = 0
        self.compared, self.equal, self.known = collections.Counter(), collections.Counter(), collections.Counter()
        self.problems, self.sites = [], {}  # sites: (slice's name, kind) -> [number of cases, an example]

    def add(self, other):
        self.pairs += other.pairs
        self.problems += other.problems
        for key, (n, example) in other.sites.items():
            self.sites.setdefault(key, [0, example])[0] += n
        for k in ("compared", "equal", "known"):
            getattr(self, k).update(getattr(other, k))

    def count(self, kind, equal):
        self.compared[kind] += equal
        self.equal[kind] += equal

    def value(self, rows, site, ctx, same):
        """One value of each side: equal, a known difference, or a problem."""
        if same:
            self.compared[site.kind] += 1
            self.equal[site.kind] += 1
            return
        title = explain(rows, site, ctx)
        self.compared[site.kind] += title not in NO_TRUTH
        if title:
            self.known[title] += 1
            return
        self.sites.setdefault((site.name, site.kind), [0, str(site)])[0] += 1

    def explanation(self, limit=12):
        worst = sorted(self.sites.values(), key=lambda s: -s[0])
        more = [f"... {len(worst) - limit} more kinds"] if len(worst) > limit else []
        return self.problems + [f"{n} x {example}" for n, example in worst[:limit]] + more

    def share(self):
        total = sum(self.compared.values())
        return sum(self.equal.values()) / total if total else 1.0

    def text(self):
        kinds = ", ".join(f"{k} {self.equal[k]}/{n}" for k, n in sorted(self.compared.items()))
        return f"{self.pairs} slices, {100 * self.share():.3f} % of {sum(self.compared.values())} values equal ({kinds})"


def pairs(want, got):
    """Pairs of slices that are the same call: by name and nesting."""
    a, b = ([n for d, n in tree.walk() if d] for tree in (want, got))
    names = [compare.lines(tree) for tree in (want, got)]
    return [(a[i], b[j]) for i, j in compare.align(*names)]


def as_list(value):
    return value if isinstance(value, list) else []


def compare_key(v, key, want_node, got_node, ctx):
    want, got = want_node.args.get(key), got_node.args.get(key)
    if want == got:
        v.count(key, len(as_list(want)))
        return
    a, b = as_list(want), as_list(got)
    if want is None or got is None or len(a) != len(b):
        v.value(DIFFERENCES, Site(key, want_node, got_node, None, want, got), ctx, False)
        return
    for i, (x, y) in enumerate(zip(a, b)):
        v.value(DIFFERENCES, Site(key, want_node, got_node, i, x, y), ctx, x == y)


def number_shift(both, ctx):
    """Sequence numbers of one process are compared directly, those of two processes relative to the first one."""
    if ctx["same_run"]:
        return 0
    return next((w.seq - g.seq for w, g in both if w.seq >= 0 and g.seq >= 0), 0)


def compare_pairs(v, both, ctx):
    shift = number_shift(both, ctx)
    v.pairs += len(both)
    for want, got in both:
        for key in ctx["keys"]:
            compare_key(v, key, want, got, ctx)
        if ctx["numbers"] and (want.seq >= 0 or got.seq >= 0):
            site = Site("Sequence number", want, got, None, want.seq, got.seq)
            v.value(DIFFERENCES, site, ctx, want.seq == (got.seq + shift if got.seq >= 0 else -1))


def compare_payload(want, got, ctx):
    """Verdict on one payload; the arguments are those of compare.compare()."""
    v = ArgsVerdict()
    compare_pairs(v, pairs(want.root, got.root), ctx)
    if ctx["all_threads"]:
        sides = [sorted((t for t in p.others if t.children), key=lambda t: compare.lines(t)) for p in (want, got)]
        for a, b in zip(*sides):
            compare_pairs(v, pairs(a, b), ctx)
    return v
