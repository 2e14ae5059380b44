# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A program that, when a line comes, replaces its own memory by a file whose server does not answer, so that a read of it waits.

  unserved.py FILE data      what PyTorch's libraries have in their writable memory
  unserved.py FILE stack     the frames of its Python stack
"""

import ctypes
import sys

import torch

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
PROT_READ, MAP_PRIVATE, MAP_FIXED = 1, 2, 16
PAGE = 4096
CHUNK = 4 * PAGE  # DATA_STACK_CHUNK_SIZE, cpython Python/pystate.c


def mappings():
    with open("/proc/self/maps", encoding="utf-8") as f:
        for line in f:
            span, access, _, _, _, *path = line.split()
            begin, end = (int(x, 16) for x in span.split("-"))
            yield begin, end, access, path[0] if path else ""


def replace(fd, begin, end):
    if libc.mmap(begin, end - begin, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != begin:
        raise OSError(ctypes.get_errno(), "mmap")


def stack_chunk():
    """CPython's memory for frames (PyThreadState.datastack_chunk). Other pointers there may be to the begin of a page, too, but only
    in this one the second word is its size (_PyStackChunk, cpython Include/cpython/pystate.h)."""
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    state = ctypes.pythonapi.PyThreadState_Get()
    words = (ctypes.c_uint64 * 64).from_address(state)
    spans = {begin: end for begin, end, access, path in mappings() if access == "rw-p" and not path}
    pages = [w for w in words if w and w % PAGE == 0 and any(begin <= w < end for begin, end in spans.items())]
    chunk, = [p for p in pages if ctypes.c_uint64.from_address(p + 8).value == CHUNK]
    return chunk, chunk + CHUNK


def main():
    path, what = sys.argv[1:]
    with open(path, "rb") as f:
        torch.ones(2).neg()
        spans = [stack_chunk()] if what == "stack" else [
            (begin, end) for begin, end, access, lib in mappings() if access[1] == "w" and ("libtorch_cpu" in lib or "libc10.so" in lib)]
        print("ready", flush=True)
        sys.stdin.readline()
        for begin, end in spans:
            replace(f.fileno(), begin, end)
        print("replaced", flush=True)
        sys.stdin.readline()


main()
