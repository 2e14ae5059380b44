# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes the captures of hostile.text."""

import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cases"))
import run as texts  # noqa: E402

RING, END = 2, 4  # types of blocks (capture_format.h)


def read_cases():
    """{name: (letters of the commands that it attacks, how often the last block is there, text)}"""
    with open(os.path.join(HERE, "hostile.text"), encoding="utf-8") as f:
        head, *parts = f.read().split("\n== ")
    for part in parts:
        (name, letters, *more), text = part.partition("\n")[0].split(), part.partition("\n")[2]
        yield name, (letters, int((more or [0])[0]), head + "\n" + text)


CASES = dict(read_cases())


def repeat_last(path, times):
    """Repeats the last block of records before the end: it compresses so well that to write its records would take as long as to read them."""
    with open(path, "rb") as f:
        data = f.read()
    at, last = struct.unpack_from("<I", data, 12)[0], None
    while (kind := struct.unpack_from("<H", data, at + 4)[0]) != END:
        size = 40 + struct.unpack_from("<I", data, at + 12)[0]
        last = data[at:at + size] if kind == RING else last
        at += size
    with open(path, "r+b") as f:
        f.seek(at)
        for _ in range(times):
            f.write(last)
        f.write(data[at:])


def make(name, path, scale):
    _, times, text = CASES[name]
    lines = texts.Text().expand(text.splitlines())
    subprocess.run([texts.CAPTURE_TEXT, path, str(scale)], input="\n".join(lines) + "\n", text=True, check=True)
    if times:
        repeat_last(path, times * scale)
