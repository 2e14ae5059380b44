# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One leg of the matrix: every payload under torch's own observers and under ptbpf, compared.

  run_leg.py PYTHON LEGNAME [--payload NAME]... [--keep DIR] [--chroot DIR] [--no-ptbpf]

PYTHON is the interpreter of the leg (inside the chroot where one is given). Prints one result line per
payload and comparison, and a summary. Two processes per group: `truth` is watched by torch alone,
`target` by ptbpf from outside, first bare and then with torch.profiler running inside at once.
"""

import argparse
import collections
import json
import os
import shutil
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import compare  # noqa: E402
import truth  # noqa: E402
from harness import DEADLINE, Failure, Process, Tracer, check, say, wait_for  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = ("eager", "compile")
# The mounts of a chroot live and die with the namespace of the process in it.
IN_CHROOT = """
root=$1; mkdir -p "$root${3%/*}"
for m in proc sys dev; do mount --rbind "/$m" "$root/$m"; done
mount --bind "$2" "$root${3%/*}"
shift 3
exec chroot "$root" "$@"
"""
SLOW = max(DEADLINE, 240)


class Leg:
    def __init__(self, args):
        self.args = args
        self.name = args.leg
        self.failed = False
        self.total = compare.Verdict()
        self.base = args.keep or tempfile.mkdtemp(prefix="ptbpf-leg-", dir=args.chroot and args.chroot + "/tmp")

    def runner(self, group, mode, folder):
        """Starts runner.py; in a chroot the folder and the tests are reached by their paths inside."""
        inside, tests, wrap = folder, HERE, []
        if self.args.chroot:
            inside, tests = folder[len(self.args.chroot):], self.args.chroot_tests
            wrap = ["unshare", "--mount", "sh", "-ec", IN_CHROOT, "sh", self.args.chroot, os.path.dirname(HERE), tests]
        argv = [*wrap, self.args.python, tests + "/runner.py", "--dir", inside, "--group", group, "--mode", mode]
        for p in self.args.payload or ():
            argv += ["--payload", p]
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="2", KINETO_LOG_LEVEL="99",
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
        with self.runner(group, "truth", folder) as p:
            return folder, self.result(folder, p)

    def run_target(self, group):
        """The target under ptbpf; the window covers the bare and the profiled run, not the last one."""
        folder = self.folder(group + "-target")
        tell = lambda name: open(os.path.join(folder, name), "w").close()  # noqa: E731
        with self.runner(group, "target", folder) as target:
            ready = os.path.join(folder, "ready")

            def is_ready():
                check(target.alive(), f"the target died while preparing\n{target.text()}")
                return os.path.exists(ready)

            wait_for(is_ready, "the target to be ready", SLOW)
            if self.args.no_ptbpf:
                tell("go")
                tell("leave")
                return folder, self.result(folder, target), None
            with open(ready) as f:
                own_pid = int(f.read())
            check(own_pid == target.pid or self.args.chroot, "the target is another process than was started")
            trace = os.path.join(folder, "ptbpf.json.gz")
            with Tracer("attach", "--pid", target.pid, "-d", "600s", "-o", os.path.join(folder, "run.ptb"),
                        "--trace", trace, *self.args.attach_option) as tracer:
                tracer.wait_attached(SLOW)
                tell("go")

                def is_done():
                    check(target.alive(), f"the target died under ptbpf\n{target.text()}")
                    check(tracer.alive(), f"ptbpf ended early\n{tracer.text()}")
                    return os.path.exists(os.path.join(folder, "done"))

                wait_for(is_done, "the payloads to finish", SLOW)
                tracer.stop()
                last = (tracer.err or [""])[-1]
            tell("leave")
            return folder, self.result(folder, target), (trace, last)

    def tell(self, what, verdict, extra=""):
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

    def digests(self, a, b):
        """The same values with and without ptbpf: law 1."""
        wrong = [f"{run} {name}: {a[run][name]} without, {b[run][name]} with ptbpf" for run in ("bare", "profiled")
                 for name in (a[run] or {}) if a[run][name] != (b[run] or {}).get(name)]
        v = compare.Verdict()
        v.problems = wrong
        return v

    def run_group(self, group):
        truth_dir, told = self.run_truth(group)
        for name, why in told["skipped"].items():
            broken = why.startswith("BROKEN")
            self.failed |= broken
            say("FAIL" if broken else "SKIP", f"torch.{self.name}.{name}", why)
        target_dir, seen, out = self.run_target(group)
        self.tell(group + ".same_results", self.digests(told, seen))
        inside = os.path.join(target_dir, "profiled.json")
        trusted = truth.load_chrome(os.path.join(truth_dir, "profiled.json"), own=True) if told["profiled"] else None
        observed = truth.load_observer(os.path.join(truth_dir, "observed.json"))
        names = list(told["bare"])
        if out is None:  # torch against itself: is the truth the same in two processes?
            other, load = truth.load_chrome(inside, own=True), lambda: None
            for name in names:
                self.tell(f"{name}.itself", compare.compare(trusted, other, "profiled", "profiled", name,
                                                            {"target_profiled": True, "all_threads": told["all_threads"],
                                                             "unordered": told["unordered"]}))
            return
        trace, last = out
        load = lambda: truth.load_chrome(trace)  # noqa: E731  comparing prunes, so each takes a fresh copy
        both = {"target_profiled": True, "all_threads": told["all_threads"], "torch": told["torch"],
                "unordered": told["unordered"]}
        bare = dict(both, target_profiled=False)
        print(f"    {last}")
        if trusted:
            mine = load()
            for name in names:
                self.tell(f"{name}.bare", compare.compare(trusted, mine, "profiled", "bare", name, bare))
            mine, theirs = load(), truth.load_chrome(inside, own=True)
            for name in names:
                self.tell(f"{name}.both", compare.compare(theirs, mine, "profiled", "profiled", name, both))
        mine = load()
        for (_, name) in list(observed.payloads):
            self.tell(f"{name}.observer", compare.compare(observed, mine, "observed", "bare", name,
                                                          dict(bare, all_threads=True, observer=True)))

    def run(self):
        try:
            for group in self.args.group or GROUPS:
                self.run_group(group)
        except (Failure, OSError, ValueError, KeyError) as why:
            self.failed = True
            say("FAIL", f"torch.{self.name}", f"{type(why).__name__}: {why}")
        t = self.total
        if t.ops:
            known = collections.Counter(t.known)
            print(f"    leg {self.name}: {t.ops} slices compared, {100 * t.equal / t.ops:.3f} % equal, {t.threads} threads, "
                  f"{t.numbers} backward numbers, {t.flows} arrows; known differences: {dict(known) or 'none'}")
        if not self.args.keep and not self.failed:
            shutil.rmtree(self.base, ignore_errors=True)
        elif self.failed:
            print(f"    files kept in {self.base}")
        return not self.failed


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("python")
    ap.add_argument("leg")
    ap.add_argument("--payload", action="append")
    ap.add_argument("--group", action="append", choices=GROUPS)
    ap.add_argument("--keep", metavar="DIR")
    ap.add_argument("--chroot", metavar="DIR")
    ap.add_argument("--chroot-tests", metavar="PATH", default="/ptbpf-tests/torch", help="tests/torch inside the chroot")
    ap.add_argument("--attach-option", action="append", default=[])
    ap.add_argument("--no-ptbpf", action="store_true", help="torch.profiler against itself")
    sys.exit(0 if Leg(ap.parse_args()).run() else 1)


if __name__ == "__main__":
    main()
