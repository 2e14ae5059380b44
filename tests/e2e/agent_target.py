# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tests/workloads/agent_work.py with the agent in it, and what tests read of it: its semaphores, and the source of operators
that a trace names."""

import json
import os
import struct

from support import AGENT, PYTHON, WORKLOADS, CommandTarget, Tracer, load_trace, slices

ALIVE, TORCH, OPS_ON, CUPTI, GPU_ON = 0x1, 0x2, 0x4, 0x8, 0x10


class AgentTarget(CommandTarget):
    def __init__(self, *words, agent=AGENT, python=None, env=None):
        super().__init__([python or PYTHON, "-u", os.path.join(WORKLOADS, "agent_work.py"), *words],
                         env=dict({"LD_PRELOAD": agent} if agent else {}, **(env or {})))
        self.line("answer")

    def answer(self):
        return json.loads(super().answer())


class Window:
    """`ptbpf attach` while the block runs; then its trace."""

    def __init__(self, ws, target, *options, name="w", expect=(0,)):
        self.capture, self.path, self.expect = f"{ws}/{name}.ptb", f"{ws}/{name}.json", expect
        self.tracer = Tracer("attach", "--pid", target.pid, "-o", self.capture, "--trace", self.path, "--no-table", *options)

    def __enter__(self):
        try:
            self.tracer.wait_attached()
        except BaseException:
            self.tracer.__exit__()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.code = self.tracer.stop(self.expect)
                self.trace = load_trace(self.path)
        finally:
            self.tracer.__exit__()

    def count(self, name):
        return len(slices(self.trace, name))

    def sources(self):
        return sources_of(self.trace)


def sources_of(trace):
    """{pid: (source, reason)}, from the trace."""
    found = {t["pid"]: (t["source"], "") for t in trace["ptbpf"]["targets"]}
    found.update({a["pid"]: (a["source"], a.get("why", "")) for a in trace["ptbpf"].get("agents", ())})
    return found


def semaphores(pid):
    """{note name: address} of the agent's semaphores in a live process, from its file's notes and the memory map."""
    path = bias = None
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            if line.rstrip().endswith(os.path.basename(AGENT)):
                path, bias = line.split()[-1], int(line.split("-")[0], 16)
                break
    with open(f"/proc/{pid}/root{path}", "rb") as f:
        notes = stapsdt_notes(f.read())
    return {name: bias + semaphore for name, semaphore in notes.items()}


def stapsdt_notes(elf):
    """{name: virtual address of the semaphore} of the notes of provider ptbpf; ELF64, little endian."""
    shoff, = struct.unpack_from("<Q", elf, 40)
    shentsize, shnum, shstrndx = struct.unpack_from("<3H", elf, 58)
    sections = [struct.unpack_from("<2I4Q2I2Q", elf, shoff + k * shentsize) for k in range(shnum)]
    names = sections[shstrndx][4]
    found = {}
    for s in sections:
        if elf[names + s[0]:].split(b"\0", 1)[0] != b".note.stapsdt":
            continue
        at = s[4]
        while at < s[4] + s[5]:
            namesz, descsz, _ = struct.unpack_from("<3I", elf, at)
            at += 12 + (namesz + 3) // 4 * 4
            semaphore, = struct.unpack_from("<Q", elf, at + 16)
            provider, name = elf[at + 24:at + descsz].split(b"\0")[:2]
            if provider == b"ptbpf":
                found[name.decode()] = semaphore
            at += (descsz + 3) // 4 * 4
    return found


def change_semaphores(pid, addresses, add):
    """Raises or lowers semaphores as the kernel does for a tracer."""
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as mem:
        for address in addresses:
            mem.seek(address)
            value, = struct.unpack("<H", mem.read(2))
            mem.seek(address)
            mem.write(struct.pack("<H", value + add))
