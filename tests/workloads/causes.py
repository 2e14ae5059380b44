# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Training loops with exactly one cause that makes a step slow, their twins without it, and programs that have none.

  causes.py CAUSE [--healthy] [--share S]    --healthy: the twin; S: what the cause shall take of a step, where that can be chosen
  causes.py PROGRAM
  causes.py --list

Prints "ready" when it is warm, then steps until it is killed. A line on stdin or SIGUSR1 is answered after the step with a line of JSON: what
the program measured since the last answer, or since "ready". `share` is what the cause took of the steps, by what `by` names:

  clock      clocks around it in the training thread
  blocked    the time in which the training thread neither ran nor was ready to run
  queue      the time in which it was ready to run, but did not

`threads` is what the kernel says of each thread, `grown` by how many bytes the process grew. The line of a cause has the comment "LINE OF CAUSE"."""

import argparse
import collections
import fcntl
import gc
import hashlib
import itertools
import mmap
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from measured import ROWS, WIDTH, Job, child, end_with_parent, hold_memory, now

CPUS = len(os.sched_getaffinity(0))
BUSY = "import os, select\nif os.fork(): os._exit(0)\nos.setsid()\nwhile not select.select([0], [], [], 0)[0]:\n for _ in range(100000): pass"


class Rows(torch.utils.data.Dataset):
    """A quarter of a batch in each item."""

    def __init__(self, x, seconds):
        self.rows, self.seconds = x[:len(x) // 4].clone(), seconds / 4

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        until = time.monotonic() + self.seconds
        while time.monotonic() < until: # LINE OF slow_loader, slow_workers
            pass
        return self.rows


def load(job, seconds, **options):
    batches = iter(torch.utils.data.DataLoader(Rows(job.x, seconds), batch_size=4, worker_init_fn=lambda _: end_with_parent(), **options))
    job.run(lambda: next(batches).flatten(0, 1))


def slow_loader(job):
    load(job, job.wanted())


def slow_workers(job):
    job.x = torch.randn(6 * ROWS, WIDTH)  # a batch from a worker takes 1 ms
    load(job, job.wanted() / job.share, num_workers=1)


def report(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until: # LINE OF gil
        pass


def gil(job):
    job.by, burst = "blocked", 0.004

    def metrics():
        while True:
            report(0 if job.healthy else burst)
            time.sleep(burst / job.share - burst)

    threading.Thread(target=metrics, name="metrics", daemon=True).start()
    job.run(lambda: None)


def own_threads(job):
    """More threads that compute than there are CPUs; none of them needs the GIL."""
    job.by, data = "queue", b"x" * (1 << 24)

    def work():
        while True:
            hashlib.sha256(data) # LINE OF own_threads

    for _ in range(0 if job.healthy else max(1, round(CPUS / (1 - job.share)) - 1)):
        threading.Thread(target=work, daemon=True).start()
    job.run(lambda: None)


def other_process(job):
    """Processes that are none of its children compete for the CPUs. They end with the pipe."""
    job.by = "queue"
    held = [subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE)
            for _ in range(0 if job.healthy else max(1, round(CPUS / (1 - job.share)) - 1))]
    for process in held:  # the one that began it
        process.wait()
    job.run(lambda: None)


def again(**env):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **env})


def one_cpu(job):
    """Several threads of OpenMP have one CPU, and had it when OpenMP was loaded."""
    job.by = "queue"
    if not job.healthy and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}) # LINE OF one_cpu
        again()
    torch.set_num_threads(1 if job.healthy else 2)
    job.run(lambda: None)


def one_core(job):
    """A large operator that has one core; in the twin it has all, whose threads do not wait by spinning: others may need a CPU."""
    if "OMP_WAIT_POLICY" not in os.environ:
        again(OMP_WAIT_POLICY="passive")
    a, job.x = torch.randn(1024, 1024), torch.randn(4 * ROWS, WIDTH)
    torch.set_num_threads(CPUS if job.healthy else 1)
    job.run(lambda: [torch.mm(a, a)]) # LINE OF one_core


def dispatch(job):
    """Many small operators; in the twin one for all."""
    x, tiny = torch.randn(1 << 16), torch.randn(4)
    count = job.count(lambda: tiny.add_(1))

    def extra():
        if job.healthy:
            x.add_(1)
            return
        for _ in range(count):
            tiny.add_(1) # LINE OF dispatch

    job.run(extra)


def collector(job):
    """The garbage collector runs in each step over many objects; in the twin they are there, too."""
    begun, held = [0], [[i] for i in range(20000)]

    def notice(phase, _):
        job.took, begun[0] = job.took + (now() - begun[0] if phase == "stop" else 0), now()

    held.extend([i] for i in range(len(held) * (job.count(gc.collect) - 1)))
    gc.callbacks.append(notice)
    while True:
        if not job.healthy:
            gc.collect() # LINE OF collector
        job.train()
        job.step()


def item(job):
    """The values of a tensor one by one; in the twin all at once."""
    few = torch.randn(50)
    losses = torch.randn(50 * job.count(lambda: [v.item() for v in few]))
    job.run((lambda: losses.tolist()) if job.healthy else (lambda: [v.item() for v in losses])) # LINE OF item


def recompile(job):
    """Each step has a new shape."""
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1 << 30  # pylint: disable=protected-access
    job.x, lengths = torch.randn(4 * ROWS, WIDTH), itertools.count(2)

    @torch.compile(backend="eager", dynamic=False)
    def scale(x):
        return x * 2 + 1

    def extra():
        n = 1 if job.healthy else next(lengths)
        if n % 64 == 0:  # else each call looks through more and more of what was compiled
            torch.compiler.reset()
        scale(torch.ones(n)) # LINE OF recompile

    job.run(extra)


def fresh_memory(job):
    """What is freed goes back to the kernel, and comes again page by page."""
    def unit():
        torch.ones(1 << 18) # LINE OF fresh_memory

    hold_memory(False)
    count = job.count(unit)
    hold_memory(True)
    job.spared = count * job.plain_ns(unit)
    hold_memory(job.healthy)
    job.run(lambda: [unit() for _ in range(count)])


def save(job):
    with tempfile.TemporaryFile(dir="/var/tmp") as f:
        def unit():
            f.seek(0)
            torch.save(job.model.state_dict(), f)
            os.fsync(f.fileno()) # LINE OF save

        count = job.count(unit)
        job.run(lambda: [unit() for _ in range(0 if job.healthy else count)])


def flush(job):
    """A line is written to a file, and to its disk."""
    with tempfile.TemporaryFile(dir="/var/tmp", buffering=0) as f:
        def unit():
            f.write(b"a line of a log\n")
            os.fsync(f.fileno()) # LINE OF flush

        count = job.count(unit)
        job.run(lambda: [unit() for _ in range(0 if job.healthy else count)])


def read_file(job):
    """A file is read past the page cache."""
    size = 1 << 20
    fd, buf = os.open("/var/tmp", os.O_TMPFILE | os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, size)
    os.pwrite(fd, buf, 0)
    count = job.count(lambda: os.preadv(fd, [buf], 0))
    if job.healthy:
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        count = 1
    job.run(lambda: [os.preadv(fd, [buf], 0) for _ in range(count)]) # LINE OF read_file


def sleep(job):
    seconds = job.wanted()
    job.run(lambda: job.healthy or time.sleep(seconds)) # LINE OF sleep


def lock(job):
    """Another thread holds a lock while it sleeps."""
    seconds, held, begin = job.wanted() / job.share, threading.Lock(), threading.Semaphore(0)

    def hold():
        while True:
            begin.acquire()
            with held:
                time.sleep(seconds) # LINE OF the holder

    threading.Thread(target=hold, name="holder", daemon=True).start()
    while True:
        begin.release()  # it takes the lock at the first operator
        job.train()
        with job.cause():
            held.acquire() # LINE OF lock
        held.release()
        job.step()


def queue(job):
    """Batches come through a queue from another process, which sleeps."""
    batches, seconds = multiprocessing.get_context("fork").Queue(2), job.wanted() / job.share

    def feed():
        while True:
            time.sleep(seconds)
            batches.put(1)

    child(feed)
    job.run(lambda: batches.get()) # LINE OF queue


def pair(job, work, *args):
    """work(job, rank, args) in two processes; this one is rank 0."""
    def member(rank, folder):
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
        torch.distributed.barrier()
        if rank == 1:
            job.speaks = job.listens = False
        else:
            cleanup()
        work(job, rank, *args)

    folder = tempfile.mkdtemp()
    cleanup = lambda: shutil.rmtree(folder)
    child(member, 1, folder)
    member(0, folder)


def late_rank(job):
    """The other rank has more to compute: its batch is larger."""
    def work(_, rank):
        if rank == 1 and not job.healthy:
            job.x = torch.randn(round(ROWS / (1 - job.share)), WIDTH)
        grads = torch.ones(1 << 16)

        def train(_):
            job.train()
            with job.cause():
                torch.distributed.all_reduce(grads) # LINE OF late_rank
        job.run(lambda: None, train)

    pair(job, work)


def optimizer(job):
    """Adam works on many small parameters one by one; in the twin on all at once."""
    def adam(count, fused):
        small = [torch.zeros(64, requires_grad=True) for _ in range(count)]
        for p in small:
            p.grad = torch.ones(64)
        return torch.optim.Adam(small, foreach=False, fused=fused) # LINE OF optimizer

    def forward():
        job.model.zero_grad()
        job.model(job.x).square().mean().backward()

    job.optimizer = adam(10 * job.count(adam(10, False).step, forward), job.healthy)

    def train(_):
        forward()
        with job.cause():
            job.optimizer.step()

    job.run(lambda: None, train)


def zero_grads(job):
    """Gradients are set to zero, not to None, also those of the experts that the step does not need."""
    job.use(nn.ModuleList(nn.Linear(512, 512) for _ in range(32)), fused=True)
    x, turns = torch.randn(3 * ROWS, 512), itertools.cycle(job.model)

    def train(_):
        with job.cause():
            job.optimizer.zero_grad(set_to_none=job.healthy) # LINE OF zero_grads
        next(turns)(x).square().mean().backward()
        job.optimizer.step()

    for _ in job.model:  # each has a gradient
        train(None)
    job.run(lambda: None, train)


def loop_indexing(job):
    """A tensor is computed element by element; in the twin as a whole."""
    x, y = torch.randn(2, 1024)

    def element(i=0):
        y[i] = x[i] * 2 # LINE OF loop_indexing

    count = job.count(element)
    job.run((lambda: [torch.mul(x, 2, out=y)]) if job.healthy else (lambda: [element(i % 1024) for i in range(count)]))


def bias(job):
    """Layers before a batch normalization have a bias. What it takes is little: what the sum of a layer's gradient takes alone."""
    count, width, job.x = 4, 16, torch.randn(1 << 14, 16)
    job.use(nn.Sequential(*(part for _ in range(count)
                            for part in (nn.Linear(width, width, bias=not job.healthy), nn.BatchNorm1d(width), nn.ReLU())))) # LINE OF bias
    if not job.healthy:
        job.spared = -count * job.plain_ns(lambda: job.x.sum(0))
    job.run(lambda: None)


