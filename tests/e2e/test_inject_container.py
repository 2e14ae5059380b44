# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Libraries loaded into processes in containers: under seccomp filters that permit it or not, in mount, pid and user namespaces
where ptbpf's file does not exist."""

import errno
import glob
import os
import subprocess

from support import AGENT, BUILD, PYTHON, WORKLOADS, Skip, Tracer, check, children_of, load_trace, slices, wait_for, workspace
from agent_target import sources_of
from inject_target import (TOOL, Target, copies, cpu_of, finals, inject, load_all, need_tools, newest_python, refused,
                           same_as_undisturbed)
import seccomp_filters as sf

SCRIPT = os.path.join(WORKLOADS, "seccomp_work.py")
TORCH = [PYTHON, os.path.join(WORKLOADS, "inject_work.py")]
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
GETTID, MEMBARRIER, RSEQ, CLONE3 = 186, 324, 334, 435
TARGETS_OWN = (1, 231, 5, 262)  # write, exit_group; fstat and newfstatat, of which the loader needs one


WAITS = ("import os, sys\nsys.path.insert(0, sys.argv[1])\nimport seccomp_work as s\n"
         "{}\nprint('ready', os.getpid(), flush=True)\ninput()\nprint('end')\n")


def waiting(code, *words):
    """Runs `code`, which can create filters through `s`, then waits for a line."""
    return Target([PYTHON, "-c", WAITS.format(code), WORKLOADS, *words])


# ---- filters ----

def test_container_filter(ws, detail):
    """A filter like that of container runtimes: EPERM for many calls, ENOSYS for clone3. Twice, as for a container in a
    container."""
    need_tools()
    profile = sf.container()
    detail(same_as_undisturbed(lambda: Target([PYTHON, SCRIPT, "run", f"{profile},{profile}", *TORCH, "2", "6"]),
                               "ptrace", copies(ws, 20), 2))


def test_forbidden(detail):
    """Refused with the name of the call, and the target lives on; filters that permit the call do not matter."""
    need_tools()
    by_place = sf.assemble([(sf.LOAD, 0, 0, sf.IP), (sf.JUMP_EQ, 0, 1, 4096), (sf.RETURN, 0, 0, sf.KILL_PROCESS),
                            (sf.RETURN, 0, 0, sf.ALLOW)])
    no = [({MEMBARRIER: sf.KILL_PROCESS}, "may kill the program for the system call membarrier"),
          ({RSEQ: sf.TRAP}, "may send the program a SIGSYS for the system call rseq"),
          ({GETTID: sf.fails(errno.EPERM)}, "system call gettid"),
          ({CLONE3: sf.fails(errno.EPERM)}, "system call clone3"),
          ({MEMBARRIER: sf.fails(0)}, "membarrier, which the agent would make: done"),
          ({MEMBARRIER: sf.TRACE}, "may ask another process about the system call membarrier")]
    yes = [{CLONE3: sf.fails(errno.ENOSYS)}, {MEMBARRIER: sf.fails(errno.EPERM)}, {MEMBARRIER: sf.LOG}]
    cases = [([sf.answers(calls)], text) for calls, text in no] + [([sf.answers(calls)], None) for calls in yes]
    cases += [([by_place], "system call openat"), ([sf.answers({}), sf.answers(no[0][0]), sf.answers({})], "membarrier")]
    with workspace() as ws:
        for k, (filters, text) in enumerate(cases):
            lib, = copies(ws, 1, f"f{k}-")
            with waiting("s.install([bytes.fromhex(h) for h in sys.argv[2].split(',')])", ",".join(filters)) as t:
                t.ready()
                if text:
                    refused(t.pid, lib, text, "ptrace")
                    check(lib not in t.maps(), "it was loaded nevertheless")
                else:
                    load_all(t, "ptrace", [lib], 2, 2000)
                check(t.finish() == ["end"], "the target did not end as it does alone")
    detail(f"{len(cases)} filters")


