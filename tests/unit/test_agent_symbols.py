# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the finished agent needs of the process that loads it: nothing but the C library of 2.17, which the oldest systems with
wheels of PyTorch have, whatever it was built with."""

import re
import subprocess

from support import AGENT, check

NEWEST = (2, 17)


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, AGENT], capture_output=True, text=True, check=True).stdout


def test_old_c_library():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d"))
    check(set(needed) == {"libpthread.so.0", "libdl.so.2", "libc.so.6"}, f"libraries: {needed}")
    symbols = re.findall(r" (GLOBAL|WEAK) .* UND (\S+)", readelf("--dyn-syms"))
    check(len(symbols) > 20, f"symbols: {symbols}")
    for bind, name in symbols:
        version = re.search(r"@GLIBC_([\d.]+)", name)
        check(version or bind == "WEAK", f"{name} is not the C library's")
        check(not version or tuple(map(int, version[1].split("."))) <= NEWEST, f"{name}: cupti_agent/old_glibc.h needs a row")
