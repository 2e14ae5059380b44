# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Who owns a file system chooses the identities of its files: device, inode, size and times prove nothing about the content,
neither to another process nor a moment later. And whose overlays are accepted."""

import contextlib
import os
import re
import struct
import subprocess
import threading

import doctored
from fuse_server import FILE_INODE, OPEN, READ, FuseServer
from support import WORKLOADS, Process, Skip, check, load_trace, slices, workload
from test_doctored import NOBODY, has_operators, private_cache, ptbpf, sites, started, survives, torch_lib

NOTIFY_INVAL_INODE = 2
SERVER = os.path.join(os.path.dirname(__file__), "forging_server.py")
FUSE = "c=$1/dev; shift; mknod $c c 10 229 && chmod 666 $c && mount --bind $c /dev/fuse && exec \"$@\""  # for every user
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IN_OWN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def with_renamed(ws):
    """(path, offsets): a copy of libtorch_cpu in which operators begin in the middle of an instruction, and where."""
    copy = os.path.join(ws, "renamed.so")
    return copy, doctored.shift_names(os.path.join(torch_lib(), "libtorch_cpu.so"), copy)


def runtime_of(victim):
    with open(f"/proc/{victim.pid}/maps") as f:
        return next(line.split()[5] for line in f if "libstdc++" in line)


@contextlib.contextmanager
def pipe_in(argv):
    """A process whose standard input ends with the block."""
    read, write = os.pipe()
    with Process(["bash", "-c", 'exec "$@" <&' + str(read), "bash", *argv], pass_fds=(read,)) as p:
        os.close(read)
        try:
            yield p
        finally:
            os.close(write)
            p.finish(60)


@contextlib.contextmanager
def forger(ws, copy, runtime):
    """(pid, device) of a process of nobody whose libraries have the identities of torch's."""
    os.makedirs(ws + "/forged", exist_ok=True)
    argv = ["unshare", "--mount", "sh", "-c", FUSE, "sh", ws, *NOBODY, *IN_OWN_NAMESPACE, "env", f"PYTHONPATH={TESTS}",
            "/usr/bin/python3", SERVER, ws + "/forged", copy, torch_lib(), runtime]
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ws + "/dev")
    with pipe_in(argv) as p:
        words = p.wait_line("^mapped ").string.split()
        yield int(words[1]), words[2]


def in_overlay(ws, device=""):
    """The command prefix of a container: torch comes from an overlay that root mounts, whose device has a number that was
    another one's if `device` names one."""
    site = os.path.dirname(os.path.dirname(torch_lib()))
    for name in ("up", "work", "over", "fill"):
        os.makedirs(f"{ws}/{name}", exist_ok=True)
    script = f"""i=0; cd {ws}
        while mount -t overlay o -o lowerdir={site},upperdir=up,workdir=work over; do
            d=$(stat -c %d over/torch/lib/libtorch_cpu.so); i=$((i+1))
            [ -z "{device}" ] || [ "$d" = "{device}" ] || [ $i = 200 ] && break
            umount over
            [ "$d" -gt "{device}" ] && sleep 0.05 || {{ mkdir fill/$i; mount -t tmpfs t fill/$i; }}
        done; echo device $d; exec "$@" """
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", "env", f"PYTHONPATH={ws}/over",
            "PYTHONDONTWRITEBYTECODE=1"]


def test_identity_of_a_forger(ws, detail):
    """A user's files have the identities of a container's libraries, the device's number included, and the same code, but
    operators begin in the middle of instructions. He is traced first, then the container."""
    os.chmod(ws, 0o755)
    copy, offsets = with_renamed(ws)
    check(len(offsets) > 500, f"only {len(offsets)} operators are elsewhere")
    with private_cache() as wrap, workload("train_loop.py") as reference, started(reference):
        with forger(ws, copy, runtime_of(reference)) as (pid, device):
            first = ptbpf(wrap, "attach", "--dry-run", "--pid", pid, expect=(0, 1))
        with workload("train_loop.py", wrap=in_overlay(ws, device)) as victim, started(victim):
            if f"device {device}" not in victim.out:
                raise Skip(f"the kernel does not give the number {device} again")
            own = sites(ptbpf(wrap, "attach", "--dry-run", "--pid", victim.pid))
            check(not own & offsets, f"{len(own & offsets)} probes of the victim lie within instructions")
            trace = os.path.join(ws, "v.json")
            ptbpf(wrap, "attach", "--pid", victim.pid, "-d", "1s", "-o", ws + "/v.ptb", "--trace", trace, expect=(0, 3))
            survives(victim, reference)
            has_operators(trace, victim.pid)
    check(any("overlay" in line for line in first.err), f"the forger's library is read\n{first.text()}")
    detail(first.err[0])


class Changing(FuseServer):
    """libtorch_cpu of a server of root's that changes its mind."""

    other = None  # what it serves after all of the file was read
    bytes_read = 0

    def answer(self, op, node, body):
        if op == OPEN:  # the kernel forgets what it has read
            self.bytes_read = 0
        if op == READ and self.other:
            self.bytes_read += struct.unpack_from("<QQI", body)[2]
            if self.bytes_read >= len(self.data) and self.data is not self.other:
                threading.Thread(target=self.change).start()
        return super().answer(op, node, body)

    def change(self):
        self.data = self.other
        with contextlib.suppress(OSError):  # the kernel forgets again
            os.write(self.fd, struct.pack("<IiQQqq", 40, NOTIFY_INVAL_INODE, 0, FILE_INODE, 0, 0))


