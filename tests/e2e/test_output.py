# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Where the results go: default names, paths that cannot be written, a disk that fills up."""

import glob
import os
import subprocess

from common import Skip, check, main, report_json, require_root, run_ptbpf, workload, workspace


def default_names():
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "500ms", cwd=ws)
        names = sorted(os.listdir(ws))
        check(len(names) == 2, f"expected two files, found {names}")
        check(names[0].startswith(f"ptbpf-{p.pid}-") and names[0].endswith(".pt.trace.json.gz"), names[0])
        check(names[1] == names[0].replace(".pt.trace.json.gz", ".ptb"), names[1])
        check(any("aten::neg" in line for line in done.out), f"the table is not on stdout\n{done.text()}")


def directory_missing():
    """Found out before anything is attached."""
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        for option in ("-o", "--trace"):
            path = ws + "/none/file" + (".ptb" if option == "-o" else ".json")
            done = run_ptbpf("attach", "--pid", p.pid, "-d", "60s", option, path, cwd=ws, expect=(1, 2))
            text = "\n".join(done.err)
            check("none" in text, f"the message does not name the path:\n{text}")
            check("attached" not in text, "attached before the output was known to be writable")
        check(not glob.glob(ws + "/*"), f"files left: {os.listdir(ws)}")


def other_file_is_kept():
    """A file that is no capture is never overwritten by -o."""
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        path = ws + "/thesis.txt"
        with open(path, "w") as f:
            f.write("years of work\n")
        run_ptbpf("attach", "--pid", p.pid, "-d", "500ms", "-o", path, cwd=ws, expect=(1, 2))
        with open(path) as f:
            check(f.read() == "years of work\n", "the user's file was destroyed")


def disk_full():
    """What fits is readable, the rest is counted, the target goes on, the exit status tells."""
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        small = ws + "/small"
        os.mkdir(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], capture_output=True).returncode:
            raise Skip("no tmpfs can be mounted here")
        try:
            done = run_ptbpf("attach", "--pid", p.pid, "-d", "2s", "-o", small + "/a.ptb", "--trace", ws + "/a.json",
                             expect=(1, 3))
            text = "\n".join(done.err)
            check("No space left" in text or "space" in text, f"the reason is not told:\n{text}")
            check(os.path.getsize(small + "/a.ptb") > 0, "nothing was kept")
            check("aten::neg" in str(report_json(small + "/a.ptb")), "what was written is not readable")
        finally:
            subprocess.run(["umount", "-l", small], check=True)
        check(p.alive(), "the target died")


def stdout_is_for_results():
    """Everything that is no result goes to stderr, so the table can be piped."""
    require_root()
    with workspace() as ws, workload("spin.py") as p:
        p.wait_line("rate")
        done = run_ptbpf("attach", "--pid", p.pid, "-d", "500ms", "-o", ws + "/a.ptb")
        check(not any(line.startswith("ptbpf") for line in done.out), f"a message is on stdout: {done.out[:3]}")
        rows = run_ptbpf("report", ws + "/a.ptb", "--sort-by", "count", "--row-limit", "1")
        check(any("aten::neg" in line for line in rows.out), f"report prints no table\n{rows.text()}")


if __name__ == "__main__":
    main([default_names, directory_missing, other_file_is_kept, disk_full, stdout_is_for_results])
