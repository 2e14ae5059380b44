# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Maps the first page of a file as code for each line on stdin, as the loader would; prints `mapped`. With
--torch it runs PyTorch operators all the time and prints `worked`."""

import mmap
import sys
import threading

maps = []


def print_line(word):
    sys.stdout.write(word + "\n")  # in one piece: print() lets another thread write before the newline
    sys.stdout.flush()


def map_as_code(path):
    with open(path, "rb") as f:
        maps.append(mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC))
    print_line("mapped")


def work():
    import torch
    x = torch.ones(4)
    print_line("ready")
    while True:
        for _ in range(100):
            torch.neg(x)
        print_line("worked")


if "--torch" in sys.argv:
    threading.Thread(target=work, daemon=True).start()
else:
    print_line("ready")
for line in sys.stdin:
    map_as_code(line.strip())