def recompute(job):
    """The activations of each layer are computed again in the backward pass."""
    def block(part, x):
        if torch._C._current_graph_task_id() == -1:  # pylint: disable=protected-access
            return part(x)
        with job.cause():
            return part(x)

    def train(_):
        job.optimizer.zero_grad()
        x = job.x
        for part in blocks:
            x = block(part, x) if job.healthy else checkpoint(block, part, x, use_reentrant=False) # LINE OF recompute
        x.square().mean().backward()
        job.optimizer.step()

    parts = list(job.model)
    blocks = [nn.Sequential(*parts[i:i + 8]) for i in range(0, len(parts), 8)]
    job.run(lambda: None, train)


def growth(job):
    """Each step keeps a tensor of 64 KiB, up to 2 GiB."""
    kept = collections.deque(maxlen=1 if job.healthy else 1 << 15)
    job.run(lambda: kept.append(torch.ones(1 << 14))) # LINE OF growth


# Programs without a cause.

def mlp(job):
    job.run(lambda: None)


def cnn(job):
    job.use(nn.Sequential(nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
                          nn.Flatten(), nn.Linear(6272, 10)))
    job.x = torch.randn(16, 3, 32, 32)
    job.run(lambda: None)


def transformer(job):
    job.model = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 3)
    job.optimizer = torch.optim.AdamW(job.model.parameters(), fused=True)
    job.x = torch.randn(16, 32, 128)
    job.run(lambda: None)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 256), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][-1])


