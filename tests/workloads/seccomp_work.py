# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs under seccomp filters, which are given as the hexadecimal bytes of their instructions, the oldest first.

  seccomp_work.py run HEX[,HEX...] COMMAND...    executes the command under them
  seccomp_work.py compute HEX[,HEX...]           prints `ready PID`, then runs operators under them until a byte comes
                                                 on stdin; makes few other system calls, and ends with `sum DIGEST`
"""

import ctypes
import os
import sys

PR_SET_NO_NEW_PRIVS = 38
SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 317, 1, 1


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("insns", ctypes.c_char_p)]


def install(filters, all_threads=False):
    libc = ctypes.CDLL(None, use_errno=True)
    programs = [Program(len(code) // 8, code) for code in filters]
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    flags = SECCOMP_FILTER_FLAG_TSYNC if all_threads else 0
    for p in programs:
        if libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(p)):
            raise OSError(ctypes.get_errno(), "the filter is not taken")


def compute(filters):
    import torch
    torch.set_num_threads(1)
    x = torch.linspace(0, 1, 16384)
    for _ in range(50):
        y = x.sin().add(1.0).sum()
    os.set_blocking(0, False)
    os.write(1, f"ready {os.getpid()}\n".encode())
    install(filters, all_threads=True)
    while True:
        for _ in range(20):
            y = x.sin().add(1.0).sum()
        try:
            if os.read(0, 1):
                break
        except BlockingIOError:
            pass
    os.write(1, f"sum {y.item():.9f}\n".encode())
    os._exit(0)


def main():
    filters = [bytes.fromhex(h) for h in sys.argv[2].split(",")] if sys.argv[2] else []
    if sys.argv[1] == "compute":
        compute(filters)
    install(filters)
    os.execvp(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