def test_filters_not_readable(ws):
    """Without CAP_SYS_ADMIN filters cannot be read: refused, because their content is unknown."""
    need_tools()
    with waiting("s.install([bytes.fromhex(sys.argv[2])])", sf.answers({})) as t:
        t.ready()
        lib, = copies(ws, 1)
        (ok, why), = inject(t.pid, "ptrace", [lib], 1500,
                            ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"))
        check(not ok and "seccomp filter that cannot be read (Permission denied)" in why, why)
        check(t.finish() == ["end"], "the target did not end well")


def test_different_filters(ws):
    """One thread has an additional filter: refused, because the filters of the other threads cannot be read."""
    need_tools()
    code = ("import threading\nthere = threading.Event()\ndef own():\n s.install([bytes.fromhex(sys.argv[2])])\n"
            " there.set()\n threading.Event().wait()\nthreading.Thread(target=own, daemon=True).start()\nthere.wait()")
    with waiting(code, sf.answers({})) as t:
        t.ready()
        refused(t.pid, copies(ws, 1)[0], "have different seccomp filters")
        t.finish()


def test_newest_python_filtered(ws, detail):
    """Remote execution runs in the main thread, whose filters are read first, while it is stopped."""
    need_tools()
    own = ["/ptbpf-tests/workloads/seccomp_work.py", "run"]
    work = ["python3", "/ptbpf-tests/workloads/inject_work.py", "2", "5"]
    with newest_python(ws) as start:
        text = same_as_undisturbed(lambda: start((*own, sf.container(), *work)), "any", copies(ws, 10), 1)
        with start((*own, sf.answers({MEMBARRIER: sf.KILL_PROCESS}), *work)) as t:
            t.ready()
            for method in ("remote", "any"):
                refused(t.pid, copies(ws, 1, method)[0], "may kill the program for the system call membarrier", method)
            check(len(finals(t)) == 2, "results are missing")
        with start((*own, sf.container(), *work)) as t:
            t.ready()
            (ok, text), = inject(t.pid, "remote", [AGENT])
            check(ok and "libptbpf_agent-" in t.maps(), f"the agent, of which there is no file in its root directory: {text}")
            check(len(finals(t)) == 2, "results are missing")
        detail(text)


def listed_calls(spare):
    """The calls that are checked, with an answer for those that the agent can do without, and those that the target itself
    needs."""
    lines = subprocess.run([TOOL, "calls"], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [(int(w[0]), {int(a): int(v) for a, v in (x.split("=") for x in w[2:])}, spare if w[1] == "spare" else sf.ALLOW)
            for w in map(str.split, lines)]
    return [(nr, {}, sf.ALLOW) for nr in TARGETS_OWN] + sorted(rows, key=lambda r: r[2] != sf.ALLOW)


def wait_filtered(target):
    wait_for(lambda: "Seccomp:\t2" in open(f"/proc/{target.pid}/status").read(), "the filter")


def under_only(spare):
    rows = listed_calls(spare)
    with workspace() as ws, Target([PYTHON, SCRIPT, "compute", sf.only(rows)]) as t:
        t.ready()
        wait_filtered(t)
        count = len(slices(attach(ws, t, "--record-shapes"), "aten::sin"))
        check(count > 50, f"{count} operators")
        out = t.finish()
        check(len(out) == 1 and out[0].startswith("sum "), f"{out}")
        return f"{count} operators"


def test_nothing_else(detail):
    """A filter that kills for any call except the checked ones: the list is complete, also for the working agent. And calls
    that are listed as optional may fail."""
    need_tools()
    with workspace() as ws, newest_python(ws) as start:
        lib, other = copies(ws, 2)
        filters = sf.only(listed_calls(sf.ALLOW))
        with start(("/ptbpf-tests/workloads/seccomp_work.py", "compute", filters)) as t:
            t.ready()
            wait_filtered(t)
            load_all(t, "remote", [lib], 1)
            load_all(t, "ptrace", [other], 2)
            check(len(t.finish()) == 1, "the target did not end well")
    detail(f"{under_only(sf.ALLOW)}; {under_only(sf.fails(errno.EPERM))} where calls fail that are no loss")


def attach(ws, target, *options):
    """The trace of a window in which the agent must be the source."""
    path = f"{ws}/w.json"
    with Tracer("attach", "--pid", target.pid, "--agent", "inject", "-o", f"{ws}/w.ptb", "--trace", path, "--no-table",
                *options) as p:
        p.wait_attached()
        begin = cpu_of(target)
        wait_for(lambda: cpu_of(target) > begin + 0.5, "the target to compute")
        p.stop()
        trace = load_trace(path)
        source = sources_of(trace).get(target.pid)
        check(source and source[0] == "agent", f"source {source}\n{p.text()}")
    return trace


# ---- namespaces ----

def inside(*words):
    """inject_work.py in a container: under the filter of a container runtime."""
    return [PYTHON, "/mnt/workloads/seccomp_work.py", "run", sf.container(), PYTHON, "/mnt/workloads/inject_work.py", *words]


class Contained(Target):
    """In its own mount and pid namespace, with its own /tmp and without the build directory; the workloads are in /mnt.
    `before`: shell commands that prepare it."""

    def __init__(self, *command, options=(), before="", prefix=(), **kw):
        script = (f"mount -t tmpfs tmpfs /mnt; mkdir /mnt/workloads; mount --bind '{WORKLOADS}' /mnt/workloads; "
                  f"mount -t tmpfs tmpfs /tmp; [ ! -d '{BUILD}' ] || mount -t tmpfs tmpfs '{BUILD}'; {before}\n"
                  "cd /; exec \"$@\"")
        super().__init__([*prefix, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *options,
                          "sh", "-ec", script, "sh", *command], **kw)

    def ready(self):
        words = self.proc.stdout.readline().split()
        if words != ["ready", "1"]:
            raise Skip(f"no namespaces: {' '.join(words)} {self.proc.stderr.readline() if not words else ''}")
        self.pid = wait_for(lambda: children_of(self.proc.pid), "the inner process")[0]
        return self

    def check_loaded(self, libs):
        """The libraries are loaded from copies, which are removed again."""
        maps = self.maps()
        check(not any(os.path.exists(f"/proc/{self.pid}/root{lib}") for lib in libs), "the container sees the files")
        check(all(f"/{os.path.basename(lib)[:-3]}-" in maps for lib in libs), "a library is not mapped")
        self.check_clean()

    def check_clean(self):
        """Nothing of these tests is left, nor an agent in /tmp, which the container has for itself."""
        left = glob.glob(f"/proc/{self.pid}/root/tmp/*ptbpf*")
        left += [path for d in TEMPORARY for path in glob.glob(f"/proc/{self.pid}/root{d}/*-{os.getpid()}-*")]
        check(not left, f"files are left behind: {left}")


def test_torch_in_a_container(ws, detail):
    """Files that are invisible in the container are copied, and the copies are removed; the results are the same."""
    need_tools()
    command = inside("2", "5")
    detail(same_as_undisturbed(lambda: Contained(*command), "ptrace", copies(ws, 12), 2))


def test_traced_in_a_container(ws, detail):
    """The whole procedure: operators from an agent that was copied in; its threads by their outer pids; then again."""
    need_tools()
    overlay = ("mkdir /tmp/low /tmp/up /tmp/work; "
               "mount -t overlay overlay -o lowerdir=/tmp/low,upperdir=/tmp/up,workdir=/tmp/work /tmp; ")
    with Contained(*inside("2"), before=overlay) as t:
        t.ready()
        trace = attach(ws, t)
        events = slices(trace, "aten::tanh")
        tids = {e["tid"] for e in events}
        check(len(tids) == 2 and tids < {int(x) for x in os.listdir(f"/proc/{t.pid}/task")}, f"threads {tids}")
        t.check_clean()
        again = slices(attach(ws, t), "aten::tanh")  # the agent's file is removed, but the agent is loaded
        check(again and {e["tid"] for e in again} == tids, "nothing the second time")
        agents = {line.split()[5] for line in t.maps().splitlines() if "libptbpf_agent" in line}
        check(len(agents) == 1, f"the agent is there more than once: {agents}")
        check(len([line for line in t.finish() if line.startswith("final")]) == 2, "the target did not end well")
        detail(f"{len(events)} and {len(again)} operators of two threads")


def test_of_another_user(ws, detail):
    """In a user namespace of an unprivileged user, where root's files cannot be created."""
    need_tools()
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    options = ("--user", "--map-root-user")
    if subprocess.run([*prefix, "unshare", *options, "true"], capture_output=True).returncode:
        raise Skip("no user namespaces for users without rights")
    with Contained("sh", "-c", "echo ready $$; exec cat", prefix=prefix, options=options) as t:
        t.ready()
        wait_for(lambda: open(f"/proc/{t.pid}/syscall").read().startswith("0 0x0 "), "cat to read")
        text = load_all(t, "ptrace", copies(ws, 5), 2, 4000)
        check(t.finish() == [""], "the target did not end well")
        detail(text)


def again_as(directory, option):
    return f"mount --bind {directory} {directory}; mount -o remount,bind,{option} {directory}; "


def test_nowhere_to_copy(ws):
    """A directory without permission to map code is skipped; if no directory is left, the injection is refused with the
    reason."""
    need_tools()
    code = "print('ready', __import__('os').getpid(), flush=True); input(); print('end')"
    lib, = copies(ws, 1)
    with Contained(PYTHON, "-c", code, before=again_as("/tmp", "noexec")) as t:
        t.ready()
        load_all(t, "ptrace", [lib], 2)
        check(" /tmp/lib" not in t.maps(), "code of a file system without any")
        check(t.finish() == ["end"], "the target did not end well")
    for option in ("noexec", "ro"):
        with Contained(PYTHON, "-c", code, before="".join(again_as(d, option) for d in TEMPORARY)) as t:
            t.ready()
            refused(t.pid, lib, "not found in the root directory of the process, where no copy")
            t.check_clean()
            check(t.finish() == ["end"], "the target did not end well")
