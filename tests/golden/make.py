#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Records the golden captures anew, as root, and packs them into captures.tar.xz.

They are small recordings of work.py in every mode, by probes and by the agent, and of two ranks. A capture that is
recorded anew has other ids and times: `compare.py --update` afterwards."""

import contextlib
import glob
import io
import os
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from support import AGENT, BUILD, PYTHON, WORKLOADS, CommandTarget, Process, Tracer, run_ptbpf, wait_for  # noqa: E402

MOCK = os.path.join(BUILD, "tests", "mock_cuda")
TRAIN = ("train 2", "odd")
ALL = "--execution-trace --with-stack --with-modules --profile-memory --kernel-memory"
# name: (how the target runs, options of attach, its work meanwhile, the exit code of attach)
ATTACH = {
    "names": ("probes", "", TRAIN, 0),
    "shapes": ("probes", "--record-shapes", TRAIN, 0),
    "flops": ("probes", "--with-flops --group-by-input-shape", TRAIN, 0),
    "et": ("probes", "--execution-trace", TRAIN, 0),
    "stack": ("probes", "--with-stack", TRAIN, 0),
    "modules": ("probes", "--with-modules", TRAIN, 0),
    "memory": ("probes", "--profile-memory", ("train 12", "odd"), 0),
    "kernel_memory": ("probes", "--kernel-memory --profile-memory", TRAIN, 0),
    "everything": ("probes", ALL, TRAIN, 0),
    "exact_memory": ("probes", "--profile-memory --exact-memory --record-shapes", TRAIN, 0),
    "steps": ("probes", "--step-on forward", ("train 5",), 0),
    "no_steps": ("probes", "--no-steps", ("train 3",), 0),
    "children": ("probes", "--children", ("train 1", "fork"), 3),
    "samples": ("probes", "--sample-stacks 199", ("spin 300", "nap 100"), 0),
    "flight": ("probes", "--flight 10s", TRAIN, 0),
    "nothing": ("probes", "", ("nap 50",), 0),
    "overflow": ("probes", "--ringbuf 4K", ("flood",), 3),
    "died": ("probes", "--profile-memory", ("train 2", "die"), 0),
    "agent_names": ("agent", "", TRAIN, 0),
    "agent_shapes": ("agent", "--record-shapes", TRAIN, 0),
    "agent_et": ("agent", "--execution-trace", TRAIN, 0),
    "agent_stack": ("agent", "--with-stack", TRAIN, 0),
    "agent_everything": ("agent", ALL, TRAIN, 0),
    "agent_samples": ("agent", "--sample-stacks 199 --activities cpu", ("spin 300",), 0),
    "agent_flight": ("agent", "--flight 10s --record-shapes", TRAIN, 0),
    "gpu": ("gpu", "", ("gpu", "train 1"), 0),
    "gpu_everything": ("gpu", ALL + " --activities cpu,cuda,sync,graphs", ("gpu", "train 1", "gpu captured"), 0),
    "gpu_threads": ("gpu", "--record-shapes", ("gpu threads",), 0),
    "gpu_sync": ("gpu", "--activities cuda,sync", ("gpu",), 0),
    "gpu_off": ("gpu", "--gpu off", ("gpu",), 0),
    "cuda_calls": ("calls", "", ("gpu", "train 1"), 0),
    "cuda_memory": ("calls", "--profile-memory --with-stack", ("gpu",), 0),
}
TARGETS = {"probes": {}, "agent": {"LD_PRELOAD": AGENT}, "gpu": {"LD_PRELOAD": AGENT, "GOLDEN_MOCK": MOCK},
           "calls": {"GOLDEN_MOCK": MOCK, "GPU_WORK_CUPTI": "0"}}


def target(how):
    """Without random addresses, so that the archive is small: names and operators are the same bytes in most captures."""
    return CommandTarget(["setarch", "-R", PYTHON, "-u", os.path.join(HERE, "work.py")], env=TARGETS[how], stderr=None)


def attach(folder, name):
    how, options, work, code = ATTACH[name]
    with target(how) as p:
        p.answer()
        with Tracer("attach", "--pid", p.pid, "-o", f"{folder}/{name}.ptb", "--no-table", *options.split()) as t:
            t.wait_attached()
            for words in work:
                p.send(words)
                if words != "die":
                    p.answer()
            t.stop((code,)) if "die" not in work else t.expect(code)


def sample(folder):
    """A window of `ptbpf sample`."""
    with target("agent") as p:
        p.answer()
        with tempfile.TemporaryDirectory() as out:
            with Tracer("sample", "--pid", p.pid, "--dir", out, "--schedule", "wait=0,warmup=0,active=500ms,repeat=1", "--record-shapes") as t:
                while t.alive():
                    p.ask("train 1")
                    p.ask("nap 20")
                t.expect(0)
            shutil.copy(glob.glob(out + "/**/*.ptb", recursive=True)[0], f"{folder}/window.ptb")


def ranks(folder):
    """The same moment of two ranks of torchrun."""
    with tempfile.TemporaryDirectory() as ws, contextlib.ExitStack() as stack:
        argv = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", WORKLOADS + "/skew_work.py", ws]
        p = stack.enter_context(Process(argv, env=dict(os.environ, OMP_NUM_THREADS="1")))
        wait_for(lambda: p.text().count("ready") == 2, "the ranks")
        pids = {int(words[2]): int(words[1]) for words in map(str.split, p.text().splitlines()) if words[:1] == ["ready"]}
        with open(ws + "/slow", "w", encoding="utf-8") as f:
            f.write("1 load 40")
        tracers = [stack.enter_context(Tracer("attach", "--pid", pids[rank], "--no-table", "-d", "1s", "-o", f"{folder}/rank{rank}.ptb"))
                   for rank in sorted(pids)]
        for t in tracers:
            t.expect(0, 3)
        with open(ws + "/stop", "w", encoding="utf-8"):
            pass
        p.finish()


def record(folder):
    run_ptbpf("record", "-o", f"{folder}/record.ptb", "--no-table", "--", PYTHON, os.path.join(WORKLOADS, "scripted.py"))


def not_compressed(data):
    """The same capture with its blocks as they were before compression (user/capture/capture_format.h)."""
    at = struct.unpack_from("<I", data, 12)[0]
    parts = [data[:at]]
    while at < len(data):
        magic, kind, flags, ring, stored, raw, records, mark = struct.unpack_from("<IHHIIIIQ", data, at)
        payload = data[at + 40:at + 40 + stored]
        if flags & 1:
            payload = subprocess.run(["zstd", "-dc"], input=payload, stdout=subprocess.PIPE, check=True).stdout
        header = struct.pack("<IHHIIIIQI", magic, kind, flags & ~1, ring, len(payload), raw, records, mark, zlib.crc32(payload))
        parts += [header, struct.pack("<I", zlib.crc32(header)), payload]
        at += 40 + stored
    return b"".join(parts)


def pack(folder):
    """All that were recorded, one after the other, in an archive that compresses what they share."""
    with tarfile.open(os.path.join(HERE, "captures.tar.xz"), "w:xz", preset=9) as tar:
        for name in sorted(os.listdir(folder)):
            with open(f"{folder}/{name}", "rb") as f:
                data = not_compressed(f.read())
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


OTHERS = {"window": sample, "ranks": ranks, "record": record}


def main():
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        for name in [*ATTACH, *OTHERS]:
            print(name, flush=True)
            attach(folder, name) if name in ATTACH else OTHERS[name](folder)
        pack(folder)


if __name__ == "__main__":
    main()
