# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Output files: default names, paths that cannot be written, a disk that becomes full."""

import contextlib
import glob
import os
import re
import subprocess

from support import PTBPF, Skip, check, load_trace, report_json, run_ptbpf, slices


def test_default_names(ws, spin):
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "500ms", cwd=ws)
    names = sorted(os.listdir(ws))
    check(len(names) == 2, f"expected two files, found {names}")
    check(names[0].startswith(f"ptbpf-{spin.pid}-") and names[0].endswith(".pt.trace.json.gz"), names[0])
    check(names[1] == names[0].replace(".pt.trace.json.gz", ".ptb"), names[1])
    check(any("aten::neg" in line for line in done.out), f"the table is not on stdout\n{done.text()}")


def test_directory_missing(ws, spin):
    """Reported before anything is attached."""
    spin.wait_line("rate")
    for option in ("-o", "--trace"):
        path = ws + "/none/file" + (".ptb" if option == "-o" else ".json")
        done = run_ptbpf("attach", "--pid", spin.pid, "-d", "60s", option, path, cwd=ws, expect=(1, 2))
        text = "\n".join(done.err)
        check("none" in text, f"the message does not name the path:\n{text}")
        check("attached" not in text, "attached before the output was known to be writable")
    check(not glob.glob(ws + "/*"), f"files left: {os.listdir(ws)}")


def test_suffix_of_output(ws, spin):
    """-o FILE is what its suffix says, and the capture is beside it; what is replaced is mentioned."""
    spin.wait_line("rate")
    for name, begin, said in (("a.html", b"<!DOCTYPE html>", "page: a.html"), ("a.flamegraph.html", b"<!DOCTYPE html>", "flame graph: a.flamegraph.html"), ("a.json", b"{", "'a.ptb' replaces an older file"),
                              ("a.ptb", b"PTBCAP", "no trace: ptbpf export a.ptb writes one")):
        done = run_ptbpf("attach", "--pid", spin.pid, "-d", "300ms", "-o", name, cwd=ws)
        with open(f"{ws}/{name}", "rb") as f:
            check(f.read(len(begin)) == begin, f"{name} is something else")
        check(any(said in line for line in done.err), done.text())
    run_ptbpf("attach", "--pid", spin.pid, "-d", "300ms", "--flamegraph", "b.html", cwd=ws)
    check("--with-stack" not in run_ptbpf("report", "b.ptb", "--by", "line", cwd=ws).text(), "no stacks were recorded")
    run_ptbpf("export", "a.ptb", cwd=ws)
    run_ptbpf("attach", "--pid", spin.pid, "-d", "300ms", "--html", "c.html", cwd=ws)
    with open(ws + "/c.html", encoding="utf-8") as f:
        check('id="doc-why"' in f.read(), "the page has no verdict")
    check(sorted(os.listdir(ws)) == ["a.flamegraph.html", "a.html", "a.json", "a.pt.trace.json.gz", "a.ptb", "b.html", "b.ptb", "c.html", "c.ptb"], f"{os.listdir(ws)}")


def test_other_file_is_kept(ws, spin):
    """-o never overwrites a file that is not a capture."""
    spin.wait_line("rate")
    path = ws + "/thesis"
    with open(path, "w") as f:
        f.write("years of work\n")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "500ms", "-o", path, cwd=ws, expect=1)
    with open(path) as f:
        check(f.read() == "years of work\n", "the user's file was destroyed")


