# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One leg of the matrix: every payload under torch's own observers and under ptbpf, compared.

  run_leg.py PYTHON LEGNAME [--payload NAME]... [--keep DIR] [--chroot DIR] [--no-ptbpf]
             [--windows NAME,...] [--agent LIBRARY [--agent-windows NAME,...] [--agent-payload NAME]...] [--only-agent] [--brief]

PYTHON is the interpreter of the leg (inside the chroot where one is given). Prints one result line per
payload and comparison, and a summary. Processes per group: `truth` under torch's tools only, `target` under
ptbpf, in the windows of runner.py: names, shapes, everything; in each the program alone and then together with
torch's own tool. With an agent, another target with it, whose files are compared with torch's and with those of
the probes.

Several legs may run at the same time: only one target is traced at a time.
"""

import argparse
import collections
import contextlib
import fcntl
import functools
import gc
import json
import os
import shutil
import sys
import tempfile
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import compare  # noqa: E402
import compare_args  # noqa: E402
import compare_et  # noqa: E402
import compare_memory  # noqa: E402
import et_truth  # noqa: E402
import truth  # noqa: E402
from support import DEADLINE, Failure, Process, Tracer, check, run_ptbpf, say, wait_for  # noqa: E402
from runner_windows import WINDOWS, runs_of  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = ("eager", "compile")
OPTIONS = {"names": [], "shapes": ["--record-shapes", "--with-flops"], "full": ["--execution-trace"],
           "memory": ["--profile-memory"], "held": ["--profile-memory"]}
# The mounts of a chroot exist in the namespace of the process in it, and end with it.
IN_CHROOT = """
root=$1; mkdir -p "$root${3%/*}"
for m in proc sys dev; do mount --rbind "/$m" "$root/$m"; done
mount --bind "$2" "$root${3%/*}"
shift 3
exec chroot "$root" "$@"
"""
SLOW = max(DEADLINE, 1500)  # legs run at the same time as all other tests
TURN = os.path.join(tempfile.gettempdir(), "ptbpf-leg.turn")
ALL_WINDOWS = ",".join(WINDOWS)


def truth_windows(windows):
    """The windows in which torch's own tools must run alone: the slices of `full` are compared with those of `shapes`."""
    return windows + (",shapes" if "full" in windows.split(",") else "")


