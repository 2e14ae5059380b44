# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A file system with one file, served by this process until it stops answering (linux/fuse.h, protocol 7.31)."""

import contextlib
import os
import stat
import struct
import subprocess
import threading

from support import Skip, check

FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42  # requests without a reply
LOOKUP, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR = 1, 3, 14, 15, 18, 25, 26, 27
ENOENT, ENOSYS = 2, 38
FILE_INODE = 2


class FuseServer:
    """Mounts at `path` a directory that contains `name` with the bytes `data`; user: the uid of the server."""

    def __init__(self, path, name, data, user, inode=FILE_INODE, source="none"):
        if not os.path.exists("/dev/fuse"):
            raise Skip("no /dev/fuse")
        self.path, self.name, self.data, self.inode = path, name, data, inode
        self.valid_s = 0 if user else 3600  # attributes are valid for 0 s: every reader asks this server
        self.silent = threading.Event()
        self.unanswered = []  # requests since it stopped answering
        self.slow = threading.Event()
        self.held = []  # read requests since it became slow: answered after release
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fd},rootmode=40000,user_id={user},group_id=0,allow_other"
        done = subprocess.run(["mount", "-i", "-t", "fuse", "-o", options, source, path], pass_fds=(self.fd,),
                              capture_output=True, text=True)
        if done.returncode:
            os.close(self.fd)
            raise Skip(f"no FUSE here: {done.stderr.strip()}")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def abort(self):
        """Requests that wait for an answer fail."""
        subprocess.run(["umount", "-f", self.path], capture_output=True)

    def __exit__(self, *_):
        self.abort()
        subprocess.run(["umount", "-l", self.path], capture_output=True)
        self.thread.join(10)
        os.close(self.fd)

    def serve(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 20)
            except OSError:
                return  # unmounted or aborted
            _, op, unique, node = struct.unpack_from("<IIQQ", request)
            if op in (FORGET, INTERRUPT, BATCH_FORGET):
                continue
            if self.silent.is_set():
                self.unanswered.append(op)
                continue
            if self.slow.is_set() and op == READ:
                self.held.append((op, unique, node, request[40:]))
                continue
            self.reply(op, unique, node, request[40:])

    def reply(self, op, unique, node, request):
        error, body = self.answer(op, node, request)
        with contextlib.suppress(OSError):
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def release(self):
        self.slow.clear()
        for request in self.held:
            self.reply(*request)

    def attributes(self, node):
        mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o755
        size = 0 if node == 1 else len(self.data)
        return struct.pack("<QQQQQQIIIIIIIIII", 1 if node == 1 else self.inode, size, size // 512, 1, 1, 1, 0, 0, 0, mode,
                           1, 0, 0, 0, 4096, 0)

    def answer(self, op, node, body):
        if op == INIT:
            _, _, ahead, _ = struct.unpack_from("<IIII", body)
            return 0, struct.pack("<IIIIHHIIHH32x", 7, 31, ahead, 0, 12, 10, 1 << 17, 1, 32, 0)
        if op == LOOKUP:
            if body.rstrip(b"\0").decode() != self.name:
                return ENOENT, b""
            return 0, struct.pack("<QQQQII", FILE_INODE, 1, 3600, self.valid_s, 0, 0) + self.attributes(FILE_INODE)
        if op == GETATTR:
            return 0, struct.pack("<QII", self.valid_s, 0, 0) + self.attributes(node)
        if op in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 0, 0)
        if op == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return 0, self.data[offset:offset + size]
        return (0 if op in (RELEASE, FLUSH) else ENOSYS), b""

    def file(self):
        return os.path.join(self.path, self.name)

    def stop_answering(self):
        check(not self.silent.is_set(), "it is silent already")
        self.silent.set()
