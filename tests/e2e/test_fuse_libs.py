# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Libraries on file systems that a process serves (FUSE): a server of another user could block ptbpf for ever, and with it
every fork on the machine, because the kernel reads a page of the library while it installs a probe."""

import contextlib
import os
import signal

from support import Failure, Tracer, check, report_json, require_root, wait_for, workspace
from fuse_server import FuseServer
from test_hostile_libs import Target, elf

NOBODY = 65534
DEADLINE_S = 90  # longer than ptbpf takes, unless it is blocked


def library(ws):
    with open(elf(ws + "/any.so"), "rb") as f:
        return f.read()


def finish(t, server, codes):
    try:
        code = t.finish(DEADLINE_S)
    except Failure:
        server.abort()  # not even SIGKILL ends it
        raise
    text = "\n".join(t.err)
    check(code in codes, f"exit {code}, expected {codes}\n{t.text()}")
    check(not server.unanswered, f"requests were sent to a server that does not answer: {server.unanswered}")
    return text


def test_torch_on_a_silent_server(ws, detail):
    """PyTorch itself is on such a file system: refused immediately, with the reason."""
    os.mkdir(ws + "/mnt")
    with Target() as target, FuseServer(ws + "/mnt", "libtorch_cpu.so", library(ws), NOBODY) as server:
        target.map(server.file())
        server.stop_answering()
        with Tracer("attach", "--pid", target.pid, "-o", ws + "/a.ptb") as t:
            text = finish(t, server, (1,))
        check("FUSE" in text and "libtorch_cpu.so" in text, f"the message has no reason\n{text}")
        detail(text.splitlines()[0])


def test_source_with_roots_id(ws):
    """Who mounts chooses the source's name, which stands before the server's user in the list of mounts."""
    os.mkdir(ws + "/mnt")
    with Target() as target, FuseServer(ws + "/mnt", "libtorch_cpu.so", library(ws), NOBODY, source="user_id=0,x") as server:
        target.map(server.file())
        server.stop_answering()
        with Tracer("attach", "--pid", target.pid, "-o", ws + "/a.ptb") as t:
            text = finish(t, server, (1,))
        check("FUSE" in text, f"the message has no reason\n{text}")


def test_another_library_on_a_silent_server(ws):
    """Only a library of CUDA is on such a file system: everything else is traced, and what is missing is reported and
    counted."""
    os.mkdir(ws + "/mnt")
    with Target("--torch") as target, FuseServer(ws + "/mnt", "libcudart.so.12", library(ws), NOBODY) as server:
        target.wait_line("^worked$")
        target.map(server.file())
        server.stop_answering()
        with Tracer("attach", "--pid", target.pid, "-d", "1s", "-o", ws + "/a.ptb", "--no-table") as t:
            text = finish(t, server, (3,))
        check(text.count("FUSE") >= 1 and "libcudart" in text, f"the message has no reason\n{text}")
        check("aten::neg" in str(report_json(ws + "/a.ptb")), "the capture lacks the window")


def test_same_inode_number_on_a_silent_server(ws):
    """A mapping with the inode number of torch's library: ptbpf distinguishes them without a request to the server."""
    with Target("--torch") as target:
        target.wait_line("^worked$")
        with open(f"/proc/{target.pid}/maps", encoding="utf-8") as f:
            inode = next(int(line.split()[4]) for line in f if "/libtorch_cpu" in line)
        os.mkdir(ws + "/mnt")
        with FuseServer(ws + "/mnt", "data", library(ws), NOBODY, inode) as server:
            target.map(server.file())
            server.stop_answering()
            with Tracer("attach", "--pid", target.pid, "-d", "1s", "-o", ws + "/a.ptb", "--no-table") as t:
                finish(t, server, (0,))


def test_served_by_root(ws):
    """Servers of root are trusted: environments may be there."""
    os.mkdir(ws + "/mnt")
    with Target("--torch") as target, FuseServer(ws + "/mnt", "libcudart.so.12", library(ws), 0) as server:
        target.wait_line("^worked$")
        target.map(server.file())
        with Tracer("attach", "--pid", target.pid, "-d", "1s", "-o", ws + "/a.ptb", "--no-table") as t:
            text = finish(t, server, (0,))
        check("FUSE" not in text, f"refused\n{text}")


@contextlib.contextmanager
def library_that_is_read(*options):
    """(tracer, target, server, capture) within a window, while ptbpf reads a library that the target has just loaded."""
    require_root()
    with workspace() as ws:
        os.mkdir(ws + "/mnt")
        with Target("--torch") as target, FuseServer(ws + "/mnt", "libcudart.so.12", library(ws), 0) as server:
            target.wait_line("^worked$")
            server.slow.set()
            with Tracer("attach", "--pid", target.pid, *options, "-o", ws + "/a.ptb", "--no-table") as t:
                t.wait_attached()
                target.map(server.file())
                wait_for(lambda: server.held, "the library to be read")
                yield t, target, server, ws + "/a.ptb"


def test_slow_library_in_a_window(detail):
    """A library that is loaded in a window and read slowly: no records of that time are lost."""
    with library_that_is_read("--ringbuf", "16M") as (t, target, server, _):
        target.wait_news("^worked$", 8000)  # 1.6 million records of at least 24 bytes: more than all rings take
        server.release()
        t.signal(signal.SIGINT)
        text = finish(t, server, (0,))
        check(", nothing lost." in text, f"records are lost\n{text}")
        detail(next(line for line in text.splitlines() if "nothing lost" in line))


def test_signal_while_a_library_is_read_in_a_window():
    """A library that cannot be read does not prevent the end of a window, nor its capture."""
    with library_that_is_read() as (t, _, server, capture):
        t.signal(signal.SIGINT)
        try:
            code = t.finish()
        except Failure:
            server.abort()
            raise
        check(code in (0, 3), f"exit {code}\n{t.text()}")
        check("took longer" not in t.text(), f"the window ended by the limit on the analysis, not by the signal\n{t.text()}")
        check("aten::neg" in str(report_json(capture)), "the capture lacks the window")
