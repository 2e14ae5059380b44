# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Random programs with GPU work, as captures, for same_gpu_rows.py."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
import run  # noqa: E402

AHEAD, END = 5000000000, 900000000  # of the GPU's clock; of the window
OPS, CALLS, KERNELS = ("aten::linear", "aten::addmm", "aten::is_leaf"), ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"), ("_ZN2at6native4gemmEPf", "k", "void f<int>(int)")


class Program:
    def __init__(self, seed):
        self.rand, self.now, self.free, self.number = random.Random(seed), 0, [0] * 4, 0  # free: when each stream is
        self.lines = ["window begin=1 @1000000", 'meta "gpu\\0true"']
        for thread in range(3):
            self.lines += [f"ring {thread}", f"p10 t{10 + thread} gpu_clock gpu_ns={AHEAD + 1000} mono_ns=1000 err_ns=10 @{END}"]
            self.now = 2000000
            for _ in range(10):
                (self.block if self.rand.random() < 0.8 else self.call)()
        self.lines.append(f"window reason=1 @{END}")

    def later(self, most):
        self.now += 50 + self.rand.randrange(most)
        return self.now

    def one_of(self, *which):
        return self.rand.choice(which)

    def work(self, number):
        stream = self.rand.randrange(4)
        begin = max(self.free[stream], self.now) + self.rand.randrange(3000)
        self.free[stream] = end = begin + 1 + self.rand.randrange(20000)
        kind = self.one_of(*[f'gpu_kernel name="{self.one_of(*KERNELS)}"'] * 6, "gpu_memset dst_kind=3",
                           f"gpu_memcpy copy_kind=1 src_kind={self.one_of(1, 2)} dst_kind=3")
        self.lines.append(f"{kind} begin={AHEAD + begin} end={AHEAD + end} correlation={number} device={stream // 2} stream={stream} @{END}")

    def call(self):
        self.number += 1
        number, begin = self.number, self.later(500)
        if self.rand.randrange(3) == 0:
            self.number += self.rand.randrange(2)
            self.lines.append(f'gpu_api driver=1 name="cuLaunchKernel" begin={AHEAD + self.later(100)} end={AHEAD + self.later(400)} correlation={self.number} @{END}')
        self.lines.append(f'gpu_api name="{self.one_of(*CALLS)}" begin={AHEAD + begin} end={AHEAD + self.later(1000)} correlation={number} @{END}')
        for _ in range(self.rand.randrange(3)):
            self.work(number)

    def block(self, depth=0):
        sp, name = 0x90000 - 0x1000 * depth, self.one_of(*OPS)
        self.number += 1
        handle, note, begin = self.number, self.rand.randrange(4) == 0, self.later(500)
        self.lines += [f'scope_name sp={sp} "{self.one_of("train", "ProfilerStep#7")}" @{begin - 1}', f"scope_begin sp={sp - 64} handle={handle} scope=7 @{begin}"] \
            if note else [f"enter {name} sp={sp} @{begin}"]
        while self.rand.randrange(3):
            if depth < 5 and self.rand.randrange(3):
                self.block(depth + 1)
            else:
                self.call()
        self.lines.append(f"scope_end sp={sp} handle={handle} @{self.later(500)}" if note else f"exit {name} sp={sp - 16} @{self.later(500)}")


def write(folder, count):
    wrong = run.make({f"{seed:03}": Program(seed).lines for seed in range(count)}, folder)
    assert not wrong, wrong
    return [os.path.join(folder, f"{seed:03}.ptb") for seed in range(count)]
