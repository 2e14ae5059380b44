# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""GPU activities on a real GPU, compared with torch.profiler; prints a table of verdicts. tools/gpu_check.sh finds the Python
and the built files and starts it.

  gpu_check.py --agent LIBRARY --dump LIBRARY [--ptbpf COMMAND] [--keep DIR]

Two methods: through eBPF (`ptbpf record`, `ptbpf attach`) where the machine allows it, and from inside the process
(tests/workloads/agent_dump.c) anywhere. Exit: 0 all passed, 1 something failed, 2 no GPU.
"""

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gpu_check_acts as acts  # noqa: E402

STEPS = 5
GPU, SYNC, GRAPHS = 1 << 4, 1 << 5, 1 << 6  # requests: 1 << enum ptb_agent_site
GPU_ON = 0x10
LAUNCHES = 20000  # in one measurement
SLOW = 120


class Table:
    def __init__(self):
        self.rows = []

    def add(self, verdict, row, text=""):
        self.rows.append((verdict, row, text))
        print(f"{verdict:4} {row:44} {text}", flush=True)

    def judge(self, row, figure, problem):
        self.add("FAIL" if problem else "PASS", row, f"{figure}; {problem}" if problem else figure)

    def cases(self, rows, verdict, text):
        for row in rows:
            self.add(verdict, row, text)

    def failed(self):
        return sum(verdict == "FAIL" for verdict, _, _ in self.rows)


class Worker:
    """gpu_check_work.py serve, with the agent or without it."""

    def __init__(self, args, agent):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", KINETO_LOG_LEVEL="99")
        if agent:
            env.update(LD_PRELOAD=args.agent, CUDA_INJECTION64_PATH=args.agent)
        self.proc = subprocess.Popen([sys.executable, "-u", os.path.join(HERE, "gpu_check_work.py"), "serve"], text=True, env=env,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr)
        self.facts = self.hear()

    def hear(self):
        for line in self.proc.stdout:
            if line.startswith("answer "):
                return json.loads(line[7:])
        raise RuntimeError(f"the process ended with {self.proc.wait()}")

    def ask(self, *words):
        self.proc.stdin.write(" ".join(map(str, words)) + "\n")
        self.proc.stdin.flush()
        return self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.stdin.close()
        try:
            self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()


class Attached:
    """ptbpf attach while the block runs."""

    def __init__(self, args, pid, trace, *options):
        self.path = trace
        self.proc = subprocess.Popen([*args.ptbpf, "attach", "--pid", str(pid), "-o", trace + ".ptb", "--trace", trace, "--no-table",
                                      *options], stderr=subprocess.PIPE, text=True)
        self.err = []

    def __enter__(self):
        for line in self.proc.stderr:
            self.err.append(line)
            if "attached" in line:
                return self
        raise RuntimeError(f"ptbpf attach ended with {self.proc.wait()}: {''.join(self.err[-3:])}")

    def __exit__(self, *exc):
        self.proc.send_signal(signal.SIGINT)
        self.err += list(self.proc.stderr)
        self.code = self.proc.wait(SLOW)


def compare_all(table, method, truth, got, ops):
    table.add("FAIL" if got.problems else "PASS", f"{method}: nothing lost", "; ".join(got.problems[:3]) or f"{got.clocks or 'no'} clock pairs read"
              if not ops else "; ".join(got.problems[:3]))
    for kind in ("kernel", "memcpy", "memset"):
        table.judge(f"{method}: {kind}, names, bytes, counts", *acts.same_counts(truth, got, kind))
    table.judge(f"{method}: order on each stream", *acts.same_order(truth, got))
    table.judge(f"{method}: durations", *acts.durations(truth, got))
    table.judge(f"{method}: launched by the same calls", *acts.linked(truth, got))
    if ops:
        table.judge(f"{method}: kernels belong to the same operators", *acts.same_ops(truth, got))
        table.judge(f"{method}: arrows have both ends", *acts.whole_flows(got))
        theirs, mine = ([d.get("name") for d in side.devices] for side in (truth, got))
        table.judge(f"{method}: device properties", str(mine), None if theirs == mine else f"torch has {theirs}")


def inside(args, table, truth, folder):
    """The agent alone; its chunks are read inside its process."""
    path = os.path.join(folder, "chunks")
    with Worker(args, True) as w:
        answer = w.ask("dump_begin", args.dump, path, GPU | SYNC)
        if "why" in answer or not answer["state"] & GPU_ON:
            table.add("FAIL", "agent: activities are on", f"{answer.get('why') or answer}")
            return
        table.add("PASS", "agent: activities are on", f"CUPTI {answer['whys'][3]}")
        w.ask("steps", STEPS)
        ended = w.ask("dump_end")
        table.judge("agent: off again in time", f"state {ended['state']:#x}", ended["why"])
        compare_all(table, "agent", truth, acts.from_chunks(path), False)
        w.ask("dump_begin", args.dump, path + ".graphs", GPU | GRAPHS)
        w.ask("graphs", 3)
        w.ask("dump_end")
        table.judge("agent: nodes of a CUDA graph", *acts.captured_nodes(acts.from_chunks(path + ".graphs")))

    def under_dump(w, verb, number):
        begun = w.ask("dump_begin", args.dump, path + ".cost", GPU)
        result = w.ask(verb, number)
        w.ask("dump_end")
        return result, None if begun.get("state", 0) & GPU_ON else f"nothing was recorded: {begun}"

    launch_costs(args, table, "agent, from inside", under_dump)


def launch_costs(args, table, method, recorded):
    """What recording adds to a launch, and how much it reduces the rate of training steps; compared with torch.profiler's CUDA
    side. torch.profiler has a process of its own: where it was once, it keeps CUPTI. recorded(worker, verb, number) returns
    the measurement, and why nothing was recorded."""
    adds, torch_adds, loss, torch_loss, whys = [], [], [], [], set()
    with Worker(args, True) as mine, Worker(args, False) as theirs:
        def add(verb, number, of_mine, of_theirs):
            for w, figures, measure in ((mine, of_mine, recorded), (theirs, of_theirs, under_cuda_profiler)):
                alone = w.ask(verb, number)
                with_it, why = measure(w, verb, number)
                figures.append((alone, with_it))
                whys.add(why)

        for _ in range(args.rounds):
            add("launches", LAUNCHES, adds, torch_adds)
            add("rate", 700, loss, torch_loss)
    bases = [alone / 1e3 for alone, _ in adds]
    adds, torch_adds = ([(with_it - alone) / 1e3 for alone, with_it in side] for side in (adds, torch_adds))
    loss, torch_loss = ([100 * (1 - with_it / alone) for alone, with_it in side] for side in (loss, torch_loss))

    def text(values):
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    whys = "; ".join(filter(None, whys))
    table.judge(f"{method}: adds to a launch, us", f"{text(adds)}, torch.profiler {text(torch_adds)}, alone {text(bases)}",
                whys)
    table.add("PASS", f"{method}: throughput lost, %", f"{text(loss)}, torch.profiler {text(torch_loss)}")


def under_cuda_profiler(w, verb, number):
    return w.ask("under_cuda_profiler", verb, number)["result"], None


def recorded_run(args, table, truth, folder):
    """`ptbpf record` of a program from its start; the steps before the graph are warm-up there, too."""
    path = os.path.join(folder, "record.json")
    done = subprocess.run([*args.ptbpf, "record", "-o", path + ".ptb", "--trace", path, "--no-table", "--", "env", "-u", "LD_LIBRARY_PATH", sys.executable,
                           os.path.join(HERE, "gpu_check_work.py"), "once", str(STEPS)], capture_output=True, text=True, timeout=SLOW * 2)
    if done.returncode not in (0, 3):
        table.add("FAIL", "record: ends well", f"exit {done.returncode}: {done.stderr.strip()[-200:]}")
        return
    got = acts.from_trace(path)
    begin = min((e["ts"] * 1000 for e in got.document["traceEvents"] if e.get("name") == "step 0" and e.get("cat") == "user_annotation"),
                default=0)
    got.work = [w for w in got.work if w.correlation in got.calls and got.calls[w.correlation].begin >= begin]
    table.judge("record: exit status", str(done.returncode), done.stderr.strip().splitlines()[-1] if done.returncode else None)
    for kind in ("kernel", "memcpy", "memset"):
        table.judge(f"record: {kind}, names, bytes, counts", *acts.same_counts(truth, got, kind))


def attached_run(args, table, truth, folder):
    path = os.path.join(folder, "attach.json")
    with Worker(args, True) as w:
        with Attached(args, w.proc.pid, path) as window:
            w.ask("steps", STEPS)
        table.judge("attach: exit status", str(window.code), "".join(window.err[-2:]).strip() if window.code else None)
        got = acts.from_trace(path)
        valid = subprocess.run([sys.executable, os.path.join(HERE, "validate_trace.py"), path], capture_output=True, text=True)
        table.judge("attach: validate_trace.py", valid.stdout.strip()[-100:], valid.stderr.strip()[:300] if valid.returncode else None)
        table.add("PASS", "attach: sources", json.dumps(got.document.get("ptbpf", {}).get("agents")))
        compare_all(table, "attach", truth, got, True)
        with Attached(args, w.proc.pid, path + ".graphs", "--activities", "cpu,cuda,graphs"):
            w.ask("graphs", 3)
        table.judge("attach: replays of a CUDA graph name operators", *acts.captured_ops(acts.from_trace(path + ".graphs")))
        neighbour(args, table, w, truth, folder)

    def attached(w, verb, number):
        with Attached(args, w.proc.pid, path + ".cost", "--activities", "cuda"):
            result = w.ask(verb, number)
        (agent,) = acts.from_trace(path + ".cost").document["ptbpf"]["agents"]
        return result, None if agent["gpu"] else f"nothing was recorded: {agent['gpu_why']}"

    launch_costs(args, table, "attach", attached)


def neighbour(args, table, w, truth, folder):
    """torch.profiler is active already: both record everything, or ptbpf reports the reason why not."""
    theirs, mine = os.path.join(folder, "both.torch.json"), os.path.join(folder, "both.json")
    w.ask("profile_start")
    with Attached(args, w.proc.pid, mine):
        w.ask("steps", STEPS)
    w.ask("profile_stop", theirs)
    torch_has, ours = acts.from_trace(theirs), acts.from_trace(mine)
    table.judge("with torch.profiler: torch has all kernels", *acts.same_counts(truth, torch_has, "kernel"))
    whys = [a.get("gpu_why") for a in ours.document.get("ptbpf", {}).get("agents", ())]
    if any(whys):
        table.add("PASS", "with torch.profiler: ptbpf stands down", "; ".join(filter(None, whys)))
    else:
        table.judge("with torch.profiler: ptbpf has all kernels", *acts.same_counts(truth, ours, "kernel"))


def can_trace(args):
    """The reason why eBPF is not available, or None."""
    if not args.ptbpf:
        return "no ptbpf was given"
    if os.geteuid():
        return "not root"
    try:
        done = subprocess.run([*args.ptbpf, "doctor"], capture_output=True, text=True, timeout=SLOW)
    except (OSError, subprocess.TimeoutExpired) as why:
        return f"ptbpf does not run here: {why}"
    if done.returncode == 0:
        return None
    rows = [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip().lower().startswith("no ")]
    return f"ptbpf doctor: {'; '.join(rows[:3]) or done.stderr.strip()[-200:]}"


def check(args, folder):
    table = Table()
    with Worker(args, False) as w:
        f = w.facts
        table.add("PASS", "machine", f"{f['device']}, {f['sms']} SMs, {f['memory'] >> 30} GiB; torch {f['torch']}, CUDA {f['cuda']}")
        path = os.path.join(folder, "torch.json")
        w.ask("profiled", path, STEPS)
    truth = acts.from_trace(path)
    table.add("PASS" if truth.work else "FAIL", "torch.profiler: the same steps", f"{len(truth.work)} pieces of work")
    inside(args, table, truth, folder)
    why = can_trace(args)
    if why:
        table.cases(("record: through eBPF", "attach: through eBPF"), "SKIP", why)
    else:
        recorded_run(args, table, truth, folder)
        attached_run(args, table, truth, folder)
    count = {v: sum(r[0] == v for r in table.rows) for v in ("PASS", "FAIL", "SKIP")}
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped")
    return table.failed()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--agent", required=True)
    ap.add_argument("--dump", required=True)
    ap.add_argument("--ptbpf", type=shlex.split, default=[])
    ap.add_argument("--keep", metavar="DIR")
    ap.add_argument("--rounds", type=int, default=5)
    args = ap.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ptbpf-gpu-") as folder:
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
        failed = check(args, args.keep or folder)
    print(f"{time.monotonic() - begin:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
