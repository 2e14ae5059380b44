# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Maps the first page of a file as code when asked on stdin, as the loader would; prints `mapped`. With
--torch it runs PyTorch operators all the time and prints `worked`."""

import mmap
import sys
import threading

maps = []


def say(word):
    sys.stdout.write(word + "\n")  # in one piece: print() lets another thread write before the newline
    sys.stdout.flush()


def map_as_code(path):
    with open(path, "rb") as f:
        maps.append(mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC))
    say("mapped")


def work():
    import torch
    x = torch.ones(4)
    say("ready")
    while True:
        for _ in range(100):
            torch.neg(x)
        say("worked")


if "--torch" in sys.argv:
    threading.Thread(target=work, daemon=True).start()
else:
    say("ready")
for line in sys.stdin:
    map_as_code(line.strip())
