# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many threads that live at the same time, each with a few operators.

  many_threads.py COUNT     prints `ready`; starts COUNT threads, lets all of them compute once all of them live, and
                            prints `final SUM`, which depends on COUNT alone.
"""

import sys
import threading

import torch


def main():
    count = int(sys.argv[1])
    torch.set_num_threads(1)
    threading.stack_size(256 << 10)
    all_live, values = threading.Barrier(count + 1), [0] * count

    def work(k):
        x = torch.full((2,), float(k))
        all_live.wait()
        values[k] = int(torch.neg(x).sum().item())

    print("ready", flush=True)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    all_live.wait()
    for t in threads:
        t.join()
    print(f"final {sum(values)}", flush=True)


if __name__ == "__main__":
    main()
