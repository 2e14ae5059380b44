# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A target for the agent: executes commands from stdin, one a line, and answers `answer JSON`.

  agent_work.py [notorch]      prints `answer "ready"` first
"""

import ctypes
import json
import os
import struct
import sys
import threading
import time

if sys.argv[1:] != ["notorch"]:
    import torch
    from torch.autograd.profiler import record_function

MEMBERS = ("requests", "state", "ops_why", "gpu_why", "cupti_error", "cupti_version", "tid", "pad", "chunks", "dropped")


class Commands:
    def __init__(self):
        self.open, self.prof, self.busy = [], None, None

    def ops(self, name, cnt):
        """CNT calls of one operator."""
        x, fn = torch.ones(4), getattr(torch, name)
        for _ in range(int(cnt)):
            fn(x)

    def begin(self, *label):
        self.open.append(record_function(" ".join(label)))
        self.open[-1].__enter__()

    def end(self):
        self.open.pop().__exit__(None, None, None)

    def rename(self, name):
        """The first thread, and so the process."""
        with open("/proc/self/comm", "w") as f:
            f.write(name)

    def threads(self, cnt, ops):
        """CNT threads, one after the other, that end at once after so many operators."""
        tids = []

        def work(k):
            tids.append(threading.get_native_id())
            with record_function(f"thread {k}"):
                self.ops("exp", ops)

        for k in range(int(cnt)):
            t = threading.Thread(target=work, args=(k,))
            t.start()
            t.join()
        return tids

    def parallel(self, cnt, ops):
        """CNT threads at once that also raise."""
        def work():
            for _ in range(int(ops)):
                torch.neg(torch.ones(2))
                try:
                    torch.mm(torch.ones(2, 3), torch.ones(2, 3))
                except RuntimeError:
                    pass

        threads = [threading.Thread(target=work) for _ in range(int(cnt))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def fork(self, ops):
        """A child that runs operators and ends; its status."""
        pid = os.fork()
        if pid == 0:
            with record_function("child at work"):
                self.ops("sin", ops)
            os._exit(7 if self.callbacks() else 0)
        return [pid, os.waitpid(pid, 0)[1]]

    def callbacks(self):
        """Whether any callback is registered, according to torch."""
        with open("/proc/self/maps") as f:
            path = next(line.split()[-1] for line in f if line.rstrip().endswith("libtorch_cpu.so"))
        fn = ctypes.CDLL(path)["_ZN2at18hasGlobalCallbacksEv"]
        fn.restype = ctypes.c_bool
        return fn()

    def until_silent(self, limit):
        """Seconds until no callback is registered; None: longer than LIMIT."""
        begin = time.monotonic()
        while self.callbacks():
            if time.monotonic() - begin > float(limit):
                return None
            time.sleep(0.005)
        return time.monotonic() - begin

    def ctl(self):
        """The agent's control block; None: not loaded."""
        try:
            block = (ctypes.c_char * 64).in_dll(ctypes.CDLL(None), "ptbpf_agent_ctl")
        except ValueError:
            return None
        raw = bytes(block)
        return dict(zip(MEMBERS, struct.unpack("<8I2Q", raw[16:64])), magic=raw[:8].decode(errors="replace"))

    def ctl_address(self):
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(None), "ptbpf_agent_ctl"))

    def threads_now(self):
        return len(os.listdir("/proc/self/task"))

    def profile_start(self):
        self.prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self.prof.start()

    def profile_stop(self):
        self.prof.stop()
        return {e.key: e.count for e in self.prof.key_averages()}

    def observe_start(self, path):
        self.observer = torch.profiler.ExecutionTraceObserver()
        self.observer.register_callback(path)
        self.observer.start()

    def observe_stop(self):
        self.observer.stop()
        self.observer.unregister_callback()

    def load(self, path, again="1"):
        """dlopen and dlclose, so many times."""
        dl = ctypes.CDLL(None)
        dl.dlopen.restype, dl.dlclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        return [bool(h) and dl.dlclose(h) == 0 for h in (dl.dlopen(path.encode(), 2) for _ in range(int(again)))]

    def busy_start(self):
        """A thread that runs operators while other commands are executed."""
        self.busy = [threading.Event(), 0, None]

        def work():
            x = torch.ones(3)
            while not self.busy[0].is_set():
                torch.cos(x)
                self.busy[1] += 1

        self.busy[2] = threading.Thread(target=work)
        self.busy[2].start()

    def busy_stop(self):
        self.busy[0].set()
        self.busy[2].join()
        return self.busy[1]


def main():
    commands = Commands()
    if sys.argv[1:] != ["notorch"]:
        torch.set_num_threads(1)
        torch.neg(torch.ones(1))
    print('answer "ready"', flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "exec":
            os.execv("/bin/sleep", ["sleep", "600"])
        print("answer " + json.dumps(getattr(commands, verb)(*words)), flush=True)


if __name__ == "__main__":
    main()
