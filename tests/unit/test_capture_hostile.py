# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Captures that are made to exhaust their reader (hostile.text): report and export end in time and within 1 GiB + 20 times
the file's size, with a complete document, or with none, one sentence and the exit code 1.

A case whose name begins with honest_ is no attack: nothing of it is left out, and it needs little more than 20 times its size.
By default the captures have a tenth of the records that hostile.text says, with PTBPF_SOAK=1 three times as many, and every
command reads every case."""

import json
import os
import resource
import subprocess
import tempfile

import pytest

from hostile import CASES, make
from support import PTBPF, check, soak

DEADLINE_S = 60  # of processor time, per 100 MB of a capture and at least; wall time would depend on other processes
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
    "l": ["report", "--by", "line"],
    "L": ["report", "--group-by-stack-n", "10"],
    "k": ["export", "--format", "stacks"],
    "p": ["export", "--format", "stacks", "--metric", "cpu_memory_live"],
    "f": ["export", "--format", "flamegraph"],
    "N": ["export", "--format", "memory-snapshot"],
    "P": ["export", "--format", "pprof"],
    "S": ["export", "--format", "speedscope"],
    "T": ["export", "--format", "threads"],
    "R": ["report", "--skew"],
    "w": ["why"],
    "H": ["export", "--format", "html"],
    "d": ["diff"],  # the capture twice
    "x": ["report", "--json"],  # the capture twice, as those of two machines
}
HONEST_FIXED = 128 << 20  # bytes of memory that do not depend on the capture
# messages, no failures
NOTHING_TO_SHOW = ("contains no", "has no", "nothing was allocated", "was not recorded", "no two processes",
                   "that an earlier version merged")
LIMITS = ("of memory and was stopped", "of processor time and was stopped", "File too large")


def run(command, capture, out):
    """Exit code, seconds of the processor, peak KiB, stderr; the document is in `out`."""
    captures = [capture, capture] if command in (COMMANDS["x"], COMMANDS["d"]) else [capture]
    size = os.path.getsize(capture) * len(captures)
    memory = (1 << 30) + 20 * size
    args = [PTBPF, command[0], *captures] + command[1:]
    if command[0] == "export":
        args += ["-o", out]

    cpu = int(DEADLINE_S * max(1, size / 100e6))

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


def problem(name, letter, result, out, capture):
    """What is wrong with the end of a command, or None."""
    code, seconds, peak, text = result
    command = COMMANDS[letter]
    bad = None
    last = text.strip().splitlines()[-1] if text.strip() else ""
    honest = name.startswith("honest_")
    if code not in (0, 1, 3):
        bad = "did not end in time" if code == -24 else f"ended with {code}"  # SIGXCPU
    elif code == 1 and not any(reason in text for reason in NOTHING_TO_SHOW + (() if honest else LIMITS)):
        bad = "failed: " + last
    elif code == 1 and command[0] == "export" and os.path.exists(out):
        bad = "left a file"
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
    print(line)
    return f"{line}: {bad}\n{text[-2000:]}" if bad else None


@pytest.mark.parametrize("name", CASES)
def test_case(ws, name, detail):
    capture, out = os.path.join(ws, name + ".ptb"), os.path.join(ws, "out")
    make(name, capture, 300 if soak() else 10)
    commands, bad = COMMANDS if soak() else CASES[name][0], []
    for letter in commands:
        bad.append(problem(name, letter, run(COMMANDS[letter], capture, out), out, capture))
        if os.path.exists(out):
            os.unlink(out)
    check(not any(bad), "\n".join(filter(None, bad)))
    detail(f"{os.path.getsize(capture) / 1e6:.2f} MB, {len(commands)} commands")
