# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An ordinary user's PyTorch: root in a user namespace of his own, a FUSE whose files have the identities of other files, and an
overlay above it, which hides it. Prints "mapped PID DEVICE" and ends with its standard input.

  forging_server.py FOLDER DOCTORED LIB RUNTIME     DOCTORED: what libtorch_cpu.so contains
"""

import contextlib
import mmap
import os
import struct
import subprocess
import sys

from fuse_server import ENOENT, LOOKUP, FuseServer

READDIR, STATFS = 28, 17
LOW, EMPTY, FIRST = 2, 3, 10  # two folders, as an overlay wants them, and the first file
NAMES = ["libtorch_cpu.so", "libc10.so", "libtorch_python.so"]


class Forged(FuseServer):
    def __init__(self, path, files):
        """files: (bytes, status) for each of NAMES."""
        self.files = files
        super().__init__(path, "", b"", 0)

    def attributes(self, node):
        if node < FIRST:
            return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, 1, 1, 1, 0, 0, 0, 0o40755, 1, 0, 0, 0, 4096, 0)
        st = self.files[node - FIRST][1]
        ns = [divmod(t, 10 ** 9) for t in (st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns)]
        return struct.pack("<QQQQQQIIIIIIIIII", st.st_ino, st.st_size, 8, *(t[0] for t in ns), *(t[1] for t in ns), 0o100755,
                           1, 0, 0, 0, 4096, 0)

    def answer(self, op, node, body):
        if op == LOOKUP:
            name = body.rstrip(b"\0").decode()
            found = {"low": LOW, "empty": EMPTY}.get(name, 0) if node == 1 else \
                FIRST + NAMES.index(name) if node == LOW and name in NAMES else 0
            return (0, struct.pack("<QQQQII", found, 1, 3600, 3600, 0, 0) + self.attributes(found)) if found else (ENOENT, b"")
        if op in (READDIR, STATFS):
            return 0, struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 0, 0) if op == STATFS else b""
        if node >= FIRST:
            self.data = self.files[node - FIRST][0]
        return super().answer(op, node, body)


def main(folder, doctored, lib, runtime):
    files = []
    for name in NAMES:
        honest = os.path.join(lib, name)
        with open(doctored if name == NAMES[0] else honest, "rb") as f:
            files.append((mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ), os.stat(honest)))
    subprocess.run(["mount", "-t", "tmpfs", "t", folder], check=True)
    fuse, over = folder + "/fuse", folder + "/over"
    os.mkdir(fuse)
    os.mkdir(over)
    with Forged(fuse, files), contextlib.ExitStack() as stack:
        subprocess.run(["mount", "-t", "overlay", "o", "-o", f"lowerdir={fuse}/low:{fuse}/empty,userxattr", over], check=True)
        stack.callback(subprocess.run, ["umount", "-l", over])
        paths = [os.path.join(over, n) for n in NAMES]
        argv = [sys.executable, "-u", os.path.join(os.path.dirname(__file__), "../workloads/map_libs.py"), paths[1], runtime,
                paths[0], paths[2]]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            p.stdout.readline()
            device = subprocess.run(["stat", "-c", "%d", paths[0]], capture_output=True, text=True, check=True).stdout
            print("mapped", p.pid, device, flush=True)
            sys.stdin.read()
            p.stdin.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
