# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf top: what it shows, its keys and sizes in tmux, its end in whatever way, and that the target goes on."""

import contextlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import time
import unicodedata

import pytest

from support import (AGENT, ENVS, PTBPF, ROOT, WORKLOADS, Tracer, check, children_of, modified_code, require_root, run_ptbpf,
                     shared, soak, wait_for, workload)
from gpu_target import MOCK, need
from test_ps import VALIDATE

KILLS = 100 if soak() else 2
STEP = re.compile(r"step ([0-9.]+) ([0-9.]+)")


def line_with(comment):
    with open(os.path.join(WORKLOADS, "top_work.py"), encoding="utf-8") as f:
        return next(f"top_work.py:{nr}" for nr, line in enumerate(f, 1) if "# " + comment in line)


def steps():
    p = workload("top_work.py")
    p.wait_line("ready")
    return p


class Screen:
    """A shell in tmux. Its first line is a mark that must be visible again when top has ended."""

    count = 0

    def __init__(self, columns=80, lines=24):
        Screen.count += 1
        self.socket = f"ptbpf-top-{os.getpid()}-{Screen.count}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", lines, "env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i")
        self.type("echo the ma''rk")
        self.wait("^the mark$")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.socket, *map(str, words)], stdout=subprocess.PIPE, check=False, text=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.tmux("kill-server")

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def wait(self, pattern, what=None):
        def found():
            text = self.text()
            return re.search(pattern, text, re.M) and text
        try:
            return wait_for(found, what or pattern)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.text()}") from None

    def top(self, *args):
        """Starts it; its exit code is shown as `code N`."""
        self.type(" ".join([PTBPF, "top", *map(str, args), "; echo code $?"]))
        self.wait("(on CPU|self|CPU) .* (line|operator|thread|process) *$", "a table")

    def resize(self, columns, lines):
        self.tmux("resize-window", "-x", columns, "-y", lines)

    def pid(self):
        """Of top: the shell's child."""
        return children_of(int(self.tmux("list-panes", "-F", "#{pane_pid}")))[0]

    def is_restored(self):
        self.wait("^the mark$", "the screen as it was")
        self.type("stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e echo | xargs echo modes")
        self.wait("^modes icanon echo$")


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fits(frame):
    """The document fits its schema."""
    python = os.path.join(ENVS, "consumers", "bin", "python")
    if os.path.exists(python):
        code = VALIDATE.replace("process_list", "top")
        done = subprocess.run([python, "-c", code, os.path.join(ROOT, "tools")], input=json.dumps(frame), capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stderr[-2000:])


def once(p, *args):
    return json.loads("\n".join(run_ptbpf("top", p.pid, "--once", "--json", *args).out))


def test_truth(detail):
    """Steps a second, time on a CPU and in sleep, the line that computes and the one that sleeps: as the program has them of itself."""
    require_root()
    p = shared(steps)
    before = len(p.out)
    frame = once(p, "--interval", "3s")
    own = [tuple(map(float, STEP.match(line).groups())) for line in p.out[before:] if STEP.match(line)]
    # each pair of steps about as far apart as the window is long: on a machine that is busy now and then, one of them has its rate
    rates = [((j - i) / (b[0] - a[0]), (b[1] - a[1]) / (b[0] - a[0])) for (i, a), (j, b) in itertools.combinations(enumerate(own), 2)
             if 0.8 < (b[0] - a[0]) / (frame["window_ns"] / 1e9) < 1.2]
    (steps_least, cpu_least), (steps_most, cpu_most) = map(min, zip(*rates)), map(max, zip(*rates))
    proc = frame["processes"][0]
    rate, on_cpu = proc["steps_per_second"], proc["main_on_cpu_ns"] / frame["window_ns"]
    detail(f"steps/s {rate:.1f}, the program {steps_least:.1f} to {steps_most:.1f}; on CPU {on_cpu:.3f}, {cpu_least:.3f} to {cpu_most:.3f}; "
           f"window {frame['window_ns'] / 1e9:.3f} s")
    check(frame["window_ns"] >= 0.95 * frame["wall_ns"] > 2.5e9, f"{frame['window_ns']} of {frame['wall_ns']} ns were seen")
    check(0.8 * steps_least < rate < 1.25 * steps_most, f"{rate:.2f} steps a second, the program {steps_least:.2f} to {steps_most:.2f}")
    check(cpu_least - 0.1 < on_cpu < cpu_most + 0.1, f"{on_cpu:.3f} on a CPU, the program {cpu_least:.3f} to {cpu_most:.3f}")
    main = next(t for t in frame["threads"] if t["tid"] == p.pid)
    check(main["name"] == "MainThread" and main["sleep_ns"] > 0.7 * 0.02 * rate * frame["window_ns"], str(main))
    rest = sum(v for k, v in main.items() if k.endswith("_ns"))
    check(abs(rest - frame["window_ns"]) < 0.1 * frame["window_ns"], f"the parts of the main thread are {rest} of {frame['window_ns']} ns")
    lines = {row["name"]: row for row in frame["lines"]}
    computes, sleeps = lines[line_with("LINE THAT COMPUTES")], lines[line_with("LINE THAT SLEEPS")]
    check(computes["running_ns"] > 5 * computes["blocked_ns"] and sleeps["blocked_ns"] > 5 * sleeps["running_ns"], f"{computes} {sleeps}")
    fits(frame)
    check(not frame["operators"] and frame["own_cpu_ns"] > 0 and proc["cost_ns"] > 0, "operators without an agent or a request, or no cost")


