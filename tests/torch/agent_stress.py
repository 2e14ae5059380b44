# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's callback is registered and removed thousands of times while eight threads of a real PyTorch run
operators that throw, start short-lived threads, and fork. Nothing may die, hang or compute a different result.

  agent_stress.py --agent LIB --haste LIB --dump LIB --cfg PROGRAM [--rounds N]    in a process with both preloaded

Requests are raised in the semaphores, as the kernel would; some windows' chunks are collected and checked: every
BEGIN has its END on its thread, in order, nothing is lost.
"""

import argparse
import ctypes
import os
import struct
import subprocess
import tempfile
import threading
import time

CHUNK, OPS, INPUTS, OUTPUTS, STACKS = 1, 2, 4, 8, 128
BATCH = 500
REQUESTS = (OPS, OPS | INPUTS | STACKS, OPS | INPUTS | OUTPUTS)


def semaphores(path):
    """{name: virtual address} of the agent's semaphores, from its notes."""
    with open(path, "rb") as f:
        elf = f.read()
    shoff, = struct.unpack_from("<Q", elf, 0x28)
    shentsize, shnum, shstrndx = struct.unpack_from("<3H", elf, 0x3A)
    names = struct.unpack_from("<Q", elf, shoff + shstrndx * shentsize + 24)[0]
    found = {}
    for i in range(shnum):
        name, _, _, _, at, size = struct.unpack_from("<IIQQQQ", elf, shoff + i * shentsize)
        if elf[names + name:].split(b"\0", 1)[0] != b".note.stapsdt":
            continue
        end = at + size
        while at < end:
            namesz, descsz, _ = struct.unpack_from("<3I", elf, at)
            desc = at + 12 + (namesz + 3 & ~3)
            _, site, *_ = elf[desc + 24:desc + descsz].split(b"\0")
            found[site.decode()] = struct.unpack_from("<Q", elf, desc + 16)[0]
            at = desc + (descsz + 3 & ~3)
    return found


class Agent:
    def __init__(self, path):
        with open("/proc/self/maps") as f:
            base = next(int(line.split("-")[0], 16) for line in f if line.rstrip().endswith(path))
        sem = semaphores(path)
        self.sem = [ctypes.c_uint16.from_address(base + sem[n]) for n in ("chunk", "ops", "inputs", "outputs")]
        self.seed = ctypes.c_uint(1)
        self.ctl = ctypes.byref(ctypes.c_char.in_dll(ctypes.CDLL(None), "ptbpf_agent_ctl"))

    def dropped(self, haste):
        haste.agent_dropped.restype = ctypes.c_uint64
        return haste.agent_dropped(self.ctl)

    def rounds(self, haste, cnt):
        """Registers and removes the callback so many times; returns what went wrong."""
        sem = (ctypes.c_void_p * 4)(*map(ctypes.addressof, self.sem))
        err = haste.agent_rounds(sem, self.ctl, cnt, ctypes.byref(self.seed), 60)
        return (None, "it was not registered", "it was not removed")[-err]


def numbers(torch, seed, loops):
    """The results of one thread as bytes; they must be the same whatever happens around it."""
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(8, 8, generator=g, requires_grad=True)
    x = torch.randn(4, 8, generator=g)
    total = torch.zeros(())
    for i in range(loops):
        with torch.autograd.profiler.record_function("round"):
            y = torch.tanh(x @ w).pow(2).sum()
            y.backward()
            with torch.no_grad():
                w -= 0.01 * w.grad
                w.grad = None
                total = total + y + torch.cat([x, x * i]).sort(dim=1)[0].mean()
            try:
                torch.mm(x, x)
            except RuntimeError:
                pass
    return w.detach().numpy().tobytes() + total.detach().numpy().tobytes()


def short_lived(torch, stop):
    """Threads that run one operator and end."""
    while not stop.is_set():
        t = threading.Thread(target=lambda: torch.neg(torch.ones(2)))
        t.start()
        t.join()


def forker(torch, stop, bad):
    """Children that run operators and end."""
    while not stop.is_set():
        pid = os.fork()
        if pid == 0:
            ok = all(float(torch.ones(3).sum()) == 3 for _ in range(20))
            os._exit(0 if ok else 1)
        end = time.monotonic() + 60
        done = (0, 0)
        while not done[0] and time.monotonic() < end:
            done = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.002)
        if not done[0]:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            bad.append("a child hung")
        elif done[1]:
            bad.append(f"a child ended with {done[1]}")
        time.sleep(0.02)


