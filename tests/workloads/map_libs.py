# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Maps the code of files as the loader would, without executing it, so that a tracer takes the process for one that has loaded
them.

  map_libs.py FILE...
"""

import mmap
import struct
import sys

PT_LOAD, PF_X = 1, 1


def map_code(path):
    with open(path, "rb") as f:
        head = f.read(64)
        phoff, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        f.seek(phoff)
        table = f.read(size * count)
        for i in range(count):
            kind, flags, off, _, _, length = struct.unpack_from("<IIQQQQ", table, i * size)
            if kind == PT_LOAD and flags & PF_X:
                start = off & ~0xfff
                return mmap.mmap(f.fileno(), off + length - start, flags=mmap.MAP_PRIVATE,
                                 prot=mmap.PROT_READ | mmap.PROT_EXEC, offset=start)
    raise SystemExit(f"{path} has no code")


maps = [map_code(path) for path in sys.argv[1:]]
print("ready", flush=True)
for line in sys.stdin:
    pass
