# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Maps the first page of a file as code when asked on stdin, as the loader would; prints `mapped`. With
--torch it runs PyTorch operators all the time and prints `worked`."""

import mmap
import sys
import threading

maps = []


def map_as_code(path):
    with open(path, "rb") as f:
        maps.append(mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC))
    print("mapped", flush=True)


def work():
    import torch
    x = torch.ones(4)
    print("ready", flush=True)
    while True:
        for _ in range(100):
            torch.neg(x)
        print("worked", flush=True)


if "--torch" in sys.argv:
    threading.Thread(target=work, daemon=True).start()
else:
    print("ready", flush=True)
for line in sys.stdin:
    map_as_code(line.strip())