class Load:
    """Six threads that compute, one that starts threads, one that forks, until stop()."""

    def __init__(self, torch, want):
        self.stop, self.bad, self.done = threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.compute, args=(torch, seed, want[seed])) for seed in want]
        self.threads.append(threading.Thread(target=short_lived, args=(torch, self.stop)))
        self.threads.append(threading.Thread(target=forker, args=(torch, self.stop, self.bad)))
        for t in self.threads:
            t.start()

    def compute(self, torch, seed, want):
        while not self.stop.is_set():
            if numbers(torch, seed, 20) != want:
                self.bad.append(f"seed {seed}: other numbers")
            self.done += 1

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()


def check_chunks(path):
    """Problems of a window's chunks."""
    with open(path, "rb") as f:
        data = f.read()
    at, seqs, opened, counts = 0, {}, {}, [0, 0]
    while at < len(data):
        magic, _, kind, size, tid, stream, seq, dropped, _ = struct.unpack_from("<IHHIIIIQQ", data, at)
        if magic != 0x43425450 or size > 32768:
            return f"no chunk at {at}"
        if dropped or (seq != seqs.get(stream, 0) + 1 and (kind == 2 or stream in seqs)):
            return f"stream {stream}: chunk {seq} after {seqs.get(stream, 0)}, {dropped} dropped"
        seqs[stream] = seq
        rec, at = at + 40, at + size
        while kind == 2 and rec < at:
            length, what, _, _, ticks, rf = struct.unpack_from("<HBBIQQ", data, rec)
            rec += length
            if length < 16 or length % 8 or rec > at:
                return f"a record of {length} bytes"
            if what == 1:
                counts[0] += 1
                opened[rf] = ticks
            elif what == 2:
                counts[1] += 1
                if ticks < opened.pop(rf, 0):
                    return "an end before its begin"
    print(f"  {len(seqs)} streams, {counts[0]} begins, {counts[1]} ends, {len(opened)} open")
    if not counts[0] or len(opened) > 100 or abs(counts[0] - counts[1]) > 100:
        return f"{counts[0]} begins, {counts[1]} ends"
    return None


def collected_window(dump, requests, path):
    err = dump.agent_dump_begin(path.encode(), requests | CHUNK)
    if err:
        return f"dump: {dump.agent_dump_why().decode()}"
    time.sleep(0.5)
    err = dump.agent_dump_end(20000)
    return f"dump: {dump.agent_dump_why().decode()}" if err else check_chunks(path)


def target(opts):
    import torch
    torch.set_num_threads(1)
    dump = ctypes.CDLL(opts.dump)
    dump.agent_dump_why.restype = ctypes.c_char_p
    want = {seed: numbers(torch, seed, 20) for seed in range(6)}
    for seed in want:
        assert numbers(torch, seed, 20) == want[seed]
    agent = Agent(opts.agent)
    cfg = subprocess.run([opts.cfg, str(os.getpid())], capture_output=True, text=True, timeout=300)
    if cfg.returncode:
        raise SystemExit(f"agent_cfg: {cfg.returncode} {cfg.stderr}")
    haste = ctypes.CDLL(opts.haste)
    load, begin, problem, left = Load(torch, want), time.monotonic(), None, opts.rounds
    try:
        while left and not problem and not load.bad:
            with tempfile.NamedTemporaryFile() as f:
                problem = collected_window(dump, REQUESTS[left // BATCH % 3], f.name)
            problem = problem or agent.rounds(haste, min(left, BATCH))
            left -= min(left, BATCH)
    finally:
        load.end()
    if problem or load.bad:
        raise SystemExit(problem or load.bad[0])
    print(f"PASS torch.agent_stress.{torch.__version__}: {opts.rounds} times registered and removed in "
          f"{time.monotonic() - begin:.0f} s, {load.done} computations, all bits equal, {agent.dropped(haste)} dropped")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    for name in ("--agent", "--haste", "--dump", "--cfg"):
        p.add_argument(name, required=True)
    p.add_argument("--rounds", type=int, default=10000)
    target(p.parse_args())
