# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""planted.py PROBLEM: a program with one known problem; prints "ready" when it has begun. What ptbpf says of it: test_first_minute.py."""

import http.server
import subprocess
import sys
import tempfile
import time

import torch


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        until = time.monotonic() + 0.05
        while time.monotonic() < until: # LINE OF THE LOADER
            pass
        return torch.randn(3, 8, 8)


def small():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    return model, torch.optim.SGD(model.parameters(), 0.01)


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


def steps(extra=lambda: None, rows=32):
    model, optimizer = small()
    for n in range(1 << 60):
        step(model, optimizer, torch.randn(rows, 3, 8, 8))
        extra()
        if n == 20:
            print("ready", flush=True)


def slow_loader():
    model, optimizer = small()
    for n, x in enumerate(torch.utils.data.DataLoader(Images(), batch_size=4, num_workers=1)): # LINE OF THE LOOP
        step(model, optimizer, x)
        print("batch" if n != 2 else "ready", flush=True)


def tensor_leak():
    kept = []
    steps(lambda: (kept.append(torch.ones(16384) * 2), time.sleep(0.01))) # LINE OF THE LEAK


def python_leak():
    log = []
    steps(lambda: (log.extend("sample %d of a step" % i for i in range(2000)), time.sleep(0.005)))


def item():
    small()
    print("ready", flush=True)
    while True:
        for v in torch.randn(64):
            v.item() # LINE OF THE ITEM


def launcher():
    child = subprocess.Popen([sys.executable, __file__, "steps"], stdout=subprocess.DEVNULL)
    print("child", child.pid, flush=True)
    print("ready", flush=True)
    child.wait()


def rank(number, store):
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=number, world_size=2)
    model, optimizer = small()
    model = torch.nn.parallel.DistributedDataParallel(model)
    for n in range(1 << 60):
        if number == 1:
            time.sleep(0.03)
        step(model, optimizer, torch.randn(32, 3, 8, 8))
        if n == 20 and number == 0:
            print("ready", flush=True)


def slow_rank():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank, (folder + "/store",), 2)


def idle():
    torch.ones(3).sum()
    print("ready", flush=True)
    http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler).serve_forever()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
