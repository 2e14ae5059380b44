#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Captures that are made to exhaust their reader (hostile_cases.c): report and export end in time and within
1 GiB + 20 times the file's size, with a document that is whole, and an exit code that says whether all is in it.

  test_capture_hostile.py --ptbpf PATH --hostile-capture PATH [--keep DIR] [CASE ...]

A case whose name begins with honest_ is no attack: nothing of it is left out, and it takes little more than 20 times
its size. With PTBPF_SOAK=1 every command runs on every case, at several times the size.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

SOAK = os.environ.get("PTBPF_SOAK") == "1"
DEADLINE_S = 60  # of processor time, per 100 MB of a capture and at least: others may use the machine, too
COMMANDS = {
    "t": ["report"],
    "s": ["report", "--group-by-input-shape", "--with-flops"],
    "j": ["report", "--json"],
    "m": ["report", "--memory"],
    "M": ["report", "--memory", "--json"],
    "g": ["report", "--gpu"],
    "G": ["report", "--gpu", "--json"],
    "c": ["export", "--format", "chrome"],
    "e": ["export", "--format", "et"],
    "r": ["export", "--format", "memory-raw"],
    "n": ["export", "--format", "memory"],
    "h": ["export", "--format", "memory-html"],
}
HONEST_FIXED = 128 << 20  # bytes of memory that do not grow with the capture
NOT_RECORDED = "contains no"  # a sentence, not a failure


def run(ptbpf, command, capture, out, least_s):
    """Exit code, seconds of the processor, peak KiB, stderr; the document is in `out`."""
    size = os.path.getsize(capture)
    memory = (1 << 30) + 20 * size
    args = [ptbpf, command[0], capture] + command[1:]
    if command[0] == "export":
        args += ["-o", out]

    cpu = int(least_s * max(1, size / 100e6))

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))

    with open(os.devnull if command[0] == "export" else out, "wb") as stdout, tempfile.TemporaryFile() as stderr:
        p = subprocess.Popen(args, stdout=stdout, stderr=stderr, preexec_fn=limit)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        text = stderr.read().decode(errors="replace")
    return p.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, text


def check(name, letter, result, out, capture):
    code, seconds, peak, text = result
    command = COMMANDS[letter]
    bad = None
    last = text.strip().splitlines()[-1] if text.strip() else ""
    honest = name.startswith("honest_")
    if code not in (0, 1, 3):
        bad = "did not end in time" if code == -24 else f"ended with {code}"  # SIGXCPU
    elif code == 1 and not (NOT_RECORDED in text or "has no" in text or
                            "nothing was allocated" in text):
        bad = "failed: " + last
    elif honest and (code == 3 or peak * 1024 > HONEST_FIXED + 20 * os.path.getsize(capture)):
        bad = f"took {peak >> 10} MiB: {last}"
    elif peak * 1024 > (1 << 30) + 20 * os.path.getsize(capture):
        bad = f"took {peak >> 10} MiB"
    elif code != 1 and os.path.exists(out):
        size = os.path.getsize(out)
        if size > (512 << 20) + 300 * os.path.getsize(capture):
            bad = f"wrote {size >> 20} MiB"
        elif size < (64 << 20) and ("--json" in command or command[-1] in ("chrome", "et", "memory", "memory-raw")):
            try:
                with open(out, encoding="utf-8") as f:
                    json.load(f)
            except ValueError as e:
                bad = f"wrote no JSON: {e}"
    line = f"{name} {' '.join(command)}: {code}, {seconds:.1f} s, {peak >> 10} MiB"
    print(("FAIL " if bad else "ok   ") + line + (f": {bad}" if bad else ""), flush=True)
    if bad:
        print(text[-2000:])
    return not bad


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ptbpf", required=True)
    ap.add_argument("--hostile-capture", required=True)
    ap.add_argument("--keep")
    ap.add_argument("--deadline", type=float, default=DEADLINE_S)
    ap.add_argument("--all", action="store_true", help="every command on every case")
    ap.add_argument("cases", nargs="*")
    args = ap.parse_args()
    cases = [line.split() for line in subprocess.check_output([args.hostile_capture, "--list"], text=True).splitlines()]
    failed = ran = 0
    with tempfile.TemporaryDirectory(dir=args.keep) as d:
        for name, letters in cases:
            if args.cases and name not in args.cases:
                continue
            capture, out = os.path.join(d, name + ".ptb"), os.path.join(d, "out")
            subprocess.run([args.hostile_capture, name, capture, "3" if SOAK else "1"], check=True)
            print(f"     {name}: {os.path.getsize(capture) / 1e6:.2f} MB")
            for letter in COMMANDS if SOAK or args.all else letters:
                result = run(args.ptbpf, COMMANDS[letter], capture, out, args.deadline)
                ran += 1
                failed += not check(name, letter, result, out, capture)
                if os.path.exists(out):
                    os.unlink(out)
            os.unlink(capture)
    print(f"{'FAIL' if failed else 'PASS'} {ran} commands, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
