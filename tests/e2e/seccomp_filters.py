# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""seccomp filters for tests, as hexadecimal text: simple ones written by hand, and one made by libseccomp like those of
container runtimes."""

import ctypes
import ctypes.util
import errno
import os
import struct

from support import Skip

ALLOW, LOG, TRACE, USER_NOTIF = 0x7fff0000, 0x7ffc0000, 0x7ff00000, 0x7fc00000
ERRNO, TRAP, KILL_THREAD, KILL_PROCESS = 0x00050000, 0x00030000, 0, 0x80000000
LOAD, JUMP_EQ, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
NR, ARCH, IP, ARGS = 0, 4, 8, 16


def assemble(insns):
    return b"".join(struct.pack("<HBBI", code, yes, no, k & 0xffffffff) for code, yes, no, k in insns).hex()


def fails(code):
    return ERRNO | code


def answers(calls, other=ALLOW):
    """{number of a system call: answer} of a filter."""
    insns = [(LOAD, 0, 0, NR)]
    for nr, ret in calls.items():
        insns += [(JUMP_EQ, 0, 1, nr), (RETURN, 0, 0, ret)]
    return assemble(insns + [(RETURN, 0, 0, other)])


def only(rows):
    """Kills for all calls except these: (number, {argument: its lower 32 bits}, answer); the first match applies."""
    insns = []
    for nr, args, ret in rows:
        checks = [(NR, nr), *((ARGS + 8 * at, value) for at, value in args.items())]
        for k, (offset, value) in enumerate(checks):
            insns += [(LOAD, 0, 0, offset), (JUMP_EQ, 0, 2 * (len(checks) - k) - 1, value)]
        insns.append((RETURN, 0, 0, ret))
    return assemble(insns + [(RETURN, 0, 0, KILL_PROCESS)])


# ---- as in a container ----

class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


EQ, MASKED_EQ = 4, 7
NAMESPACES = 0x7e020000  # CLONE_NEW*
# not allowed in containers, even to root
PRIVILEGED = """acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module fsconfig
 fsmount fsopen fspick get_kernel_syms init_module ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie
 mount mount_setattr move_mount nfsservctl open_by_handle_at open_tree perf_event_open pivot_root process_vm_readv
 process_vm_writev ptrace query_module quotactl quotactl_fd reboot request_key set_mempolicy mbind get_mempolicy
 setdomainname sethostname setns settimeofday swapoff swapon _sysctl sysfs syslog umount2 unshare uselib
 userfaultfd ustat vhangup""".split()


def libseccomp():
    try:
        lib = ctypes.CDLL(ctypes.util.find_library("seccomp") or "libseccomp.so.2")
    except OSError:
        raise Skip("no libseccomp to make a filter as container runtimes do") from None
    lib.seccomp_init.restype = lib.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    lib.seccomp_init.argtypes = [ctypes.c_uint32]
    lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    lib.seccomp_arch_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    lib.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.seccomp_release.argtypes = [ctypes.c_void_p]
    lib.seccomp_syscall_resolve_num_arch.argtypes = [ctypes.c_uint32, ctypes.c_int]
    return lib


class Profile:
    """A filter that returns EPERM for every call that is not allowed, for 64-bit, 32-bit and x32 programs."""

    def __init__(self):
        self.lib = libseccomp()
        self.ctx = self.lib.seccomp_init(ERRNO | errno.EPERM)
        for arch in (0x40000003, 0x4000003e):
            self.lib.seccomp_arch_add(self.ctx, arch)

    def add(self, nr, action, *compares):
        array = (Compare * max(len(compares), 1))(*compares)
        rc = self.lib.seccomp_rule_add_array(self.ctx, action, nr, len(compares), array)
        if rc:
            raise OSError(-rc, f"libseccomp does not take a rule for call {nr}")

    def number(self, name):
        return self.lib.seccomp_syscall_resolve_name(name.encode())

    def hex(self):
        fd = os.memfd_create("filter")
        rc = self.lib.seccomp_export_bpf(self.ctx, fd)
        self.lib.seccomp_release(self.ctx)
        if rc:
            raise OSError(-rc, "libseccomp cannot make the filter")
        with os.fdopen(fd, "rb") as f:
            f.seek(0)
            return f.read().hex()


def container():
    p = Profile()
    special = [p.number(name) for name in PRIVILEGED + ["clone", "clone3", "personality"]]
    for nr in range(470):
        if nr not in special and p.lib.seccomp_syscall_resolve_num_arch(0xc000003e, nr):
            p.add(nr, ALLOW)
    p.add(p.number("clone"), ALLOW, Compare(0, MASKED_EQ, NAMESPACES, 0))
    p.add(p.number("clone3"), ERRNO | errno.ENOSYS)
    for value in (0, 8, 0x20000, 0x20008, 0xffffffff):
        p.add(p.number("personality"), ALLOW, Compare(0, EQ, value, 0))
    return p.hex()
