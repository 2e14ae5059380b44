# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Injection into processes that deceive, or change meanwhile: no byte of another program is written, nothing hangs, and the
message has the reason."""

import contextlib
import os
import random
import signal
import subprocess
import threading
import time

from support import PYTHON, Skip, check, soak, workspace
from inject_target import TARGET, Target, copies, inject, load_all, need_tools, python_target, refused
from test_inject_container import TEMPORARY, Contained, again_as

COMPILER = ["cc", "-O1", "-w"]


def compiled(path, code, *options):
    done = subprocess.run([*COMPILER, "-x", "c", "-", "-o", path, *options], input=code, text=True, capture_output=True)
    if done.returncode:
        raise Skip(f"cannot compile it: {done.stderr.splitlines()[:1]}")
    return path


def test_program_of_32_bits(ws, detail):
    need_tools()
    code = ('static int call(int n, int a, const char *b, int c) { int r; __asm__ volatile("int $0x80" : "=a"(r) : '
            '"a"(n), "b"(a), "c"(b), "d"(c)); return r; } void _start(void) { char c; call(4, 1, "ready\\n", 6); '
            'call(3, 0, &c, 1); call(4, 1, "end\\n", 4); call(1, 0, 0, 0); }')
    program = compiled(ws + "/small", code, "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie",
                       "-fno-stack-protector")
    with Target([program]) as t:
        t.ready()
        (ok, why), = inject(t.pid, "any", copies(ws, 1), 1500)
        check(not ok, "loaded into a program of 32 bits")
        check(t.finish() == ["end"], "the target did not end well")
        detail(why)


def test_fake_libc(ws, detail):
    """A library called libc.so.6 whose dlopen() writes a mark: it is never called."""
    need_tools()
    os.mkdir(ws + "/fake")
    mark = ws + "/called"
    compiled(ws + "/fake/libc.so.6", 'int creat(const char *, int);\n'
             f'void *dlopen(const char *a, int b) {{ creat("{mark}", 0600); return 0; }}\n'
             + "".join(f"void {name}(void) {{}}\n" for name in ("malloc", "free", "dl_iterate_phdr", "swab")),
             "-shared", "-fPIC", "-nostdlib")
    code = f"import ctypes; ctypes.CDLL('{ws}/fake/libc.so.6')\nprint('again', flush=True); sys.stdin.readline()"
    with python_target(code) as t:
        t.ready()
        check(t.proc.stdout.readline() == "again\n", "the fake library was not loaded")
        (ok, why), = inject(t.pid, "ptrace", copies(ws, 1), 3000)
        check(not os.path.exists(mark), "the fake dlopen() was called")
        check(ok or "libc" in why, f"neither loaded by the real one nor refused for it: {why}")
        t.finish()
        detail("loaded by the real one" if ok else why)


EXECS = """
import threading, time
def other():
    time.sleep(float(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, '-c', 'import sys; sys.stdin.readline(); print("after exec")'])
threading.Thread(target=other, daemon=True).start()
def wait():
    while True: sum(range(1000))
for _ in range(3): threading.Thread(target=wait, daemon=True).start()
wait()
"""


def test_exec_in_the_middle(detail):
    """Another thread executes a program at a random moment: that program is unharmed."""
    need_tools()
    rounds, loaded = 100 if soak() else 12, 0
    with workspace() as ws:
        for k, lib in enumerate(copies(ws, rounds)):
            code = "import os, sys\nprint('ready', flush=True)\n" + EXECS
            with Target([PYTHON, "-S", "-c", code, str(random.uniform(0, 0.15))]) as t:
                t.ready()
                (ok, _), = inject(t.pid, "ptrace", [lib], 1000)
                loaded += ok
                check(t.finish() == ["after exec"], f"round {k}: the program that was executed is damaged")
    detail(f"{loaded} of {rounds} loaded before the exec")


def test_killed_target(detail):
    """SIGKILL of the target at a random moment: refused, and nothing hangs."""
    need_tools()
    rounds = 100 if soak() else 12
    with workspace() as ws:
        libs = copies(ws, rounds)
        for lib in libs:
            with Target([TARGET]) as t:
                t.ready()
                killer = threading.Timer(random.uniform(0, 0.02), t.proc.kill)
                killer.start()
                begin = time.monotonic()
                inject(t.pid, "ptrace", [lib], 2000)
                check(time.monotonic() - begin < 60, "it hung")
                killer.join()
    detail(f"{rounds} targets killed")


def test_vfork_all_the_time(ws, detail):
    """A parent that calls vfork() all the time, whose memory the child uses: the library is loaded between the calls, and every
    child is correct."""
    need_tools()
    program = compiled(ws + "/vforks", """
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	struct pollfd in = { 0, POLLIN, 0 };
	volatile int bad = 0, n = 0;
	int st;
	puts("ready"); fflush(stdout);
	while (!poll(&in, 1, 0)) {
		pid_t pid = vfork();
		if (!pid) { execl("/bin/true", "true", (char *)0); _exit(9); }
		if (pid < 0 || waitpid(pid, &st, 0) != pid || st) bad++;
		n++;
	}
	printf("vforks %d bad %d\\n", n > 0, bad);
	return 0;
}
""")
    with Target([program]) as t:
        t.ready()
        text = load_all(t, "ptrace", copies(ws, 20), 2)
        check(t.finish() == ["vforks 1 bad 0"], "a child of vfork was harmed")
        detail(text)


def test_signal_in_the_detour(ws, detail):
    """Signals that arrive while a thread is diverted are handled after its return."""
    need_tools()
    code = """
