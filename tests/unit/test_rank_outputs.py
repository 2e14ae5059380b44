# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Captures of four made-up ranks on two machines through the command line, read as one session: what is exported and reported of the result, usage."""

import json
import os
import subprocess
import sys

import pytest

from support import BUILD, PTBPF, ROOT, check, load_trace, slices, workspace

MAKER = os.path.join(BUILD, "tests", "fake_rank_captures")
SHIFT = 4194304


def run(*args, expect=0):
    done = subprocess.run([PTBPF, *args], capture_output=True, text=True, check=False)
    check(done.returncode == expect, f"{args}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def is_valid(path):
    done = subprocess.run([sys.executable, ROOT + "/tools/validate_trace.py", path], capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def job():
    """A folder with the captures."""
    with workspace() as folder:
        subprocess.run([MAKER, folder], check=True)
        yield folder


def ranks(folder):
    return [f"{folder}/rank{r}.ptb" for r in range(4)]


def test_one_trace(job):
    """All ranks: distinct processes with their ranks and hosts."""
    out = job + "/all.json"
    done = run("export", *ranks(job), "--format", "chrome", "-o", out)
    check("4 captures of 2 machines, 4 processes, 4 with a rank" in done.stderr, done.stderr)
    is_valid(out)
    doc = load_trace(out)
    names = {e["pid"]: e["args"]["name"] for e in doc["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"}
    check(names == {100: "python3 (rank 0, alpha, pid 100)", 101: "python3 (rank 1, alpha, pid 101)",
                    2 * SHIFT + 100: "python3 (rank 2, beta, pid 100)", 2 * SHIFT + 101: "python3 (rank 3, beta, pid 101)"}, f"{names}")
    check({e["pid"] for e in slices(doc)} == set(names), "a rank without slices")
    check([(c["file"], c["host"]) for c in doc["ptbpf"]["merged"]["captures"]] ==
          [(f"rank{r}.ptb", "alpha" if r < 2 else "beta") for r in range(4)], f"{doc['ptbpf']['merged']}")
    check(doc["ptbpf"]["merged"]["how"]["processes_matched"] == 3, f"{doc['ptbpf']['merged']['how']}")


def test_split(job):
    """A trace of each rank, with one base of time."""
    folder = job + "/traces"
    run("export", *ranks(job), "--format", "chrome", "--split-ranks", folder)
    check(sorted(os.listdir(folder)) == [f"rank{r}.pt.trace.json.gz" for r in range(4)], f"{os.listdir(folder)}")
    docs = [load_trace(f"{folder}/rank{r}.pt.trace.json.gz") for r in range(4)]
    for rank, doc in enumerate(docs):
        is_valid(f"{folder}/rank{rank}.pt.trace.json.gz")
        check((doc["distributedInfo"]["rank"], doc["distributedInfo"]["world_size"]) == (rank, 4), f"{doc['distributedInfo']}")
        check(doc["host_name"] == ("alpha" if rank < 2 else "beta"), doc["host_name"])
        check(len({e["pid"] for e in slices(doc)}) == 1, "slices of another rank")
    check(len({doc["baseTimeNanoseconds"] for doc in docs}) == 1, "the ranks have different bases")


def test_skew(job):
    """The slow rank, with its phase; as text and as JSON."""
    text = run("report", *ranks(job), "--skew").stdout
    check("rank 2 (beta, pid 100) is slow: since ProfilerStep#" in text and "more in data loading" in text, text)
    out = job + "/skew.json"
    with open(out, "w", encoding="utf-8") as f:
        f.write(run("report", *ranks(job), "--skew", "--json").stdout)
    is_valid(out)
    with open(out, encoding="utf-8") as f:
        doc = json.load(f)
    by_rank = {r["rank"]: r for r in doc["ranks"]}
    check([r for r in by_rank if by_rank[r]["slow"]] == [2], f"{doc['ranks']}")
    slow = by_rank[2]
    check(slow["causes"][0]["what"] == "data loading" and abs(slow["causes"][0]["excess_ns"] - 4e6) < 2e5, f"{slow['causes']}")
    check(abs(slow["excess_ns"] - 4e6) < 6e5 and 0.3 < slow["share"] < 0.6, f"{slow}")
    check(7 <= slow["since"] <= 11, f"since {slow['since']}")
    check(slow["caused_ns"] > 3 * max(by_rank[r]["caused_ns"] for r in (0, 1, 3)), f"{doc['ranks']}")
    check(doc["waits"][0]["for_pid"] == slow["pid"], f"{doc['waits'][0]}")


def test_usage(job):
    one, every = f"{job}/rank0.ptb", ranks(job)
    for args, code, text in ((("report", *every, "--align", "stars"), 2, "clocks, collectives"),
                             (("report", one, job + "/none.ptb"), 1, "none.ptb"),
                             (("export", *every, "--format", "chrome"), 2, "--output is required for several captures"),
                             (("report", one, "--skew"), 1, "no two processes"),
                             (("report", *every, "--skew", "--gpu"), 2, "exclude each other"),
                             (("export", *every, "--format", "et", "--split-ranks", job + "/y"), 2, "--format chrome")):
        done = run(*args, expect=code)
        check(text in done.stderr, f"{args}: {done.stderr}")
    check(not os.path.exists(job + "/y"), "something was written")