def test_agent(detail):
    """Operators by the agent, without a request; then the target ends."""
    require_root()
    with workload("top_work.py", env={**os.environ, "LD_PRELOAD": AGENT}) as p:
        p.wait_line("ready")
        ops = {row["name"]: row for row in once(p)["operators"]}
        check(0 < ops["aten::mm"]["self_ns"] <= ops["aten::mm"]["total_ns"] and ops["aten::mm"]["calls"] > 10, str(ops))
        with Tracer("top", p.pid, "--interval", "300ms") as t:
            t.wait_line("^ptbpf top ")
            p.signal(signal.SIGKILL)
            t.expect(0)
            check("the process has ended" in t.text(), t.text())
    detail(f"{ops['aten::mm']['calls']} calls")


def test_gpu(ws):
    """A GPU's busy time, by the agent, on the mock device."""
    need()
    with workload("gpu_work.py", MOCK, f"{ws}/go", "many", 20000, env={**os.environ, "LD_PRELOAD": AGENT}) as p:
        p.wait_line("ready")
        with subprocess.Popen([PTBPF, "top", str(p.pid), "--interval", "500ms", "--max-overhead", "off"], stdout=subprocess.PIPE, text=True) as t:
            lines = iter(t.stdout.readline, "")
            check(any("GPU0 0%" in line for line in lines), "no idle GPU")
            open(f"{ws}/go", "w").close()
            check(any(re.search("GPU0 [1-9]", line) for line in lines), "no busy GPU")
            t.terminate()
        open(f"{ws}/go.leave", "w").close()


def test_plain():
    """Lines where standard output is no terminal: one interval, or one after another."""
    require_root()
    p = shared(steps)
    with run_ptbpf("top", "--pid", p.pid, "--once") as t:
        text = "\n".join(t.out)
        check("\x1b" not in text and f"top_work.py ({p.pid})" in text and re.search(r"^steps [0-9.]+/s", text, re.M) and "MainThread" in text, text)
        check(max(map(width, t.out)) <= 80, text)
    for end in (lambda t: t.terminate(), lambda t: t.stdout.close()):  # the second: nobody reads it any more
        with subprocess.Popen([PTBPF, "top", str(p.pid), "--interval", "300ms"], stdout=subprocess.PIPE, text=True) as t:
            heads = 0
            while heads < 2:
                heads += t.stdout.readline().startswith("ptbpf top ")
            end(t)
        check(t.returncode == 0, f"exit {t.returncode}")


def test_views():
    """Views, sorting, filter, pause, help and the interval, by keys."""
    require_root()
    p = shared(steps)
    with Screen() as s:
        s.top(p.pid)
        s.wait(rf"^ptbpf top .*top_work.py \({p.pid}\)")
        s.wait(r"^steps [0-9.]+/s \([0-9.]+ ms\)")
        s.wait(line_with("LINE THAT COMPUTES"))
        s.keys("3")
        s.wait(r"^ *\*on CPU .* thread *$(.|\n)* MainThread")
        s.keys(">")
        s.wait(r" on CPU +\*queue ")
        s.keys("r", "<")
        s.wait(r"\^on CPU ")
        s.keys("/", "b", "e", "s", "i", "d", "Enter")
        check("MainThread" not in s.wait("filter: besid"), "the filter does not filter")
        s.keys("F4", "Enter", "r")
        s.wait("MainThread")
        s.keys("Tab")
        s.wait(r"steps/s.* process *$")
        s.keys("1")
        s.wait("press o to record operators")
        s.keys("o")
        s.wait(r"^ .*[0-9]+\.[0-9]% .* aten::mm$")
        s.wait(r"of [0-9.]+ m?s, \d+ s ago", "the end of the probes, within the budget")
        s.keys("h")
        s.wait("q Ctrl-C +quit")
        s.keys("h", "d", "5", "0", "0", "m", "s", "Enter")
        s.wait(r"^ptbpf top .* 0\.5 s  ")
        s.keys("Space")
        before = s.wait("PAUSED")
        time.sleep(1.2)
        check(s.text().splitlines()[1:-1] == before.splitlines()[1:-1], "it goes on in the pause")
        s.keys("p")
        wait_for(lambda: s.text().splitlines()[1:4] != before.splitlines()[1:4], "the end of the pause")
        s.keys("q")
        s.wait("^code 0$")
        s.is_restored()


