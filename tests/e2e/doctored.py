# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Copies of a library with the same build-id and symbols but different code."""

import mmap
import shutil
import struct

SHT_SYMTAB, SHT_DYNSYM, STT_FUNC = 2, 11, 2
REX_B = 0x41
CLD = 0xfc  # one byte that the kernel does not emulate: the probe goes to the instruction after it


def sections(elf):
    off, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", elf, off + i * size) for i in range(count)]


def functions(elf, part, last):
    """(file offset, size) of exported functions whose names contain `part` and `last`."""
    table = sections(elf)
    dynsym = next(s for s in table if s[1] == SHT_DYNSYM)
    names = table[dynsym[6]]
    strings = elf[names[4]:names[4] + names[5]]
    code = [(s[3], s[4], s[5]) for s in table if s[2] & 4]  # executable: address, offset, size
    for name, info, _, _, addr, size in struct.iter_unpack("<IBBHQQ", elf[dynsym[4]:dynsym[4] + dynsym[5]]):
        if info & 15 != STT_FUNC or not addr or size < 16:
            continue
        end = strings.index(b"\0", name)
        text = strings[name:end]
        if part in text and last in text:
            at = next((off + addr - start for start, off, length in code if start <= addr < start + length), None)
            if at is not None:
                yield at, size


def shift_names(source, copy):
    """The same code, but the symbols of operators point to the second byte of a two-byte push, which is a push of one byte.
    Returns the file offsets there, as hexadecimal numbers."""
    shutil.copyfile(source, copy)
    offsets = set()
    with open(copy, "r+b") as f, mmap.mmap(f.fileno(), 0) as elf:
        table = sections(elf)
        code = [(s[3], s[4], s[5]) for s in table if s[2] & 4]
        for symbols in (s for s in table if s[1] in (SHT_SYMTAB, SHT_DYNSYM)):
            names = table[symbols[6]]
            for entry in range(symbols[4], symbols[4] + symbols[5], 24):
                name, info, _, _, addr, size = struct.unpack_from("<IBBHQQ", elf, entry)
                if info & 15 != STT_FUNC or size < 16:
                    continue
                begin = names[4] + name
                text = elf[begin:elf.find(b"\0", begin)]
                at = next((off + addr - start for start, off, length in code if start <= addr < start + length), None)
                if b"2at4_ops" not in text or b"4callE" not in text or at is None:
                    continue
                if elf[at] == REX_B and 0x50 <= elf[at + 1] <= 0x57:
                    struct.pack_into("<QQ", elf, entry + 8, addr + 1, size - 1)
                    offsets.add(f"{at + 1:x}")
    return offsets


def make(source, copy):
    """Shifts the code of every operator's function by one byte, so that sites of the copy lie in the middle of instructions of
    the original. Returns the number of functions."""
    shutil.copyfile(source, copy)
    with open(copy, "r+b") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as elf:
        found = sorted(set(functions(elf, b"2at4_ops", b"4callE")))
        for at, size in found:
            f.seek(at)
            f.write(bytes([CLD]) + elf[at:at + size - 1])
    return len(found)