import signal, sys, threading
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set())).start()
print('ready', flush=True)
while not stop.is_set(): sum(range(2000))
print(len(got))
"""
    with Target([PYTHON, "-S", "-c", code]) as t:
        t.ready()
        results, sent = [], 0
        worker = threading.Thread(target=lambda: results.extend(inject(t.pid, "ptrace", copies(ws, 25))))
        worker.start()
        while worker.is_alive():
            os.kill(t.pid, signal.SIGUSR1)
            sent += 1
            time.sleep(0.002)
        worker.join()
        check(any(ok for ok, _ in results), f"nothing was loaded: {results[:2]}")
        got = int(t.finish()[0])
        check(0 < got <= sent, f"{got} handled of {sent}")
        detail(f"{sum(ok for ok, _ in results)} loaded; {got} handlers ran for {sent} signals")


def test_never_writable(ws, detail):
    """The copy in a container, while it exists: no other process of the user can open it for writing."""
    need_tools()
    lib, = copies(ws, 1)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with Contained(*prefix, PYTHON, "-S", "-c", "import os; print('ready', 1, flush=True)\nwhile 1: pass") as t:
        t.ready()
        seen, stop = [], threading.Event()

        def watch():
            root = f"/proc/{t.pid}/root/tmp"
            while not stop.is_set():
                for name in os.listdir(root):
                    with contextlib.suppress(OSError):
                        st = os.stat(f"{root}/{name}")
                        seen.append((name, st.st_uid, st.st_mode & 0o777))
        watcher = threading.Thread(target=watch)
        watcher.start()
        load_all(t, "ptrace", [lib], 2, 4000)
        stop.set()
        watcher.join()
        os.kill(t.pid, signal.SIGKILL)  # a process that changes its user is not killed with its parent
        found = [s for s in seen if s[0].endswith(".so")]
        check(found, "the copy never existed: the test proves nothing")
        check(all(uid == 0 and not mode & 0o022 for _, uid, mode in found), f"writable for its user: {set(found)}")
        detail(f"{len(set(found))} states of the copy seen, all root's")


def test_full_directory(ws):
    """A full /tmp is skipped."""
    need_tools()
    code = "print('ready', __import__('os').getpid(), flush=True); input(); print('end')"
    with Contained(PYTHON, "-c", code, before="mount -t tmpfs -o size=4k tmpfs /tmp; echo x >/tmp/x; ") as t:
        t.ready()
        load_all(t, "ptrace", copies(ws, 1), 2)
        check(" /tmp/lib" not in t.maps() and t.finish() == ["end"], "not by another directory")


def test_served_by_a_process(ws):
    """FUSE with a server that never answers, in the directory for the copy: refused immediately, and nothing hangs."""
    need_tools()
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    fuse = os.open("/dev/fuse", os.O_RDWR)
    *others, last = TEMPORARY
    mount = (f"mount -i -t fuse -o fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other none {last}; "
             + "".join(again_as(d, "ro") for d in others))
    code = "import os; print('ready', os.getpid(), flush=True)\nwhile 1: pass"
    with Contained(PYTHON, "-S", "-c", code, before=mount, pass_fds=(fuse,)) as t:
        os.close(fuse)  # the target has it open: the file system lives as long as the target
        t.ready()
        refused(t.pid, copies(ws, 1)[0], "FUSE")