@contextlib.contextmanager
def small_disk(path, size):
    os.mkdir(path)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True).returncode:
        raise Skip("no tmpfs can be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def test_disk_full(ws, spin):
    """The written part is readable and complete, the message says how much of the window it covers, the target continues."""
    spin.wait_line("rate")
    with small_disk(ws + "/small", "1m") as small:
        done = run_ptbpf("attach", "--pid", spin.pid, "-d", "60s", "-o", small + "/a.ptb", "--trace", ws + "/a.json", expect=3)
        text = "\n".join(done.err)
        check("No space left" in text, f"the reason is not given:\n{text}")
        covered, whole = map(float, re.search(r"covers the first ([\d.]+) s of ([\d.]+) s", text).groups())
        check(covered < whole < 60, f"the capture covers {covered} of {whole} s of the window")
        check("the window's end, which could not be written" in done.err[-1], f"the last line does not say what is missing\n{text}")
        report = report_json(small + "/a.ptb")
        check("aten::neg" in str(report), "what was written is not readable")
        check(report["window"]["sealed"] and report["window"]["stopped_by"] == "the capture could not be written", report["window"])
        check(abs(report["window"]["duration_ns"] / 1e9 - covered) < 0.01, f"{covered} s reported, {report['window']} in the capture")
        ends = [e["ts"] + e["dur"] for e in slices(load_trace(ws + "/a.json")) if e["name"] == "aten::neg"]
        check((max(ends) - min(ends)) / 1e6 <= covered + 0.01, "the trace goes on behind what is covered")
    check(spin.alive(), "the target died")


def test_disk_full_at_export(ws, spin):
    """An export that does not fit leaves the old file and nothing else."""
    spin.wait_line("rate")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "1s", "-o", ws + "/a.ptb", "--no-table")
    with small_disk(ws + "/small", "256k") as small:
        for form, name in (("chrome", "a.json"), ("chrome", "a.json.gz")):
            with open(f"{small}/{name}", "w") as f:
                f.write("old\n")
            run_ptbpf("export", ws + "/a.ptb", "--format", form, "-o", f"{small}/{name}", expect=1 if name == "a.json" else (0, 1))
        with open(small + "/a.json") as f:
            check(f.read() == "old\n", "the old file was changed")
        check(sorted(os.listdir(small)) == ["a.json", "a.json.gz"], f"left behind: {os.listdir(small)}")


def test_stdout_is_for_results(ws, spin):
    """Everything except results goes to stderr, so the table can be piped."""
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "500ms", "-o", ws + "/a.ptb")
    check(not any(line.startswith("ptbpf") for line in done.out), f"a message is on stdout: {done.out[:3]}")
    rows = run_ptbpf("report", ws + "/a.ptb", "--sort-by", "count", "--row-limit", "1")
    check(any("aten::neg" in line for line in rows.out), f"report prints no table\n{rows.text()}")


def test_report_to_a_pipe(ws, spin):
    """A reader that ends early, such as head, is not an error; a full disk is one, with one message."""
    spin.wait_line("rate")
    run_ptbpf("attach", "--pid", spin.pid, "-d", "500ms", "--profile-memory", "-o", ws + "/a.ptb", "--no-table")
    for options in ([], ["--json"], ["--memory"], ["--memory", "--json"]):
        command = [PTBPF, "report", ws + "/a.ptb", *options]
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as no_reader:
            done = subprocess.run(command, stdout=no_reader, stderr=subprocess.PIPE, text=True, timeout=180)
        check(done.returncode == 0 and "Broken pipe" not in done.stderr, f"{options}: {done.returncode}, {done.stderr}")
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=180)
        check(done.returncode == 1 and done.stderr.count("No space left") == 1, f"{options}: {done.returncode}, {done.stderr}")


def test_sorted_as_attach(ws, spin):
    """`report` prints the table in attach's order, unless another is requested."""
    spin.wait_line("rate")
    done = run_ptbpf("attach", "--pid", spin.pid, "-d", "500ms", "-o", ws + "/a.ptb")
    check(len(done.out) > 5 and run_ptbpf("report", ws + "/a.ptb").out == done.out, f"report differs from\n{done.text()}")
    self_time = [row["self_cpu_ns"] for row in report_json(ws + "/a.ptb")["rows"]]
    check(self_time == sorted(self_time, reverse=True), f"rows are not sorted: {self_time}")
