# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Libraries that are made to harm their reader: ptbpf reports what is wrong, can be interrupted, and survives."""

import contextlib
import os
import signal
import struct
import subprocess

import pytest

from support import PYTHON, WORKLOADS, Process, Skip, Tracer, check, children_of, run_ptbpf, wait_for

PT_LOAD, PT_DYNAMIC, PT_NOTE = 1, 2, 4
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_STRSZ, DT_GNU_HASH = 4, 5, 6, 7, 8, 10, 0x6FFFFEF5
U64 = 2**64 - 1
DYN, HASH, TEXT = 0x400, 0x600, 0x1000


class Target(Process):
    """A process that maps files as code on request."""

    def __init__(self, *args):
        super().__init__([PYTHON if args else "python3", "-u", os.path.join(WORKLOADS, "map_file.py"), *args],
                         stdin=subprocess.PIPE)

    def __enter__(self):
        self.wait_line("^ready$")
        return self

    def map(self, path):
        since = len(self.out)
        self.send(path)
        self.wait_news("^mapped$", since=since)


def elf(path, dynamic=(), load_sz=U64, phnum=3, note_sz=0, shoff=0, shnum=0, shentsize=64, body=b"", size=None):
    """A shared object whose parts begin at fixed offsets; the whole file is one segment at address 0."""
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, shoff, 0, 64, 56, phnum,
                                                       shentsize, shnum, 0)
    dyn = b"".join(struct.pack("<QQ", tag, value & U64) for tag, value in (*dynamic, (0, 0)))
    phdrs = b"".join(struct.pack("<IIQQQQQQ", kind, 5, off, off, off, sz & U64, sz & U64, 4096)
                     for kind, off, sz in ((PT_LOAD, 0, load_sz), (PT_DYNAMIC, DYN, len(dyn)), (PT_NOTE, HASH, note_sz)))
    data = head + phdrs
    data = data.ljust(DYN, b"\0") + dyn
    data = data.ljust(HASH, b"\0") + body
    with open(path, "wb") as f:
        f.write(data)
        f.truncate(max(size or 0, len(data), 8192))
    os.chmod(path, 0o755)
    return path


def endless(path, symbols=400_000):
    """400,000 symbols that share a name of one megabyte: minutes of searching in 10 MB."""
    name = b"\0_ZN2at4_ops" + b"a" * (1 << 20) + b"\0"
    table = TEXT + len(name) + (-len(name)) % 8
    body = struct.pack("<II", 1, symbols).ljust(TEXT - HASH, b"\0") + name.ljust(table - TEXT, b"\0")
    body += struct.pack("<IBBHQQ", 1, 0x12, 0, 7, 0x1000, 16) * symbols
    return elf(path, dynamic=((DT_HASH, HASH), (DT_STRTAB, TEXT), (DT_STRSZ, len(name)), (DT_SYMTAB, table)), body=body)


def endless_notes(path):
    """65,533 program headers, each of the same 350,000 empty notes."""
    phdr = struct.pack("<IIQQQQQQ", PT_NOTE, 4, 1 << 22, 0, 0, 1 << 22, 0, 4)
    head = elf(path, phnum=0xFFFF)
    with open(head, "r+b") as f:
        f.seek(64 + 56)
        f.write(phdr * 0xFFFE)
        f.truncate(1 << 23)
    return path


def cpu_s(pid):
    """Processor time of a process and its children so far."""
    ticks = 0
    for p in [pid, *children_of(pid)]:
        with contextlib.suppress(OSError), open(f"/proc/{p}/stat", encoding="ascii", errors="replace") as f:
            ticks += sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_busy(t):
    """Waits until ptbpf has read the library for a while: longer than its other work takes."""
    wait_for(lambda: cpu_s(t.pid) > 0.5, "the library to be read")


def ended_by(t, sig, codes):
    """The exit status after a signal; without it ptbpf would read the library for minutes."""
    t.signal(sig)
    code = t.finish(5)
    check(code in codes, f"exit {code}, expected {codes}\n{t.text()}")
    return "\n".join(t.err)


def test_signal_while_a_library_is_read(ws):
    lib = endless(ws + "/libtorch_cpu.so")
    for sig, wait in ((signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGINT, ("--wait",))):
        with Target() as target:
            if not wait:
                target.map(lib)
            with Tracer("attach", "--pid", target.pid, *wait, "-o", ws + "/a.ptb") as t:
                if wait:
                    t.wait_line("waiting for PyTorch", stream=t.err)
                    target.map(lib)
                wait_busy(t)
                kids = children_of(t.pid)
                check(kids, "the library is not read in a child")
                check("interrupted" in ended_by(t, sig, (1,)), f"the message has no reason\n{t.text()}")
            check(not any(os.path.exists(f"/proc/{k}") for k in kids), "the child goes on")
            check(target.proc.poll() is None, "the target died")


