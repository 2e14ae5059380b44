# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Targets that cannot be attached to are refused immediately, in a sentence with the reason, without harm."""

import os
import subprocess

from support import Process, Tracer, check, report_json, run_ptbpf, wait_for, workload, workspace


def refused(pid, *words, code=1, folder=None, extra=()):
    with workspace() as ws:
        done = run_ptbpf("attach", "--pid", pid, "-d", "1s", *extra, cwd=folder or ws, expect=code)
        text = "\n".join(done.err)
        check(str(pid) in text, f"the message does not name pid {pid}:\n{text}")
        for w in words:
            check(w in text, f"the message lacks {w!r}:\n{text}")
        left = [f for f in os.listdir(ws) if not f.startswith(".")]
        check(not left, f"a refused attach left files: {left}")
        return text


def test_no_such_pid():
    with subprocess.Popen(["true"]) as p:
        p.wait()
        refused(p.pid, "no such process")


def test_not_pytorch():
    with Process(["sleep", "infinity"]) as p:
        refused(p.pid, "PyTorch")
        check(p.alive(), "the process did not survive")


def test_kernel_thread():
    refused(2)


def test_main_thread_gone(ws):
    """A process that lives on in other threads is not said to be none, by any command."""
    leave = ("import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
             "print('ready', flush=True)\nctypes.CDLL(None).pthread_exit(None)")
    with Process(["python3", "-c", leave]) as p:
        p.wait_line("ready")
        wait_for(lambda: not os.path.exists(f"/proc/{p.pid}/exe"), "the main thread to end")
        for extra in ((), ("--sample-stacks", "99"), ("--wait",), ("--dry-run",)):
            refused(p.pid, "its main thread has ended", extra=extra)
        done = run_ptbpf("doctor", "--pid", p.pid, expect=1)
        check("its main thread has ended" in done.text(), done.text())
        done = run_ptbpf("sample", "--pid", p.pid, "--dir", ws + "/w", "--schedule", "wait=0,active=1,repeat=1", expect=(1, 3))
        check("its main thread has ended" in done.text(), done.text())


def test_torch_not_loaded(ws):
    with workload("late.py", ws + "/never") as p:
        p.wait_line("ready")
        text = refused(p.pid, "PyTorch", "--wait")
        check("--wait" in text, "--wait is not named")


def test_not_root(spin, ws):
    """The message for an ordinary user names the missing privilege; the target continues."""
    spin.wait_line("ready")
    os.chmod(ws, 0o777)
    wrap = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]
    from support import PTBPF
    with Process([*wrap, PTBPF, "attach", "--pid", str(spin.pid), "-d", "1s"], cwd=ws) as t:
        check(t.finish() == 1, f"expected exit 1\n{t.text()}")
        text = "\n".join(t.err)
        check("root" in text and "CAP_" in text, f"the missing capability is not named:\n{text}")
    with Process([*wrap, PTBPF, "doctor"], cwd=ws) as t:
        code = t.finish()
        check(code in (0, 1, 3), f"doctor as an ordinary user ended with {code}\n{t.text()}")
        check("CAP_" in "\n".join(t.out + t.err), f"doctor names no capability\n{t.text()}")
    check(spin.alive(), "the target died")


def test_some_pids_are_refused(spin):
    """Of a list of pids those that cannot be traced are reported, the others are traced: exit code 3."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with Process(["sleep", "infinity"]) as other, workspace() as ws:
        spin.wait_line("ready")
        pids = f"{gone.pid},{other.pid},{spin.pid}"
        done = run_ptbpf("attach", "--pid", pids, "-d", "500ms", "-o", ws + "/a.ptb", expect=3)
        text = "\n".join(done.err)
        for pid, why in ((gone.pid, "no such process"), (other.pid, "PyTorch")):
            found = [line for line in done.err if f"pid {pid}:" in line]
            check(len(found) == 1 and why in found[0], f"pid {pid} is not refused in one sentence\n{text}")
        check("2 processes that could not be traced" in text, f"they are not counted\n{text}")
        check("aten::" in str(report_json(ws + "/a.ptb")), "the capture lacks the third")
        done = run_ptbpf("attach", "--dry-run", "--pid", pids, expect=3)
        check(f"pid {gone.pid}:" in "\n".join(done.err) and done.out, "--dry-run lacks the third")
        check(other.alive() and spin.alive(), "a process died")


def test_all_pids_are_refused():
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with Process(["sleep", "infinity"]) as other:
        text = refused(f"{gone.pid},{other.pid}".split(",")[0], "no such process", extra=("--pid", str(other.pid)))
        check(f"pid {other.pid}:" in text, f"only one of them is named\n{text}")


def test_report_of_nothing(ws):
    """report and export say what is wrong with a file that is not a capture."""
    for name, content in (("text.ptb", b"hello\n" * 50), ("empty.ptb", b""), ("zero.ptb", bytes(4096))):
        path = os.path.join(ws, name)
        with open(path, "wb") as f:
            f.write(content)
        for args in (("report", path), ("export", path, "--format", "chrome", "-o", ws + "/x.json")):
            done = run_ptbpf(*args, expect=1)
            check(name in "\n".join(done.err), f"{args[0]}: the message does not name the file: {done.err}")
        check(not os.path.exists(ws + "/x.json"), "export left an output for a file that is no capture")
    with Tracer("report", ws + "/missing.ptb") as t:
        t.expect(1)
