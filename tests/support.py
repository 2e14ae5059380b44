# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions of all system tests: starting ptbpf and targets, waiting for conditions, reading traces.

Every wait has a deadline and a condition; nothing here sleeps to let something happen. The fixtures of pytest are in
conftest.py. Programs without pytest (tools/bench, tools/kernels/modes.py) use this file, too."""

import contextlib
import ctypes
import glob
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKLOADS = os.path.join(ROOT, "tests", "workloads")
PTBPF = os.environ.get("PTBPF", os.path.join(ROOT, "build", "ptbpf"))
BUILD = os.path.dirname(os.path.realpath(PTBPF))
AGENT = os.path.join(BUILD, "libptbpf_agent.so")
NO_FREE = os.path.join(BUILD, "tests", "workloads", "libno_free.so")
ENVS = os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs")
DEADLINE = float(os.environ.get("PTBPF_DEADLINE", "180"))
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)
RUN_MARK = "PTBPF_TEST_RUN"  # in the environment of all processes that a run of pytest starts: conftest.py kills those that are left
# Both signals end a test run by an exception, so that what it started is ended. A background job of a shell ignores SIGINT, and
# its children would, too.
for sig in (signal.SIGINT, signal.SIGTERM):
    signal.signal(sig, signal.default_int_handler)


def torch_versions():
    """{"MAIN": version, "OLD": version} of tools/env.sh."""
    with open(os.path.join(ROOT, "tools", "env.sh"), encoding="utf-8") as f:
        return dict(re.findall(r"^PTBPF_(MAIN|OLD)_TORCH=(\S+)", f.read(), re.MULTILINE))


def venv_python(version):
    """The interpreter of the environment with that PyTorch (tools/setup.sh)."""
    return os.path.join(ENVS, f"torch-{version}", "bin", "python")


def main_python():
    python = venv_python(torch_versions()["MAIN"])
    return python if os.path.exists(python) else sys.executable


PYTHON = os.environ.get("PTBPF_PYTHON") or main_python()


try:
    from pytest import skip
    Skip = skip.Exception
except ImportError:
    class Skip(Exception):
        """The machine lacks what the test needs."""


class Failure(AssertionError):
    pass


def check(condition, text):
    """An assertion that shows only the text."""
    __tracebackhide__ = True
    if not condition:
        raise Failure(text)


def say(kind, name, text=""):
    """Prints the result of one of many comparisons within a test; tools/test_summary.py counts these lines."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    print(f"{kind} {name}" + (f": {first}" if first else ""), flush=True)
    for line in text.strip().splitlines()[1:]:
        print("    " + line, flush=True)


def wait_for(condition, what, deadline=None):
    """Polls until condition() is true and returns its value."""
    limit = time.monotonic() + (deadline or DEADLINE)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise Failure(f"not within {deadline or DEADLINE:.0f} s: {what}")
        time.sleep(0.02)


def end_with_parent():
    """Runs in a child: the kernel kills it when the thread that started it ends, even by SIGKILL."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def processes_of_run():
    """Processes that this run of pytest started, also those whose parents have ended."""
    mark, found = f"{RUN_MARK}={os.getpid()}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
            if mark in f.read().split(b"\0"):
                found.append(int(pid))
    return found


# Workloads whose tests do not ask how they were started.
FORKED = ("spin.py", "busy.py", "train_loop.py", "scripted.py", "step_loop.py")


class Forker:
    """tests/forker.py, from the first forked target of a file of tests to its end."""

    running, lock = None, threading.Lock()

    def __init__(self):
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.proc = subprocess.Popen([PYTHON, "-u", os.path.join(ROOT, "tests", "forker.py"), str(other.fileno())], pass_fds=[other.fileno()],
                                         env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
                                         stdin=subprocess.DEVNULL)  # ends with the socket, not with the thread that starts it

    def fork(self, words, fds):
        """The pid of the target, which is a child of this process."""
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            socket.send_fds(self.socket, [json.dumps(words).encode()], fds)
            pid = int(self.socket.recv(16) or 0)
            wait_for(lambda: pid in children_of(os.getpid()), "the target to be forked")
        finally:
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0)
        return pid

    @classmethod
    def get(cls):
        if not cls.running:
            cls.running = cls()
        return cls.running

    @classmethod
    def end(cls):
        if cls.running:
            cls.running.socket.close()
            cls.running.proc.kill()
            cls.running.proc.wait()
            cls.running = None


class ForkedPopen(subprocess.Popen):
    """As Popen, of one of FORKED in the environment of the tests."""

    def _execute_child(self, args, *rest):
        ends = rest[9:15]  # of the pipes: stdin's, stdout's, stderr's, each where it is read and where it is written
        with Forker.lock:
            self.pid = Forker.get().fork(args[2:], [end if end != -1 else fd for fd, end in enumerate((ends[0], ends[3], ends[5]))])
        self._child_created = True
        self._close_pipe_fds(*ends)


class Child:
    """A process (self.proc, self.pid) that is killed at the end of the with block, or when the tests end before."""

    def __init__(self, argv, env=None, **kw):
        """env: variables beside those of the tests; other arguments are Popen's."""
        start = ForkedPopen if not env and argv[0] == PYTHON and argv[1:] and os.path.basename(argv[2]) in FORKED else subprocess.Popen
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        self.argv = argv
        self.proc = start(argv, env=env, text=True, preexec_fn=end_with_parent, **kw)
        self.pid = self.proc.pid

    def send(self, *words):
        """A line on its stdin, which must be a pipe."""
        self.proc.stdin.write(" ".join(map(str, words)) + "\n")
        self.proc.stdin.flush()

    def reap(self):
        self.proc.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.reap()
        for s in filter(None, (self.proc.stdin, self.proc.stdout, self.proc.stderr)):
            with contextlib.suppress(OSError):
                s.close()


