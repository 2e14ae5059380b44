# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Windows that are opened by what happens in a job: each kind of event opens one, with the program's own figures, and a job in which nothing
happens has none."""

import os
import re
import signal
import subprocess
import time

import pytest

from support import Process, PYTHON, Tracer, WORKLOADS, check, children_of, load_trace, modified_code, report_json, run_ptbpf, shared, soak, wait_for
from test_flight import compare, more_steps
from test_sample import links_of, log_of, wait_logged

EVERY = "slow=10x,grows=256MiB,annotation=evaluate,hang=3s"
HEALTHY_SECONDS = 1800 if soak() else 4


class Job(Process):
    """event_work.py: does what it is asked for in its next step."""

    def __init__(self, *name):
        super().__init__([PYTHON, "-u", f"{WORKLOADS}/event_work.py", "50", *name], stdin=subprocess.PIPE)
        self.wait_line("^step")

    def request(self, *words):
        since = len(self.out)
        self.send(*words)
        return since

    def do(self, *words):
        """What the step took, in seconds."""
        since = self.request(*words)
        return float(self.wait_news("^done .* ([0-9.]+)$", since=since)[1])


@pytest.fixture
def job():
    return shared(Job)


def watch(ws, job, *options, rules=EVERY):
    t = Tracer("sample", "--pid", job.pid, "--dir", ws + "/w", "--schedule", "wait=1h,active=300ms", "--open-on", rules, *options)
    t.wait_line("following the steps of 1 process", "the watch", t.err)
    job.wait_news("^step", 3)  # thirty steps and more
    return t


def provoke(ws, job, kind, *words, text=""):
    """(The window that a request of the job opens, for an event with that text, what the step of the request took.) While the window before
    is being recorded nothing is an event, so it is requested again."""
    known = {w["window"] for w in log_of(ws + "/w")}

    def window():
        return next((w for w in log_of(ws + "/w") if w["window"] not in known and w["trigger"] == kind and
                     text in w["event"]["text"]), None)

    while True:
        took = job.do(*words)
        for _ in range(3):
            job.wait_news("^step", 3)
            if window():
                return window(), took


def end(t, job, *codes):
    t.signal(signal.SIGTERM)
    t.expect(*codes)
    check(not children_of(t.pid) and not modified_code(job.pid), "something is left in the job")


def threads_of(path):
    """{tid: [states, function, function, ...]}, of Python's functions, and {tid: [function, ...]} of C++'s."""
    found, native, last = {}, {}, None
    with open(path, encoding="utf-8") as f:
        for line in f.read().splitlines():
            head = re.match(r"thread (\d+) .*?: (.*)", line)
            if head:
                tid = int(head[1])
                last = found.setdefault(tid, [head[2]])
            elif line == "  C++:":
                last = native.setdefault(tid, [])
            elif line.startswith("    "):
                last.append(line.strip())
    return found, native


def test_events(ws, job, detail):
    """One after the other, in one job."""
    with watch(ws, job, "--open-interval", "0s", "--traces", "none") as t:
        w, took = provoke(ws, job, "slow", "slow", 2)
        found = re.fullmatch(r"step of ([0-9.]+) s against a median of ([0-9.]+) m?s", w["event"]["text"])
        check(found and abs(float(found[1]) - took) < 0.1, f"the program says {took}: {w}")
        check(w["event"]["pid"] == job.pid and w["pids"] == [job.pid] and w["exit"] == 0, f"window: {w}")
        meta = report_json(w["capture"])["capture"]
        check(meta["trigger"] == "slow" and meta["event"] == f"pid {job.pid}: {w['event']['text']}", f"META: {meta}")
        detail(w["event"]["text"])

        job.do("annotate", "evaluate-not")
        w, _ = provoke(ws, job, "annotation", "annotate", "evaluate")
        check(w["event"]["text"] == "'evaluate' began", f"window: {w}")

        w, _ = provoke(ws, job, "grows", "grow", 300)
        after, before = map(float, re.findall(r"([0-9.]+) MiB", w["event"]["text"]))
        check(256 <= after - before < 1000, f"grown by 300 MiB, or by as much again: {w}")
        detail(w["event"]["text"])

        since = job.request("hang")
        job.wait_news("^hangs", since=since)
        w = wait_logged(ws + "/w", lambda w: w["trigger"] == "hang", "a window for the hang")
        done = run_ptbpf("export", w["capture"], "--format", "stacks", "--metric", "sampled_wait_time", "-o", ws + "/stacks.txt")
        with open(ws + "/stacks.txt", encoding="utf-8") as f:
            stacks = f.read()
        check("event_work.py" in stacks and "get" in stacks, f"where it hangs: {stacks} {done.text()}")
        check(w["threads"] == w["capture"][:-4] + ".threads.txt", f"window: {w}")
        python, native = threads_of(w["threads"])
        main_thread = python[job.pid]
        check(main_thread[0].startswith("blocked") and [re.match(r"\S+", f)[0] for f in main_thread[-2:]] == ["main", "<module>"],
              f"the main thread: {main_thread}")
        check(any(re.fullmatch(r"Queue.get \(queue.py:\d+\)|get \(queue.py:\d+\)", f) for f in main_thread), f"it waits for a request: {main_thread}")
        check(python.keys() == native.keys() and "operator" not in main_thread[0], f"no operator is open: {main_thread}")
        check(any(f.startswith("_PyEval_EvalFrameDefault") for f in native[job.pid]), f"its C++ stack: {native[job.pid]}")
        detail("; ".join(main_thread))
        job.request("go")
        end(t, job, 0)


def test_open_operators(ws, job, detail):
    """A job that hangs inside an operator: the operator, and where it stands in C++, without a probe having been there when it began."""
    os.mkfifo(ws + "/fifo")
    with watch(ws, job, "--open-interval", "0s", "--traces", "none", rules="hang=3s") as t:
        since = job.request("read", ws + "/fifo")
        job.wait_news("^hangs", since=since)
        w = wait_logged(ws + "/w", lambda w: w["trigger"] == "hang", "a window for the hang")
        python, native = threads_of(w["threads"])
        check(python[job.pid][0] == "blocked 100 %; in operator at::_ops::from_file", f"the main thread: {python[job.pid]}")
        frames = [f.split(" (")[0] for f in native[job.pid]]
        order = [frames.index(f) for f in ("at::native::from_file", "at::_ops::from_file::call", "_PyEval_EvalFrameDefault")]
        check(order == sorted(order) and frames[-1] != "...", f"its C++ stack: {frames}")
        with open(ws + "/fifo", "wb"):
            job.wait_news("^done read", since=since)
        end(t, job, 0)
        detail("; ".join(native[job.pid][:order[1] + 1]))


def test_stacks_of_one_moment(ws, job, detail):
    """The Python and the C++ functions of a thread are of the same moment, in a hang that goes from one place to another."""
    with watch(ws, job, "--open-interval", "0s", "--traces", "none", rules="hang=3s") as t:
        since = job.request("sway")
        job.wait_news("^hangs", since=since)
        w = wait_logged(ws + "/w", lambda w: w["trigger"] == "hang", "a window for the hang")
        python, native = threads_of(w["threads"])
        places = {"sleeps_here": "nanosleep", "waits_there": "select"}
        at = [f.split(" ")[0] for f in python[job.pid] if f.split(" ")[0] in places]
        check(len(at) == 1, f"the main thread: {python[job.pid]}")
        check(places[at[0]] in native[job.pid][0], f"{python[job.pid][1]}, but {native[job.pid][0]}")
        job.request("go")
        job.wait_news("^done sway", since=since)
        end(t, job, 0)
        detail(f"{at[0]}: {native[job.pid][0]}")


def notes_of(path):
    with open(path, encoding="utf-8") as f:
        return [tuple(map(int, line.split())) for line in f if line.endswith("\n")]


class NotedJob(Job):
    """It writes down its steps: what test_flight.py compares with."""

    def __init__(self, ws):
        self.notes = ws + "/notes"
        super().__init__("pt_flight", self.notes)

    def steps(self):
        return notes_of(self.notes)


HELD = 2  # seconds


def test_flight(ws, detail):
    """--flight: the window begins before the event, with all that the program did then; then again; nothing is left."""
    with NotedJob(ws) as job, watch(ws, job, "--open-interval", "0s", "--traces", "json", "--flight", f"{HELD}s", rules="slow=10x") as t:
        for nr in (1, 2):
            wait_for(lambda n=nr: sum("are held" in line for line in t.err) == n, "what is held")
            more_steps(job, 80)
            w, took = provoke(ws, job, "slow", "slow", 1)
            n, seconds = compare(job, w["trace"])
            check(w["exit"] == 0 and HELD + 0.3 <= seconds < HELD + 5 and w["late_seconds"] == 0, f"window of {seconds} s: {w}")
            meta = load_trace(w["trace"])["ptbpf"]["capture"]
            check(re.fullmatch(r"[0-9.]+ s before the event 'slow'", meta["flight"]) and meta["trigger"] == "slow", f"META: {meta}")
            window = load_trace(w["trace"])["ptbpf"]["window"]
            rests = [b for _, b, e in job.steps() if b > window["begin_unix_ns"]]
            check(max(y - x for x, y in zip(rests, rests[1:])) > 0.9e9 * took, "the slow step itself is not in it")
            detail(f"{n} steps, {seconds:.2f} s; {meta['flight']}")
        end(t, job, 0)
    check(sorted(f.rsplit(".", 1)[1] for f in os.listdir(ws + "/w")) == ["json", "json", "jsonl", "ptb", "ptb"], f"files: {os.listdir(ws + '/w')}")


@pytest.mark.parametrize("last, cnt", [("die", 1), pytest.param("kill", 0, marks=pytest.mark.soak)])
def test_flight_of_the_dead(ws, last, cnt, detail):
    """A job that ends with an allocation that is refused: the window has its last seconds. Of one that is killed there is none."""
    with NotedJob(ws) as job, watch(ws, job, "--traces", "json", "--flight", f"{HELD}s", rules="oom") as t:
        t.wait_line("are held", "what is held", t.err)
        more_steps(job, 80)
        if cnt:
            job.request("die", 1 << 50)
        else:
            job.signal(signal.SIGKILL)
        t.expect(*((0, 3) if cnt else (1,)))
        log = log_of(ws + "/w")
        check(len(log) == cnt, f"windows: {log}")
        check(len([f for f in os.listdir(ws + "/w") if f.startswith(".") or f.endswith(".ptb")]) == cnt, f"files: {os.listdir(ws + '/w')}")
    if log:
        check(log[0]["trigger"] == "oom" and log[0]["event"]["text"].startswith("CPU: 1.00 PiB"), f"window: {log}")
        n, seconds = compare(job, log[0]["trace"])
        check(seconds > HELD - 0.3, f"{seconds} s")
        detail(f"{n} steps of the last {seconds:.2f} s")


def test_oom(ws, job, detail):
    """A request for memory that is refused, by the CPU's allocator and by a GPU's; steps, annotations and what else happens are none."""
    with watch(ws, job, "--open-interval", "0s", rules="oom") as t:
        job.do("annotate", "evaluate")
        w, _ = provoke(ws, job, "oom", "oom", 1 << 50)
        check(any(f"tried to allocate {1 << 50} bytes" in line for line in job.out), f"what the program says: {job.out[-20:]}")
        check(w["event"] == {"pid": job.pid, "text": "CPU: 1.00 PiB could not be allocated", "ignored_before": 0} and w["exit"] == 0, f"window: {w}")
        check(report_json(w["capture"])["capture"]["trigger"] == "oom", "META")
        w, _ = provoke(ws, job, "oom", "report", 5 << 29, 70 << 30, 77 << 30, 3, text="cuda")
        check(w["event"]["text"] == "cuda:3: 2.50 GiB could not be allocated; PyTorch has 70.00 GiB in use of 77.00 GiB reserved there", f"window: {w}")
        detail(w["event"]["text"])
        check({x["trigger"] for x in log_of(ws + "/w")} == {"oom"}, "other windows")
        end(t, job, 0)


@pytest.mark.soak
def test_interval(ws, job):
    """Between two such windows is the interval; the line of the next one says how many events there were meanwhile."""
    with watch(ws, job, "--open-interval", "10s", rules="annotation=evaluate") as t:
        began = time.monotonic()
        provoke(ws, job, "annotation", "annotate", "evaluate")
        while len(log_of(ws + "/w")) < 2:
            job.do("annotate", "evaluate")
            job.wait_news("^step")
        check(time.monotonic() - began >= 10, "the second window came too early")
        w = log_of(ws + "/w")[1]
        check(w["event"]["ignored_before"] > 0, f"window: {w}")
        end(t, job, 0)


def test_one_kind_silences_no_other(ws, job):
    """An event of another kind opens a window of its own; a hang that is reported in the interval of its kind, when that has passed."""
    interval = 20  # far longer than a window takes on a busy machine
    with watch(ws, job, "--open-interval", f"{interval}s", "--traces", "none", rules="annotation=evaluate,hang=3s") as t:
        provoke(ws, job, "annotation", "annotate", "evaluate")
        for n in (1, 2):
            since = job.request("hang")
            job.wait_news("^hangs", since=since)
            wait_for(lambda k=n: sum(w["trigger"] == "hang" for w in log_of(ws + "/w")) == k, "a window for the hang")
            since = job.request("go")
            job.wait_news("^step", 3, since=since)
        first, hang, again = log_of(ws + "/w")
        check(first["trigger"] == "annotation" and hang["begin_unix_ns"] - first["begin_unix_ns"] < (interval + first["late_seconds"]) * 1e9, f"windows: {first}, {hang}")
        check(again["begin_unix_ns"] - hang["begin_unix_ns"] > (interval - 0.1) * 1e9, f"windows: {hang}, {again}")
        check(again["event"]["ignored_before"] > 0, f"window: {again}")
        said = [line for line in t.err if "no window is opened" in line and "hang" in line]
        check(len(said) == 1 and f"pid {job.pid}: hang" in said[0] and "--open-interval" in said[0], f"what the log says: {said}")
        end(t, job, 0)


def test_one_process_takes_no_other_ones_events(ws, job):
    """A process whose events open windows leaves those of another one their own; what it has beyond its interval is counted, in one line."""
    with Job() as greedy:
        with Tracer("sample", "--pid", f"{greedy.pid},{job.pid}", "--dir", ws + "/w", "--schedule", "none", "--open-on", "annotation=evaluate",
                    "--open-interval", "1h") as t:
            t.wait_line("following the steps of 2 processes", "the watch", t.err)
            w, _ = provoke(ws, greedy, "annotation", "annotate", "evaluate")
            check(w["event"]["pid"] == greedy.pid, f"window: {w}")
            for _ in range(3):
                greedy.do("annotate", "evaluate")
            w, _ = provoke(ws, job, "annotation", "annotate", "evaluate")
            check(w["event"]["pid"] == job.pid and w["event"]["ignored_before"] > 0, f"window: {w}")
            end(t, job, 0)
        said = [line for line in t.err if "no window is opened" in line]
        of = [next((p.pid for p in (greedy, job) if f"pid {p.pid}:" in line), None) for line in said]
        # provoke() may have asked the other one twice
        check(of.count(greedy.pid) == 1 and of.count(job.pid) == len(of) - 1 <= 1, f"what the log says: {said}")


LOOP = "from torch.profiler import record_function\nprint('runs', flush=True)\nwhile True:\n    with record_function('x'):\n        pass"


def test_costly(ws, job, detail):
    """A loop of annotations is not followed, so that it does not spend what --max-overhead leaves to the others for ever."""
    with Process([PYTHON, "-u", "-c", LOOP]) as loop:
        loop.wait_line("^runs")
        with Tracer("sample", "--pid", f"{loop.pid},{job.pid}", "--dir", ws + "/w", "--schedule", "none", "--open-on", "annotation=evaluate",
                    "--open-interval", "0s", "--max-overhead", "5%") as t:
            detail(t.wait_line(f"pid {loop.pid}: --open-on does not follow it any more", "the end of the costly one", t.err).string)
            wait_for(lambda: not modified_code(loop.pid), "its probes to go")
            loop.signal(signal.SIGKILL)
            loop.reap()
            w, _ = provoke(ws, job, "annotation", "annotate", "evaluate")
            check(w["event"]["pid"] == job.pid and w["pids"] == [job.pid], f"window: {w}")
            end(t, job, 0)


def test_healthy(ws, job, detail):
    """Nothing happens: no window. What is attached meanwhile are a few probes, and they go with the watch, also when it is killed."""
    with watch(ws, job) as t:
        end_at = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < end_at:
            job.wait_news("^step")
        check(not log_of(ws + "/w"), f"windows: {log_of(ws + '/w')}")
        watcher, = children_of(t.pid)
        sites = sum(modified_code(job.pid).values())
        check(0 < sites < 20 and links_of(watcher), f"{sites} probes")
        detail(f"{sites} probes, {HEALTHY_SECONDS} s")
        t.signal(signal.SIGKILL)
        t.finish()
        wait_for(lambda: not modified_code(job.pid), "the probes to go")


def test_processes_come_and_go(ws):
    """A job that is started later is followed, too, and the watch ends with the last one."""
    name = f"pt_{os.getpid()}"
    with Tracer("sample", "--comm", name, "--dir", ws + "/w", "--schedule", "none", "--open-on", "annotation=evaluate",
                "--open-interval", "0s") as t:
        with Job(name) as first:
            t.wait_line("following the steps of 1 process", "the watch", t.err)
            with Job(name) as second:
                t.wait_line("following the steps of 2 processes", "the second job", t.err)
                w, _ = provoke(ws, second, "annotation", "annotate", "evaluate")
                check(w["event"]["pid"] == second.pid and set(w["pids"]) == {first.pid, second.pid}, f"window: {w}")
        wait_for(lambda: not children_of(t.pid), "the end of the watch")
        check(t.alive(), "the end of ptbpf")
        t.signal(signal.SIGTERM)
        t.expect(0)


@pytest.mark.parametrize("args, text", [
    (["--open-on", "slow=2x,fast=3x"], "fast=3x"),
    (["--open-on", "slow=0.5x"], "slow=0.5x"),
    (["--open-on", "oom=1GiB"], "oom=1GiB"),
    (["--flight", "5s"], "--flight needs --open-on"),
    (["--open-on", "oom", "--flight-buffer", "64MiB"], "--flight-buffer needs --flight"),
    (["--open-on", "oom", "--flight", "5s", "--max-overhead", "1%"], "excludes --max-overhead"),
    (["--open-on", "oom", "--flight", "5s", "--sample-stacks", "99"], "excludes --sample-stacks"),
    (["--open-interval", "5s"], "--open-on"),
    (["--open-on", "slow=2x", "--no-steps"], "--no-steps"),
])
def test_usage(ws, args, text):
    done = run_ptbpf("sample", "--pid", "1", "--dir", ws + "/w", *args, expect=(2,))
    check(text in "\n".join(done.err), f"the message lacks {text!r}\n{done.text()}")
