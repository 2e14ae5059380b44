# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Four threads that do nothing but operators, without Python's lock: TorchScript loops.

Prints `ready`; for each line `N` on stdin every thread runs a loop of N rounds, then `answer SECONDS`.
"""

import sys
import threading
import time

import torch

THREADS = 4


@torch.jit.script
def loop(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x
    for _ in range(n):
        y = torch.neg(y)
    return y


def main():
    torch.set_num_threads(1)
    xs = [torch.ones(4, 4) for _ in range(THREADS)]
    for x in xs:  # the profiling executor settles
        for _ in range(5):
            loop(x, 10)
    gates = [threading.Barrier(THREADS + 1), threading.Barrier(THREADS + 1)]
    rounds = [0]

    def work(x):
        while True:
            gates[0].wait()
            loop(x, rounds[0])
            gates[1].wait()

    for x in xs:  # the same threads for all commands: none begins or ends in a window
        threading.Thread(target=work, args=(x,), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.monotonic()
        rounds[0] = int(line)
        for gate in gates:
            gate.wait()
        print(f"answer {time.monotonic() - begin:.3f}", flush=True)


if __name__ == "__main__":
    main()