class Process(Child):
    """A child whose output is read as it comes."""

    def __init__(self, argv, stdin=subprocess.DEVNULL, **kw):
        self.out, self.err = [], []
        super().__init__(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace", **kw)
        self.readers = []
        for stream, lines in ((self.proc.stdout, self.out), (self.proc.stderr, self.err)):
            t = threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            t.start()
            self.readers.append(t)

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, what=None, stream=None, deadline=None):
        """The first line that matches, also one printed before, on stdout by default; fails when the process ends without it."""
        return self._wait_hit(pattern, 0, 1, what, self.out if stream is None else stream, deadline)

    def wait_news(self, pattern, count=1, since=None):
        """The `count`th matching line on stdout after the first `since` lines (default: after those printed so far). Of a target
        that prints a line for each round, the second new line shows that a whole round came after an event."""
        return self._wait_hit(pattern, len(self.out) if since is None else since, count, None, self.out, None)

    def _wait_hit(self, pattern, since, count, what, lines, deadline):
        wanted = re.compile(pattern)

        def found():
            dead = self.proc.poll() is not None
            if dead:
                for t in self.readers:
                    t.join(5)
            hits = [m for m in map(wanted.search, lines[since:]) if m]
            if len(hits) < count and dead:
                raise Failure(f"{self.name()} ended with {self.proc.returncode} before it printed {pattern!r}\n{self.text()}")
            return hits[count - 1] if len(hits) >= count else None

        try:
            return wait_for(found, what or f"{self.name()} to print {pattern!r}", deadline)
        except Failure as e:
            raise Failure(f"{e}\n{self.text()}\n{self.kernel_stack()}") from None

    def name(self):
        return " ".join(map(str, self.argv))[:160]

    def text(self):
        return "\n".join(self.out[-15:] + self.err[-25:])

    def signal(self, sig):
        self.proc.send_signal(sig)

    def finish(self, deadline=None):
        """The exit status, after the process has ended by itself."""
        try:
            code = self.proc.wait(deadline or DEADLINE)
        except subprocess.TimeoutExpired:
            raise Failure(f"still running: {self.name()}\n{self.text()}\n{self.kernel_stack()}") from None
        for t in self.readers:
            t.join(5)
        return code

    def kernel_stack(self):
        """Where the process waits in the kernel, for a message about one that does not end."""
        with contextlib.suppress(OSError), open(f"/proc/{self.proc.pid}/stack", encoding="utf-8") as f:
            return f.read()
        return ""

    def alive(self):
        return self.proc.poll() is None

    def reap(self):
        super().reap()
        for t in self.readers:
            t.join(5)


def unlimited(args):
    """What `ptbpf sample` is started with, so that its default of --max-overhead cuts no window short: schedules of tests are dense."""
    files = [args[i + 1] for i, arg in enumerate(args) if arg == "--config"]
    words = "\n".join([*args, *(pathlib.Path(f).read_text(encoding="utf-8", errors="replace") for f in files if os.path.isfile(f))])
    return ["--max-overhead", "off"] if args[:1] == ["sample"] and not re.search("max-overhead|flight|help", words) else []


class Tracer(Process):
    """ptbpf with its arguments."""

    def __init__(self, *args, **kw):
        args = [*map(str, args)]
        super().__init__([PTBPF, *args, *unlimited(args)], **kw)

    def wait_attached(self, deadline=None):
        self.wait_line(r"attached", "the window to begin", self.err, deadline)
        return self

    def stop(self, expect=(0,)):
        """Ends the window by SIGINT, like Ctrl-C."""
        if self.alive():
            self.signal(signal.SIGINT)
        return self.expect(*expect)

    def expect(self, *codes):
        code = self.finish()
        check(code in codes, f"exit {code}, expected {codes}: {self.name()}\n{self.text()}")
        return code


