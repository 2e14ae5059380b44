# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Has loaded PyTorch, which takes seconds, and forks targets of tests (support.forked()), which therefore begin at once.

  forker.py FD     each request on the socket FD is a JSON list of a script and its arguments, with the target's stdin, stdout and stderr;
                   the answer is its pid. The target is a child of the process that asked: what forks it here ends at once, and that
                   process is the reaper of its descendants meanwhile. Its /proc/PID/cmdline is this one's.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import time

import torch  # noqa: F401

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def become(words, fds, parent):
    while os.getppid() != parent:
        time.sleep(0.0005)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for fd, to in zip(fds, range(3)):
        os.dup2(fd, to)
    os.closerange(3, 256)
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        setattr(sys, name, open(fd, mode, encoding="utf-8", buffering=1, closefd=False))
    sys.argv, sys.path[0] = words, os.path.dirname(words[0])


def next_target(asked):
    """Returns in each target, with what it shall run."""
    parent = os.getppid()
    while True:
        request, fds, _, _ = socket.recv_fds(asked, 65536, 3)
        if not request:
            sys.exit()
        intermediate = os.fork()
        if intermediate == 0:
            pid = os.fork()
            if pid == 0:
                words = json.loads(request)
                become(words, fds, parent)
                return words[0]
            asked.send(str(pid).encode())
            os._exit(0)
        os.waitpid(intermediate, 0)
        for fd in fds:
            os.close(fd)


path = next_target(socket.socket(fileno=int(sys.argv[1])))
__file__, status = path, 0
with open(path, encoding="utf-8") as source:
    code = compile(source.read(), path, "exec")
try:
    exec(code)  # pylint: disable=exec-used
except SystemExit as end:
    status = int(end.code or 0)
sys.stdout.flush()
os._exit(status)  # PyTorch's own end takes a second