def lstm(job):
    job.use(Recurrent())
    job.x = torch.randn(8, 64, 128)
    job.run(lambda: None)


def embedding(job):
    """With sparse gradients."""
    job.use(nn.Sequential(nn.EmbeddingBag(20000, 64, sparse=True), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
    job.x = torch.randint(20000, (1024, 32))
    job.run(lambda: None)


def inference(job):
    job.model.eval()
    job.x = torch.randn(4 * ROWS, WIDTH)

    def infer(_):
        with torch.inference_mode():
            job.model(job.x)

    job.run(lambda: None, infer)


def workers(job):
    job.x = torch.randn(6 * ROWS, WIDTH)
    load(job, 0, num_workers=2)


def ranks(job):
    def work(_, rank):
        job.use(nn.parallel.DistributedDataParallel(job.model))
        job.run(lambda: None)
    pair(job, work)


def compiled(job):
    job.use(torch.compile(job.model, backend="aot_eager"))
    job.run(lambda: None)


CAUSES = {f.__name__: f for f in (slow_loader, slow_workers, gil, own_threads, other_process, one_cpu, one_core, dispatch, collector, item,
                                  recompile, fresh_memory, save, flush, read_file, sleep, lock, queue, late_rank, optimizer, zero_grads,
                                  loop_indexing, bias, recompute, growth)}
PROGRAMS = {f.__name__: f for f in (mlp, cnn, transformer, lstm, embedding, inference, workers, ranks, compiled)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?", choices=[*CAUSES, *PROGRAMS])
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list or not args.name:
        print("causes:", *CAUSES, "\nprograms:", *PROGRAMS)
        return
    (CAUSES.get(args.name) or PROGRAMS[args.name])(Job(args.name, args.healthy or args.name in PROGRAMS, args.share))


if __name__ == "__main__":
    main()