@contextlib.contextmanager
def changing(ws, honest, runtime):
    """(server, pid) of a process of root's that has torch's library from it."""
    lib = torch_lib()
    os.mkdir(ws + "/mnt")
    with Changing(ws + "/mnt", "libtorch_cpu.so", honest, 0) as server:
        argv = ["/usr/bin/python3", "-u", os.path.join(WORKLOADS, "map_libs.py"), lib + "/libc10.so", runtime, server.file(),
                lib + "/libtorch_python.so"]
        with pipe_in(argv) as p:
            p.wait_line("ready")
            yield server, p.pid


def both(ws):
    copy, offsets = with_renamed(ws)
    with open(os.path.join(torch_lib(), "libtorch_cpu.so"), "rb") as f, open(copy, "rb") as g:
        return f.read(), g.read(), offsets


def test_same_identity_with_other_content(ws, spin):
    """On a device whose number is nobody's for ever, what was known of an identity is not used for it again."""
    honest, other, offsets = both(ws)
    spin.wait_line("ready")
    with private_cache() as wrap, changing(ws, other, runtime_of(spin)) as (server, pid):
        check(sites(ptbpf(wrap, "attach", "--dry-run", "--pid", pid)) & offsets, "the copy's probes are not elsewhere")
        server.data = honest  # read again with the next open()
        own = sites(ptbpf(wrap, "attach", "--dry-run", "--pid", pid))
        check(own and not own & offsets, f"{len(own & offsets)} of {len(own)} probes lie within instructions")


def test_other_content_after_the_hash(ws, spin):
    """One content for the hash, another one for the analysis: nothing is known afterwards under the hash of the first."""
    honest, other, offsets = both(ws)
    spin.wait_line("ready")
    with private_cache() as wrap, changing(ws, honest, runtime_of(spin)) as (server, pid):
        server.other = other
        done = ptbpf(wrap, "attach", "--dry-run", "--pid", pid, expect=(0, 1))
        check(server.data is other, f"the server did not change its mind\n{server.bytes_read} {done.text()}")
        check(not sites(done) & offsets, f"{len(sites(done) & offsets)} probes lie within instructions")
        own = sites(ptbpf(wrap, "attach", "--dry-run", "--pid", spin.pid))
        check(own and not own & offsets, f"{len(own & offsets)} probes of another process lie within instructions")


def records(wrap, ws, target):
    """Two attaches to it; the second one analyses nothing."""
    target.wait_line("ready")
    for _ in range(2):
        done = ptbpf(wrap, "attach", "--pid", target.pid, "-d", "1s", "-o", ws + "/a.ptb", "--trace", ws + "/a.json", "--log=plan")
        check(slices(load_trace(ws + "/a.json"), cat="cpu_op", pid=target.pid), "no operators")
    check(any("from the cache" in line for line in done.err), f"analysed again\n{done.text()}")


def test_overlay_of_root(ws):
    """A container's. No hash is remembered for its files; the plan is that of the content."""
    with private_cache() as wrap, workload("spin.py", wrap=in_overlay(ws)) as target:
        records(wrap, ws, target)
        left = subprocess.run([*wrap, "ls", "/var/cache/ptbpf"], capture_output=True, text=True, check=True).stdout.split()
        device = next(int(line.split()[1]) for line in target.out if line.startswith("device "))
        check(not [name for name in left if re.match(f"{device:x}-", name)], f"remembered: {left}")


@contextlib.contextmanager
def mounted_overlay(ws):
    """Where everybody sees it, as container runtimes mount it."""
    site = os.path.dirname(os.path.dirname(torch_lib()))
    for name in ("up", "work", "over"):
        os.mkdir(f"{ws}/{name}")
    subprocess.run(["mount", "-t", "overlay", "o", "-o", f"lowerdir={site},upperdir={ws}/up,workdir={ws}/work", ws + "/over"],
                   check=True)
    try:
        yield ws + "/over"
    finally:
        subprocess.run(["umount", "-l", ws + "/over"], check=False)


def test_overlay_of_root_in_a_user_namespace(ws):
    """A container with users of its own: the mount namespace is theirs, the overlay is root's."""
    os.chmod(ws, 0o755)
    with mounted_overlay(ws) as over, private_cache() as wrap, \
            workload("spin.py", wrap=[*IN_OWN_NAMESPACE, "env", f"PYTHONPATH={over}", "PYTHONDONTWRITEBYTECODE=1"]) as target:
        records(wrap, ws, target)


def test_overlay_of_a_user(ws, detail):
    """Nobody but its user knows what is below."""
    os.chmod(ws, 0o755)
    os.mkdir(ws + "/own")
    site = os.path.dirname(os.path.dirname(torch_lib()))
    script = (f"cd {ws}/own && mount -t tmpfs t . && cd {ws}/own && mkdir up work over && "
              f"mount -t overlay o -o lowerdir={site},upperdir=up,workdir=work,userxattr over && exec \"$@\"")
    wrap = [*IN_OWN_NAMESPACE, "sh", "-c", script, "sh", "env", f"PYTHONPATH={ws}/own/over", "PYTHONDONTWRITEBYTECODE=1"]
    with private_cache() as cache, workload("spin.py", wrap=wrap) as target:
        target.wait_line("ready")
        done = ptbpf(cache, "attach", "--dry-run", "--pid", target.pid, expect=(1,))
        check("overlay" in "\n".join(done.err), f"no reason\n{done.text()}")
        detail(done.err[0])
