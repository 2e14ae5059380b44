# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""many_maps.py FOLDER COUNT: maps a file with 'torch' in its long name so many times: to read /proc/PID/maps takes long."""

import mmap
import os
import sys

with open("/proc/self/comm", "w", encoding="utf-8") as f:
    f.write("pt_maps")
os.chdir(sys.argv[1])
for _ in range(14):
    os.makedirs("a" * 240, exist_ok=True)
    os.chdir("a" * 240)
fd = os.open("torch.so", os.O_RDWR | os.O_CREAT, 0o755)
os.ftruncate(fd, 8192)
held = []
try:
    for i in range(int(sys.argv[2])):
        prot = mmap.PROT_READ if i % 2 else mmap.PROT_READ | mmap.PROT_EXEC
        held.append(mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, prot, offset=i % 2 * 4096))
except OSError:
    pass  # vm.max_map_count
print("mapped", len(held), flush=True)
sys.stdin.read()