def run_ptbpf(*args, expect=(0,), **kw):
    """Runs ptbpf to its end; returns the finished process."""
    with Tracer(*args, **kw) as t:
        t.expect(*([expect] if isinstance(expect, int) else expect))
        return t


@contextlib.contextmanager
def workspace():
    path = tempfile.mkdtemp(prefix="ptbpf-test-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def case_captures(folder, case):
    """Writes the captures of tests/cases/CASE.case into the folder: a.ptb, ..."""
    subprocess.run([sys.executable, os.path.join(ROOT, "tests", "cases", "run.py"), "--make", folder, case], check=True,
                   env={**os.environ, "PTBPF": PTBPF})


def workload(name, *args, python=None, wrap=(), env=None, **kw):
    """Starts tests/workloads/NAME under the leg's Python; wait for its lines with wait_line()."""
    path = os.path.join(WORKLOADS, name)
    return Process([*wrap, python or PYTHON, "-u", path, *map(str, args)], env=env, **kw)


SHARED = {}


def shared(start, *args):
    """start(*args), a Child, one for all tests of a file, since loading PyTorch takes seconds. Tests must leave it unchanged.
    It is ended after a test that failed and after the last one (conftest.py)."""
    child = SHARED.get((start, args))
    if not child or child.proc.poll() is not None:
        end_shared()
        child = SHARED[start, args] = start(*args)
    return child


def end_shared():
    while SHARED:
        SHARED.popitem()[1].__exit__()


class CommandTarget(Child):
    """A process that reads commands from stdin, one a line, and answers each with a line that starts with `answer`."""

    def __init__(self, argv, stderr=subprocess.DEVNULL, **kw):
        super().__init__(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, **kw)

    def line(self, start):
        """The rest of the next line that starts so."""
        for line in self.proc.stdout:
            if line.startswith(start):
                return line[len(start):].strip()
        raise Failure("the target ended")

    def answer(self):
        """Of what send() sent."""
        return self.line("answer")

    def ask(self, *words):
        self.send(*words)
        return self.answer()


def load_trace(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return json.load(f)


def loss_counters(document):
    """Counters of the loss account by name, of a loaded Chrome trace."""
    return {c["name"]: c["value"] for c in document["ptbpf"]["loss"]["counters"]}


def slices(document, name=None, cat=None, pid=None):
    return [e for e in document["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")
            and (name is None or e["name"] == name) and (cat is None or e["cat"] == cat)
            and (pid is None or e["pid"] == pid)]


def report_json(capture):
    """`ptbpf report --json`; an incomplete capture has a report, too."""
    done = run_ptbpf("report", capture, "--json", expect=(0, 3))
    return json.loads("\n".join(done.out))


def torch_violations(path):
    """What torch's own validator finds in a trace; [] where this torch has none."""
    done = subprocess.run([PYTHON, "-c", "import sys\ntry: from torch.profiler._trace_validator import validate_trace\n"
                           "except ImportError: sys.exit()\nfor v in validate_trace(sys.argv[1])[1]: print(v)", path],
                          check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def require_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def bounding_set(capabilities):
    """These and no others, for setpriv."""
    return "-all" + "".join(",+" + c.lower().removeprefix("cap_") for c in capabilities)


def soak():
    """Whether this is a run of hours (tools/test.sh --soak)."""
    return bool(os.environ.get("PTBPF_SOAK"))


def every(items, fn, at_once=4):
    """The results of fn for each item, some at a time, since a tracer mostly waits for the kernel."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(fn, items))


def modified_code(pid):
    """{path: bytes of its mapped code that differ from the file}: probes that are left in the process's libraries."""
    found = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ [1-9]\d* +(/.*)", line)
            if not m:
                continue
            begin, end = int(m[1], 16), int(m[2], 16)
            with open(f"/proc/{pid}/map_files/{m[1]}-{m[2]}", "rb") as file:
                file.seek(int(m[3], 16))
                mem.seek(begin)
                for _ in range(begin, end, 1 << 20):
                    a, b = mem.read(min(end - mem.tell(), 1 << 20)), file.read(1 << 20)
                    if a[:len(b)] != b[:len(a)]:
                        found[m[4]] = found.get(m[4], 0) + sum(x != y for x, y in zip(a, b))
    return found


def children_of(pid):
    out = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as f:
            out += [int(p) for p in f.read().split()]
    return out
