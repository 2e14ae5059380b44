# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""heavy_lib.py FOLDER: maps two small libraries whose analysis takes longer than it may, 800,000 symbols that share a name of 1 MB, and touches them
all the time, so that nothing that is known of them lasts."""

import mmap
import os
import struct
import sys
import time

SYMBOLS, NAME = 800000, b"_ZN2at4_ops" + b"a" * 1000000


def section(name, kind, flags, addr, offset, size, link=0, info=0, align=1, entry=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, addr, offset, size, link, info, align, entry)


def library():
    strings, names = b"\0" + NAME + b"\0", b"\0.text\0.dynsym\0.dynstr\0.shstrtab\0"
    at_strings = 8192 + 24 * SYMBOLS
    at_names = at_strings + len(strings)
    at_sections = (at_names + len(names) + 7) & ~7
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + b"\0" * 9, 3, 62, 1, 0, 64, at_sections, 0, 64, 56, 2, 64, 5, 4)
    head += struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, 4096, 4096, 4096) + struct.pack("<IIQQQQQQ", 1, 5, 4096, 4096, 4096, 4096, 4096, 4096)
    symbols = b"\0" * 24 + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 4096, 1) * (SYMBOLS - 1)
    sections = (section(0, 0, 0, 0, 0, 0) + section(1, 1, 6, 4096, 4096, 4096) + section(7, 2, 2, 0, 8192, 24 * SYMBOLS, 3, 1, 8, 24) +
                section(15, 3, 2, 0, at_strings, len(strings)) + section(23, 3, 0, 0, at_names, len(names)))
    return (head.ljust(4096, b"\0") + b"\xc3" * 4096 + symbols + strings + names).ljust(at_sections, b"\0") + sections


os.chdir(sys.argv[1])
files, held = ["torch1.so", "torch2.so"], []
for path in files:
    with open(path, "wb") as f:
        f.write(library())
    with open(path, "rb") as f:
        held.append(mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC, offset=4096))
print("mapped", flush=True)
end = time.monotonic() + 300
while time.monotonic() < end:
    for path in files:
        os.utime(path)
    time.sleep(0.2)