def test_sizes():
    """Sizes while it runs: no line is wrapped or too long, the table remains."""
    require_root()
    p = shared(steps)
    with Screen(100, 30) as s:
        s.top(p.pid)
        s.keys("3")
        for columns, lines in ((40, 15), (200, 50), (80, 24), (20, 5), (60, 8)):
            s.resize(columns, lines)
            wait_for(lambda n=columns: max(map(width, s.text().splitlines())) <= n and re.search(r"\*on", s.text()), f"a screen of {columns} columns")
            wait_for(lambda: len(s.text("-J").splitlines()) <= len(s.text().splitlines()) and s.text().startswith("ptbpf top"), "lines that are not wrapped")
            check(len(s.text().splitlines()) <= lines, s.text())
        s.keys("C-c")
        s.wait("code 0")


def has_ended(pid):
    """It has, though its parent may not have noticed."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_stop():
    """SIGTSTP: the terminal is as it was, and nothing is attached; fg: it goes on. Likewise nothing after a SIGSTOP, which is not announced."""
    require_root()
    p = shared(steps)
    with Screen() as s:
        s.top(p.pid)
        top = s.pid()
        check(len(children_of(top)) == 1 and modified_code(p.pid), "nothing is attached")
        s.keys("C-z")
        s.wait("Stopped")
        check(not children_of(top) and not modified_code(p.pid), "a recording goes on")
        s.is_restored()
        s.type("fg")
        s.wait("^steps [0-9.]+/s")
        recording = children_of(top)[0]
        os.kill(top, signal.SIGSTOP)
        wait_for(lambda: has_ended(recording), "the end of the recording")
        s.type("fg")
        wait_for(lambda: children_of(top) not in ([], [recording]), "another recording")
        s.wait("^steps [0-9.]+/s")


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_signals(sig):
    """It ends, and the recording, with the terminal as it was."""
    require_root()
    p = shared(steps)
    with Screen() as s:
        s.top(p.pid)
        recording = children_of(s.pid())[0]
        os.kill(s.pid(), sig)
        s.wait("^code 0$")
        check(has_ended(recording), "the recording goes on")
        s.is_restored()


def test_target_ends():
    """The target executes another program: a sentence, and the terminal as it was. That it ends: test_agent."""
    require_root()
    with workload("spin.py") as p, Screen() as s:
        p.wait_line("ready")
        s.top(p.pid)
        p.signal(signal.SIGUSR2)
        s.wait("^code 0$")
        s.wait("executed another program")
        s.is_restored()


def test_several():
    """Without a pid: the only process, or all to choose from; with several pids a row for each."""
    require_root()
    p = shared(steps)
    with workload("spin.py") as other:
        other.wait_line("ready")
        text = "\n".join(run_ptbpf("top", "--once", expect=2).err)
        check(f" {p.pid} " in text and f" {other.pid} " in text and "sudo ptbpf top PID" in text, text)
        frame = once(p, "--pid", other.pid)
        check({row["pid"] for row in frame["processes"]} == {p.pid, other.pid}, str(frame["processes"]))
        names = {row["name"].split("/")[-1] for row in frame["lines"]}
        check(line_with("LINE THAT COMPUTES") in names and any(name.startswith("spin.py:") for name in names), str(names))


def test_refused():
    """No such process, one without PyTorch, wrong values, no rights: a sentence each."""
    require_root()
    with subprocess.Popen(["sleep", "1000"]) as sleep:
        check("has not loaded PyTorch" in run_ptbpf("top", sleep.pid, "--once", expect=1).text(), "no sentence")
        sleep.kill()
    check("no such process" in run_ptbpf("top", sleep.pid, "--once", expect=1).text(), "no sentence")
    for args in (("--json",), ("--interval", "10ms"), ("--max-overhead", "x"), ("what",)):
        check("top" in run_ptbpf("top", *args, expect=2).text(), str(args))
    done = subprocess.run([PTBPF, "top", "1", "--once"], user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False)
    check(done.returncode == 1 and "run ptbpf as root" in done.stderr, done.stderr)


def test_kill(detail):
    """SIGKILL at any moment, with probes on operators: the target's results are the same, nothing is left in it, and another one works."""
    require_root()
    with workload("busy.py", 0, 0.002) as p:
        p.wait_line("ready")
        run_ptbpf("top", p.pid, "--once", "--operators")
        for _ in range(KILLS):
            with subprocess.Popen([PTBPF, "top", str(p.pid), "--operators", "--max-overhead", "off", "--interval", "200ms"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as t:
                if random.random() < 0.7:
                    t.stdout.readline()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    t.wait(random.uniform(0, 0.6))
                recording = children_of(t.pid)
                if random.random() < 0.5:
                    for pid in recording:
                        os.kill(pid, signal.SIGKILL)
                t.kill()
            wait_for(lambda pids=tuple(recording): all(map(has_ended, pids)), "the recording to end")
        wait_for(lambda: not modified_code(p.pid), "the target's code to be as in its files")
        check(once(p, "--operators")["operators"], "no operators after all")
        p.signal(signal.SIGTERM)
        check(p.finish() == 0, p.text())
        final = next(line.split() for line in p.out if line.startswith("final "))
    with workload("busy.py", final[1]) as alone:
        check(alone.finish() == 0 and any(line.split() == final for line in alone.out), f"{final[1]} steps gave {final[2]} under ptbpf\n{alone.text()}")
    detail(f"{KILLS} kills, {final[1]} steps, equal")
