# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Operators and annotations whose faults, mappings and resident pages are known, round after round.

  kernel_memory.py ROUNDS operators       faults of an annotation and of an operator, beside an operator without any
  kernel_memory.py ROUNDS address_space   calls that change much address space and little memory
  kernel_memory.py ROUNDS outside FILE    another process takes away the pages of a mapped file
  kernel_memory.py ROUNDS collapse        another process puts a huge page together where there are few pages

One thread; huge pages are off, and malloc() maps what has 1 MiB or more (MALLOC_MMAP_THRESHOLD_).
"""

import ctypes
import mmap
import os
import sys
import time

import torch
from torch.autograd.profiler import record_function

MIB, PAGE = 1 << 20, 4096
PR_SET_THP_DISABLE = 41
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_PAGEOUT, MADV_COLLAPSE = 14, 15, 21, 25
SYS_PIDFD_OPEN, SYS_PROCESS_MADVISE = 434, 440
MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000
HOLE, TIB = 0x200000000000, 1 << 40

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
libc.mmap.restype = libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
libc.malloc.argtypes = (ctypes.c_size_t,)
libc.realloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
libc.free.argtypes = (ctypes.c_void_p,)


def operators(keep=torch.empty(8), x=torch.ones(8)):
    with record_function("touch"):
        m = mmap.mmap(-1, 100 * PAGE)
        m.madvise(MADV_NOHUGEPAGE)
        for i in range(100):
            m[i * PAGE] = 1
    time.sleep(0.02)
    torch.neg(x, out=keep)
    with record_function("make"):
        made = torch.empty(4 * MIB).fill_(1)
    torch.neg(x, out=keep)
    with record_function("free"):
        del made
    time.sleep(0.02)
    torch.neg(x, out=keep)
    del m


def address_space():
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with record_function("nothing is there"):
        assert libc.munmap(HOLE, 16 * TIB) == 0
        assert libc.munmap(HOLE + 1, 16 * TIB) == -1
    with record_function("reserve"):
        p = libc.mmap(None, TIB, 0, private | MAP_NORESERVE, -1, 0)
        for i in range(4):
            libc.mmap(p + i * MIB, MIB, mmap.PROT_READ | mmap.PROT_WRITE, private | MAP_FIXED, -1, 0)
            ctypes.memset(p + i * MIB, 1, MIB)
    with record_function("give back"):
        assert libc.munmap(p, TIB) == 0
    with record_function("grow"):
        p = libc.malloc(8 * MIB)
        for i in range(2, 9):
            p = libc.realloc(p, 8 * i * MIB)
    with record_function("shrink"):
        p = libc.realloc(p, 8 * MIB)
    with record_function("free"):
        libc.free(p)


def mapped(path):
    with open("/proc/self/maps") as f:
        return next(int(line.split("-")[0], 16) for line in f if line.rstrip().endswith(path))


def by_another(at, size, advice):
    """What another process does to the pages of this one."""
    pid, iov = os.getpid(), (ctypes.c_size_t * 2)(at, size)
    child = os.fork()
    if not child:
        pidfd = libc.syscall(SYS_PIDFD_OPEN, pid, 0)
        done = libc.syscall(SYS_PROCESS_MADVISE, pidfd, iov, ctypes.c_size_t(1), advice, ctypes.c_size_t(0))
        os._exit(done != size)
    assert os.waitpid(child, 0)[1] == 0


def outside(path, held=[]):
    if not held:
        with open(path, "rb") as f:
            held.append(mmap.mmap(f.fileno(), 64 * MIB, mmap.MAP_SHARED, mmap.PROT_READ))
            held[0].madvise(mmap.MADV_RANDOM)
    m = held[0]
    with record_function("read it"):
        for i in range(0, 64 * MIB, PAGE):
            m[i]
    with record_function("taken away meanwhile"):
        by_another(mapped(path), 64 * MIB, MADV_PAGEOUT)
        for i in range(0, 16 * MIB, 4 * MIB):
            m[i]


def collapse():
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    p = libc.mmap(None, 4 * MIB, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
    at = (p + 2 * MIB - 1) & ~(2 * MIB - 1)
    libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(2 * MIB), MADV_NOHUGEPAGE)
    ctypes.memset(at, 1, PAGE)
    libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(2 * MIB), MADV_HUGEPAGE)
    with record_function("put together meanwhile"):
        by_another(at, 2 * MIB, MADV_COLLAPSE)
    libc.munmap(p, 4 * MIB)


def main():
    work = {"operators": operators, "address_space": address_space, "outside": outside, "collapse": collapse}[sys.argv[2]]
    libc.prctl(PR_SET_THP_DISABLE, int(work is not collapse), 0, 0, 0)
    torch.set_num_threads(1)
    for _ in range(int(sys.argv[1])):
        work(*sys.argv[3:])


main()
