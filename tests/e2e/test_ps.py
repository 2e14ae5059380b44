# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf ps: which processes have PyTorch, and what is said of them; the one that --name means."""

import json
import os
import subprocess

import pytest

from support import ENVS, PTBPF, PYTHON, ROOT, CommandTarget, Skip, check, run_ptbpf
from test_docs import BASH

JOB = """import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset
MAIN = os.getpid()
class Data(Dataset):
    __len__ = lambda self: 10
    def __getitem__(self, i):
        while os.getppid() == MAIN:
            time.sleep(.1)
loader = iter(DataLoader(Data(), num_workers=int(sys.argv[1])))
print("ready")
next(loader) if sys.argv[1] != "0" else time.sleep(600)
"""
VALIDATE = """
import json, jsonschema, sys
sys.path.append(sys.argv[1])
from bundle_schemas import bundled
jsonschema.validate(json.load(sys.stdin), bundled("process_list"))
"""


@pytest.fixture
def job(ws):
    """A job with two workers, rank 3 of 4, whose script has a name of its own."""
    script = f"{ws}/only_{os.getpid()}.py"
    with open(script, "w", encoding="utf-8") as f:
        f.write(JOB)
    with CommandTarget([PYTHON, "-u", "-W", "ignore", script, "2", "--lr", "0.1"], env=dict(os.environ, RANK="3", WORLD_SIZE="4")) as target:
        target.line("ready")
        target.script = script
        yield target


def listed(*args):
    return json.loads("\n".join(run_ptbpf("ps", "--json", *args).out))


def test_list(job):
    """The job and its workers, with their facts, as JSON that fits its schema, as text and in short."""
    name = os.path.basename(job.script)
    document = listed()
    rows = {p["pid"]: p for p in document["processes"]}
    main = rows[job.pid]
    workers = [p for p in rows.values() if p["parent"] == job.pid]
    check(main["script"] == f"{name} 2 --lr 0.1" and main["rank"] == 3 and main["user"] == "root" and main["children"] == 2, f"{main}")
    check(len(workers) == 2 and all(w["script"] == main["script"] and not w["agent"] for w in workers), f"{workers}")
    text = run_ptbpf("ps").out
    check(any(line.split()[0] == str(job.pid) and line.endswith(main["script"]) for line in text), f"{text}")
    check(sum(line.endswith(f"(child of {job.pid})") for line in text) == 2, f"{text}")
    check(f"{job.pid}\t{main['script']}" in run_ptbpf("ps", "--brief").out, "in short")
    python = os.path.join(ENVS, "consumers", "bin", "python")
    if not os.path.exists(python):
        raise Skip("no jsonschema: tools/setup.sh legs installs it")
    done = subprocess.run([python, "-c", VALIDATE, os.path.join(ROOT, "tools")], input=json.dumps(document), capture_output=True, text=True)
    check(done.returncode == 0, done.stderr[-2000:])


def test_attach(ws, job):
    """Without a pid attach prints the list; a name is that of a job, not of its workers; where it is not clear, all are listed."""
    done = run_ptbpf("attach", expect=2)
    check(any(str(job.pid) in line for line in done.err) and any("sudo ptbpf attach" in line for line in done.err) and not done.out, done.text())
    for name in (os.path.basename(job.script), job.script):
        done = run_ptbpf("attach", "--name", name, "--dry-run")
        check("libtorch_cpu" in "\n".join(done.out), done.text())
    check("no process with PyTorch matches" in run_ptbpf("attach", "--name", "no such name", expect=1).text(), "another name")
    with CommandTarget([PYTHON, job.script, "0"]) as other:
        other.line("ready")
        done = run_ptbpf("attach", "--name", os.path.basename(job.script), expect=2)
        check("2 processes match" in done.text() and all(any(line.split()[0] == str(p) for line in done.err) for p in (job.pid, other.pid)), done.text())


def test_completion(ws, job):
    """Shells complete pids of processes with PyTorch."""
    functions = BASH[:BASH.index("words ptbpf")]
    script = f"{ws}/completion"
    with open(script, "w", encoding="utf-8") as f:
        f.write("\n".join(run_ptbpf("--print-docs", "bash").out))
    got = subprocess.run(["bash", "-c", functions + "words ptbpf attach ''\nwords ptbpf doctor -p ''", "bash", script], capture_output=True, text=True,
                         env=dict(os.environ, PATH=f"{os.path.dirname(PTBPF)}:{os.environ['PATH']}")).stdout.splitlines()
    check(len(got) == 2 and all(str(job.pid) in line.split() for line in got), f"{got}")


def test_without_root(job):
    """Processes of others are counted."""
    done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", PTBPF, "ps"], capture_output=True, text=True)
    if done.returncode == 127:
        raise Skip("no other user may run ptbpf here")
    check(str(job.pid) not in done.stdout and "could not be inspected: that needs root" in done.stdout, done.stdout + done.stderr)