def test_notes_that_repeat(ws):
    """Program headers that all refer to the same notes: these are read once."""
    with Target() as target:
        target.map(endless_notes(ws + "/libtorch_cpu.so"))
        done = run_ptbpf("attach", "--pid", target.pid, "-o", ws + "/a.ptb", expect=1)
        text = "\n".join(done.err)
        check(str(target.pid) in text and "was stopped" not in text, f"it was given up at a limit\n{text}")


def test_sparse_library_of_2_tib(ws):
    """All zeros after its header, which declares everything to be symbols."""
    path = ws + "/libtorch_cpu.so"
    try:
        elf(path, ((DT_STRTAB, TEXT), (DT_STRSZ, 64), (DT_SYMTAB, 2 * TEXT)), size=1 << 41, shoff=HASH, shnum=1,
            body=struct.pack("<IIQQQQIIQQ", 0, 11, 0, 2 * TEXT, 0, 1 << 41, 0, 0, 0, 0))
    except OSError as e:
        raise Skip(f"no file of 2 TiB here: {e}") from None
    with Target() as target:
        target.map(path)
        done = run_ptbpf("attach", "--pid", target.pid, "-o", ws + "/a.ptb", expect=1)
        text = "\n".join(done.err)
        check("libtorch_cpu.so" in text and "MiB" in text, f"the message has no reason\n{text}")


def test_library_cut_while_it_is_read(ws):
    with Target() as target:
        lib = endless(ws + "/libtorch_cpu.so")
        target.map(lib)
        with Tracer("attach", "--pid", target.pid, "-o", ws + "/a.ptb") as t:
            wait_busy(t)
            os.truncate(lib, 4096)
            code = t.finish(20)
        check(code == 1, f"exit {code}, expected 1\n{t.text()}")
        check("truncated" in "\n".join(t.err), f"the message has no reason\n{t.text()}")


def test_hostile_counts(ws):
    """Counts and sizes at their maximum: refused in a sentence, or nothing of torch is found in the file."""
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, U64 // 64, 0, 0, 0, 0)
    many = struct.pack("<IIII", 0xFFFFFFFF, 1, 0xFFFFFFFF, 0)
    tables = ((DT_STRTAB, TEXT), (DT_STRSZ, 64), (DT_SYMTAB, TEXT + 64))
    variants = {
        "sections": {"shoff": HASH, "body": first},
        "program headers": {"phnum": 0xFFFF},
        "segment": {"load_sz": U64, "dynamic": ((DT_STRTAB, U64), (DT_STRSZ, U64), (DT_SYMTAB, U64))},
        "notes": {"note_sz": U64, "body": struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 3)},
        "names": {"dynamic": ((DT_HASH, HASH), (DT_STRTAB, TEXT), (DT_STRSZ, U64), (DT_SYMTAB, TEXT))},
        "symbols": {"dynamic": ((DT_HASH, HASH), *tables), "body": struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF)},
        "hash buckets": {"dynamic": ((DT_GNU_HASH, HASH), *tables), "body": many},
        "relocations": {"dynamic": ((DT_RELA, TEXT), (DT_RELASZ, U64), *tables)},
    }
    with Target() as target:
        for name, parts in variants.items():
            os.mkdir(f"{ws}/{name}")
            target.map(elf(f"{ws}/{name}/libtorch_cpu.so", **parts))
        done = run_ptbpf("attach", "--pid", target.pid, "-o", ws + "/a.ptb", expect=1)
        check(str(target.pid) in "\n".join(done.err), f"no sentence about the process\n{done.text()}")
        check(target.proc.poll() is None, "the target died")


@pytest.mark.soak
def test_library_that_never_ends(ws):
    """The analysis ends at a limit; unit_sandbox tests the limits themselves, so this test is for soaks."""
    with Target() as target:
        target.map(endless(ws + "/libtorch_cpu.so"))
        done = run_ptbpf("attach", "--pid", target.pid, "-o", ws + "/a.ptb", expect=1)
        text = "\n".join(done.err)
        check("and was stopped" in text and text.count("and was stopped") == 1, f"no sentence, or several\n{text}")