@contextlib.contextmanager
def turn():
    """One traced target at a time."""
    with open(TURN, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


# Some are compared several times in short order; all of them together would need too much memory.
load_chrome = functools.lru_cache(maxsize=4)(truth.load_chrome)


class Leg:
    def __init__(self, args):
        self.args = args
        self.name = args.leg
        self.failed = False
        self.total, self.values = compare.Verdict(), compare_args.ArgsVerdict()
        self.memory = compare_memory.MemoryVerdict()
        self.seconds = collections.Counter()
        self.base = args.keep or tempfile.mkdtemp(prefix="ptbpf-leg-", dir=args.chroot and args.chroot + "/tmp")

    @contextlib.contextmanager
    def timed(self, what):
        begin = time.monotonic()
        yield
        self.seconds[what] += time.monotonic() - begin

    def runner(self, group, mode, folder, agent=None):
        """Starts runner.py; in a chroot the folder and the tests have other paths."""
        inside, tests, wrap = folder, HERE, []
        if self.args.chroot:
            inside, tests = folder[len(self.args.chroot):], self.args.chroot_tests
            wrap = ["unshare", "--mount", "sh", "-ec", IN_CHROOT, "sh", self.args.chroot, os.path.dirname(HERE), tests]
        if agent:
            shutil.copy(self.args.agent, folder)
            wrap += ["env", "LD_PRELOAD=" + os.path.join(inside, os.path.basename(self.args.agent))]
        argv = [*wrap, self.args.python, tests + "/runner.py", "--dir", inside, "--group", group, "--mode", mode]
        argv += ["--windows", self.args.agent_windows if agent else truth_windows(self.args.windows) if mode == "truth"
                 else self.args.windows]
        argv += ["--brief"] if self.args.brief else []
        for p in (agent and self.args.agent_payload) or self.args.payload or ():
            argv += ["--payload", p]
        env = dict(OMP_NUM_THREADS="2", KINETO_LOG_LEVEL="99",
                   TORCHINDUCTOR_CACHE_DIR=inside + "/../inductor")
        return Process(argv, env=env)

    def folder(self, name):
        path = os.path.join(self.base, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def result(self, folder, proc):
        code = proc.finish(SLOW)
        path = os.path.join(folder, "result.json")
        check(code == 0 and os.path.exists(path), f"runner ended with {code}\n{proc.text()}")
        with open(path) as f:
            return json.load(f)

    def run_truth(self, group):
        folder = self.folder(group + "-truth")
        with self.timed("truth"), self.runner(group, "truth", folder) as p:
            return folder, self.result(folder, p)

    def window(self, target, folder, window, agent):
        """ptbpf during the runs of one window; returns its files and its last line."""
        def path(name):
            return os.path.join(folder, name)

        def alive():
            check(target.alive(), f"the target died under ptbpf\n{target.text()}")
            return os.path.exists(path("done." + window))

        wait_for(lambda: alive() or os.path.exists(path("at." + window)), f"the target to come to window {window}", SLOW)
        let_go = lambda: open(path("go." + window), "w").close()  # noqa: E731
        if self.args.no_ptbpf:
            let_go()
            wait_for(alive, "the payloads to finish", SLOW)
            return None
        out = {"capture": path(window + ".ptb"), "trace": path(window + ".json.gz"), "et": path(window + ".et.json") if window == "full" else None}
        with Tracer("attach", "--pid", target.pid, "-d", "1500s", "-o", out["capture"], "--trace", out["trace"],
                    *(["--agent", "auto"] if agent else []), *OPTIONS[window], *(["--et", out["et"]] if out["et"] else []), *self.args.attach_option) as tracer:
            tracer.wait_attached(SLOW)
            let_go()

            def is_done():
                check(tracer.alive(), f"ptbpf ended early\n{tracer.text()}")
                return alive()

            wait_for(is_done, "the payloads to finish", SLOW)
            tracer.stop((0, 3))
            print(f"    {window}: " + next((line for line in tracer.err if " slices, " in line), "no summary"))
        return out

    def run_target(self, group, agent=False):
        what = "agent" if agent else "target"
        folder = self.folder(f"{group}-{what}")
        with turn(), self.timed(what), self.runner(group, "target", folder, agent) as target:
            ready = os.path.join(folder, "ready")

            def is_ready():
                check(target.alive(), f"the target died while preparing\n{target.text()}")
                return os.path.exists(ready)

            wait_for(is_ready, "the target to be ready", SLOW)
            with open(ready) as f:
                own_pid = int(f.read())
            check(own_pid == target.pid or self.args.chroot, "the target is another process than was started")
            windows = [w for w in WINDOWS if w in (self.args.agent_windows if agent else self.args.windows).split(",")]
            outs = {window: self.window(target, folder, window, agent) for window in windows}
            open(os.path.join(folder, "leave"), "w").close()
            return folder, self.result(folder, target), outs

    def print_verdict(self, what, verdict, extra=""):
        name = f"torch.{self.name}.{what}"
        if verdict.problems:
            self.failed = True
            say("FAIL", name, "\n".join(verdict.problems))
        else:
            known = ", ".join(f"{c} x {t}" for t, c in verdict.known.items())
            say("PASS", name, f"{verdict.ops} slices equal" + (f", {verdict.threads} threads" if verdict.threads else "")
                + (f", {verdict.numbers} numbers" if verdict.numbers else "")
                + (f", {verdict.flows} arrows" if verdict.flows else "") + (f"; known: {known}" if known else "") + extra)
        self.total.add(verdict)

    def tell_args(self, what, verdict):
        name = f"torch.{self.name}.{what}"
        if verdict.problems or verdict.sites:
            self.failed = True
            say("FAIL", name, "\n".join([verdict.text(), *verdict.explanation()]))
        else:
            known = ", ".join(f"{c} x {t}" for t, c in verdict.known.items())
            say("PASS", name, verdict.text() + (f"; known: {known}" if known else ""))
        self.values.add(verdict)

    def tell_memory(self, what, verdict):
        name = f"torch.{self.name}.{what}"
        self.failed |= bool(verdict.problems)
        known = ", ".join(f"{c} x {t}" for t, c in verdict.known.items())
        say("FAIL" if verdict.problems else "PASS", name, "\n".join(verdict.problems) or
            (verdict.text() or "no events") + (f"; known: {known}" if known else ""))
        self.memory.add(verdict)

    def digests(self, a, b, some=False):
        """The same values with and without ptbpf: law 1."""
        v = compare.Verdict()
        v.problems = [f"{run} {name}: {a[run][name]} without, {b[run].get(name)} with ptbpf" for run in runs_of()
                      for name in (b[run] if some else a[run]) if a[run].get(name) != b[run].get(name)]
        return v

    def run_group(self, group):
        truth_dir, expected = self.run_truth(group)
        for name, why in expected["skipped"].items():
            broken = why.startswith("BROKEN")
            self.failed |= broken
            say("FAIL" if broken else "SKIP", f"torch.{self.name}.{name}", why)
        sources = []
        for agent in (False, True):
            if self.args.agent if agent else not self.args.only_agent:
                target_dir, seen, outs = self.run_target(group, agent)
                self.print_verdict(f"{group}.{'agent_' if agent else ''}same_results", self.digests(expected, seen, agent))
                sources.append(Group(self, group, (expected, seen), (truth_dir, target_dir), outs, agent))
        with self.timed("comparison"):
            if self.args.no_ptbpf:  # is the truth the same in both processes?
                sources[0].itself()
                return
            for source in sources:
                source.run()
            if len(sources) == 2:
                between_sources(*sources)

    def summary(self):
        t, v = self.total, self.values
        print(f"    leg {self.name}: " + ", ".join(f"{what} {s:.0f} s" for what, s in self.seconds.items()))
        if self.memory.events:
            print(f"    leg {self.name}: memory: {self.memory.text()}; known differences: {dict(self.memory.known) or 'none'}")
        if t.ops:
            known = collections.Counter(t.known)
            print(f"    leg {self.name}: {t.ops} slices compared, {100 * t.equal / t.ops:.3f} % equal, {t.threads} threads, "
                  f"{t.numbers} backward numbers, {t.flows} arrows; known differences: {dict(known) or 'none'}")
        if v.pairs:
            print(f"    leg {self.name}: {v.text()}; known differences: {dict(v.known) or 'none'}")
            for line in v.explanation(40) if v.sites else ():
                print(f"    leg {self.name}: unexplained {line[:300]}")
            if v.share() < compare_args.ENOUGH:
                self.failed = True
                say("FAIL", f"torch.{self.name}.values", f"only {100 * v.share():.3f} % of all values are equal")

    def run(self):
        try:
            check_rows()
            for group in self.args.group or GROUPS:
                self.run_group(group)
        except (Failure, OSError, ValueError, KeyError) as why:
            self.failed = True
            say("FAIL", f"torch.{self.name}", f"{type(why).__name__}: {why}")
        self.summary()
        if not self.args.keep and not self.failed:
            shutil.rmtree(self.base, ignore_errors=True)
        elif self.failed:
            print(f"    files kept in {self.base}")
        return not self.failed


class Group:
    """The comparisons of one group of payloads."""

    def __init__(self, leg, group, results, folders, outs, agent):
        """results, folders: of the truth and of the target."""
        expected, seen = results
        self.leg, self.group, self.expected, self.outs, self.agent = leg, group, expected, outs, agent
        self.truth_dir, self.target_dir = folders
        self.ran = {run: [n for n in expected[run] if n in seen[run]] for run in runs_of()}
        self.ran["observed"] = [n for n in expected.get("observed", ()) if n in seen["bare"]]
        self.tag = "agent_" if agent else ""
        self.both = {"target_profiled": True, "all_threads": expected["all_threads"], "torch": expected["torch"], "agent": agent,
                     "unordered": expected["unordered"], "numbers": False, "keys": compare_args.KEYS, "same_run": True}
        self.alone = dict(self.both, target_profiled=False, same_run=False)

    def chrome(self, folder, run):
        path = os.path.join(folder, run + ".json")
        return load_chrome(path, True) if os.path.exists(path) else None

    def mine(self, window):
        mine = load_chrome(self.outs[window]["trace"], False)
        version = mine.document["ptbpf"]["capture"].get("torch")
        check(version == self.expected["torch"], f"the capture says PyTorch {version}, not {self.expected['torch']}")
        return mine

    def comparable(self, names, ctx):
        return [name for name in names if ctx["same_run"] or name not in self.expected["unsteady"]]

    def trees(self, what, theirs, mine, runs, ctx, names=None):
        """Slices of every payload."""
        for name in self.comparable(names if names is not None else self.ran[runs[0]], ctx):
            self.leg.print_verdict(f"{name}.{self.tag}{what}", compare.compare(theirs, mine, *runs, name, ctx))

    def arguments(self, what, theirs, mine, runs, ctx):
        """Slices and the arguments of every payload."""
        ctx = dict(ctx, legacy=theirs.legacy)
        if theirs.legacy:
            ctx["keys"] = ("Input Dims",)
        for name in self.comparable(self.ran[runs[0]], ctx):
            if name in self.expected["unordered"]:
                continue
            tree = compare.compare(theirs, mine, *runs, name, ctx)
            if tree.problems:
                self.leg.print_verdict(f"{name}.{self.tag}{what}_slices", tree)
            if tree.sides:
                self.leg.tell_args(f"{name}.{self.tag}{what}", compare_args.compare_payload(*tree.sides, dict(ctx, payload=name)))

    def nodes(self, what, theirs, mine, runs, ctx):
        """Nodes of the Execution Traces."""
        names = compare_et.Names()
        for name in self.comparable(self.ran["traced"], ctx):
            self.leg.tell_args(f"{name}.{self.tag}{what}", compare_et.compare_payload(
                theirs, mine, (runs[0], name), (runs[1], name), names, dict(ctx, payload=name)))

    def itself(self):
        ctx = dict(self.both, numbers=True, same_run=False)
        for run in ("profiled", "shaped", "traced"):
            a, b = self.chrome(self.truth_dir, run), self.chrome(self.target_dir, run)
            if a:
                self.trees(f"{run}_itself", a, b, (run, run), dict(self.both))
                if run != "profiled":
                    self.arguments(f"{run}_itself", a, b, (run, run), ctx)
        a, b = (et_truth.load(os.path.join(d, "traced.et.json"), own=True) for d in (self.truth_dir, self.target_dir))
        self.nodes("et_itself", a, b, ("traced", "traced"), dict(ctx, unwound=()))
        a, b = (self.chrome(d, "held") for d in (self.truth_dir, self.target_dir))
        sides = [(t, compare_memory.events_of(t.document)) for t in (a, b)]
        for name in self.expected["held"]:
            self.leg.tell_memory(f"{name}.memory_itself", compare_memory.compare_payload(*sides, ("held", "held"), name, ctx))

    def names(self):
        trusted = self.chrome(self.truth_dir, "profiled")
        if trusted:
            self.trees("bare", trusted, self.mine("names"), ("profiled", "bare"), self.alone)
            self.trees("both", self.chrome(self.target_dir, "profiled"), self.mine("names"), ("profiled", "profiled"),
                       self.both)
        observed = truth.load_observer(os.path.join(self.truth_dir, "observed.json"))
        self.trees("observer", observed, self.mine("names"), ("observed", "bare"),
                   dict(self.alone, all_threads=True, observer=True), self.ran["observed"])

    def shapes(self):
        trusted = self.chrome(self.truth_dir, "shaped")
        if trusted:
            self.arguments("shapes", trusted, self.mine("shapes"), ("shaped", "plain"), self.alone)
            self.arguments("shapes_both", self.chrome(self.target_dir, "shaped"), self.mine("shapes"),
                           ("shaped", "shaped"), self.both)

    def full(self):
        unwound, ids = self.full_slices()
        et = et_truth.load(self.outs["full"]["et"])
        self.leg.print_verdict(f"{self.group}.{self.tag}same_calls", same_calls(et, ids))
        for what, folder, run, ctx in (("et", self.truth_dir, "whole", self.alone), ("et_both", self.target_dir, "traced", self.both)):
            theirs = et_truth.load(os.path.join(folder, "traced.et.json"), own=True)
            self.nodes(what, theirs, et, ("traced", run), dict(ctx, unwound=unwound))

    def run(self):
        if "names" in self.outs:
            self.names()
        if "shapes" in self.outs:
            self.shapes()
        if "full" in self.outs:
            self.full()
        self.memory()

    def memory(self):
        """Memory events of every payload, and the memory columns of the whole table."""
        for what, folder, window, run, ctx in (("memory", self.truth_dir, "memory", "counted", self.alone),
                                               ("memory_both", self.target_dir, "held", "held", self.both)):
            if window not in self.outs:
                continue
            trusted, mine = self.chrome(folder, "held"), self.mine(window)
            ctx = dict(ctx, rounds=self.expected["rounds"])
            theirs, seen = (trusted, compare_memory.events_of(trusted.document)), (mine, compare_memory.events_of(mine.document))
            compare_memory.mark_unseen(seen[1], mine)
            total = compare_memory.MemoryVerdict()
            steady = set(self.comparable(self.ran["held"], ctx))
            for name in self.ran["held"]:
                verdict = compare_memory.compare_payload(theirs, seen, ("held", run), name, ctx)
                if name in steady:
                    self.leg.tell_memory(f"{name}.{self.tag}{what}", verdict)
                total.add(verdict)  # the table has them all
            if not self.leg.args.agent_payload or not self.agent:  # the truth's table has all payloads
                self.table(what, folder, window, total.moved)

    def table(self, what, folder, window, moved):
        path = os.path.join(folder, "held.table.json")
        if not os.path.exists(path):
            return  # a torch without Kineto: its table is made of other events
        with open(path) as f:
            want = json.load(f)
        report = run_ptbpf("report", self.outs[window]["capture"], "--json", "--no-steps", "--row-limit", "-1", expect=(0, 3))
        got = [[r["key"], r["count"], r["cpu_mem_bytes"], r["self_cpu_mem_bytes"]] for r in json.loads("\n".join(report.out))["rows"]]
        self.leg.tell_memory(f"{self.group}.{self.tag}{what}_table", compare_memory.compare_tables(want, got, moved))

    def full_slices(self):
        """The Chrome trace of the same window; returns the ids of the slices whose operator raised, and all ids."""
        trusted, mine = self.chrome(self.truth_dir, "shaped"), self.mine("full")
        slices = [e["args"] for e in mine.document["traceEvents"]
                  if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
        unwound = {args["Record function id"] for args in slices if args.get("ptbpf.unwound")}
        if trusted:
            self.arguments("args", trusted, mine, ("shaped", "whole"), dict(self.alone, numbers=True))
        inside = self.chrome(self.target_dir, "traced")
        if inside:  # a torch without Kineto cannot run both of its tools at once
            self.arguments("args_both", inside, mine, ("traced", "traced"), dict(self.both, numbers=True))
        return unwound, sorted(args.get("Record function id", -1) for args in slices)


def between_sources(probes, agent):
    """The agent's files take the place of torch's in the other comparisons: the agent receives the same callbacks as torch's
    own tools."""
    ctx = dict(agent.alone, between=True, numbers=True)
    if "names" in agent.outs:
        agent.trees("names_and_probes", agent.mine("names"), probes.mine("names"), ("bare", "bare"), ctx)
    if "full" not in agent.outs:
        return
    theirs, mine = agent.mine("full"), probes.mine("full")
    agent.arguments("args_and_probes", theirs, mine, ("whole", "whole"), ctx)
    unwound = {e["args"]["Record function id"] for e in mine.document["traceEvents"]
               if e.get("ph") == "X" and e.get("args", {}).get("ptbpf.unwound")}
    ets = [et_truth.load(source.outs["full"]["et"]) for source in (agent, probes)]
    agent.nodes("et_and_probes", *ets, ("whole", "whole"), dict(ctx, unwound=unwound))


def same_calls(et, slices):
    """E4: the same record function ids in the Execution Trace and in the Chrome trace."""
    v = compare.Verdict()
    ids = sorted(n.attrs["rf_id"] for n in et.nodes.values())
    v.ops = v.equal = len(ids)
    if ids != slices:
        a, b = collections.Counter(ids), collections.Counter(slices)
        v.problems.append(f"{len(ids)} nodes and {len(slices)} slices; only nodes: {sorted((a - b).elements())[:8]}, "
                          f"only slices: {sorted((b - a).elements())[:8]}")
    return v


def check_rows():
    """Every excuse has a row in differences.md."""
    with open(os.path.join(HERE, "differences.md"), encoding="utf-8") as f:
        text = f.read()
    titles = [d.title for d in compare.DIFFERENCES] + [t for t, _ in compare_args.DIFFERENCES + compare_et.DIFFERENCES]
    titles += compare_memory.DIFFERENCES
    missing = [t for t in titles if f"| {t} |" not in text]
    check(not missing, f"rows without a line in differences.md: {missing}")


def parser():
    ap = argparse.ArgumentParser()
    ap.add_argument("python")
    ap.add_argument("leg")
    ap.add_argument("--payload", action="append")
    ap.add_argument("--group", action="append", choices=GROUPS)
    ap.add_argument("--keep", metavar="DIR")
    ap.add_argument("--chroot", metavar="DIR")
    ap.add_argument("--chroot-tests", metavar="PATH", default="/ptbpf-tests/torch", help="tests/torch inside the chroot")
    ap.add_argument("--attach-option", action="append", default=[])
    ap.add_argument("--agent", metavar="LIBRARY", help="compare operators from the agent as well")
    ap.add_argument("--agent-windows", default=ALL_WINDOWS, help="only these (default: %(default)s)")
    ap.add_argument("--windows", default=ALL_WINDOWS, help="of the target without the agent, only these (default: %(default)s)")
    ap.add_argument("--agent-payload", action="append", help="only these (default: as without the agent)")
    ap.add_argument("--only-agent", action="store_true", help="and no target without it")
    ap.add_argument("--brief", action="store_true", help="payloads with very many operators in fewer windows")
    ap.add_argument("--no-ptbpf", action="store_true", help="torch.profiler against itself")
    return ap


def main():
    gc.disable()  # millions of values, no cycles
    sys.exit(0 if Leg(parser().parse_args()).run() else 1)


if __name__ == "__main__":
    main()
