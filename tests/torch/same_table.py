# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""ptbpf's table must be torch's, byte for byte: the same rows through both.

  same_table.py HELPER     this interpreter's torch; test_functions.py runs it in each environment

Rows come from a real profile and from a generator (names of all lengths and scripts, times from 0 to
days, percentages near rounding borders). torch's times are sums of floats of microseconds; the rows given to
both are those sums rounded to nanoseconds. The unrounded table may differ from it only where a value lies
on the border between two decimals.
"""

import json
import random
import re
import subprocess
import sys

SORT_KEYS = (None, "self_cpu_time_total", "cpu_time_total", "cpu_time", "count", "key", "flops")
MEMORY_KEYS = ("cpu_memory_usage", "self_cpu_memory_usage", "cuda_memory_usage", "self_cuda_memory_usage",
               "device_memory_usage", "self_device_memory_usage")
DEVICE_KEYS = ("self_cuda_time_total", "cuda_time_total", "cuda_time", "self_device_time_total", "device_time_total",
               "device_time")
NO_MEMORY = [0, 0, 0, 0]
NO_DEVICE = [0, 0, 0, 0]


def ours(helper, jobs):
    text = "".join(json.dumps(job) + "\n" for job in jobs)
    out = subprocess.run([helper], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    tables = out.split(b"\0")[:-1]
    assert len(tables) == len(jobs), f"{len(tables)} tables for {len(jobs)} jobs"
    return tables


def make_events(rows, memory=False, gpu=False):
    """Rows [key, count, self_ns, total_ns, shapes, flops, memory: CPU, self, device, self, on a device,
    annotation, device ns: self, total, frames of the stack in lines] as torch's own row objects."""
    from torch.autograd import DeviceType
    from torch.autograd.profiler_util import EventList, FunctionEventAvg
    events = []
    device = "cuda" if memory or gpu else None
    for key, count, self_ns, total_ns, shapes, flops, *rest in rows:
        mem, (on_device, note, self_device_ns, device_ns) = rest[:4], rest[4:8] or NO_DEVICE
        e = FunctionEventAvg()
        e.key, e.count, e.node_id = key, count, -1
        e.self_cpu_time_total, e.cpu_time_total = self_ns / 1000, total_ns / 1000
        e.is_user_annotation, e.use_device = bool(note), device
        e.device_type = DeviceType.CUDA if on_device else DeviceType.CPU
        e.self_device_time_total, e.device_time_total = self_device_ns / 1000, device_ns / 1000
        e.input_shapes, e.overload_name, e.stack = json.loads(shapes) if shapes else "", "", rest[8].split("\n") if rest[8:] and rest[8] else []
        e.flops = flops
        e.cpu_memory_usage, e.self_cpu_memory_usage, e.device_memory_usage, e.self_device_memory_usage = mem
        events.append(e)
    return EventList(events, use_device=device, with_flops=True, profile_memory=memory)


def new_units(text):
    """Older versions wrote Gb, Mb, Kb, b for bytes."""
    from torch.autograd.profiler_util import _format_memory
    return text if _format_memory(0) == "0 B" else re.sub(r"(\d) ([GMK]?)b  ", r"\1 \2B  ", text)


def theirs(job):
    events = make_events(job["rows"], job.get("memory", False), job.get("device", False))
    return new_units(events.table(sort_by=job["sort_by"], row_limit=job["row_limit"])).encode()


def check(helper, jobs, what):
    for job, mine in zip(jobs, ours(helper, jobs)):
        want = theirs(job)
        if mine == want:
            continue
        for a, b in zip(want.decode().split("\n"), mine.decode().split("\n")):
            if a != b:
                print(f"torch: {a!r}\nptbpf: {b!r}")
        sys.exit(f"FAIL {what}: sort_by={job['sort_by']} row_limit={job['row_limit']} rows={job['rows'][:5]}")
    print(f"ok {what}: {len(jobs)} tables, {sum(len(j['rows']) for j in jobs)} rows, byte for byte")


def profile(by_shape):
    import torch
    from torch.profiler import ProfilerActivity, profile as profiler, record_function
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    model(x)
    optimizer = torch.optim.Adam(model.parameters())
    with profiler(activities=[ProfilerActivity.CPU], record_shapes=by_shape, with_flops=by_shape) as prof:
        for i in range(6):
            with record_function("a step with a rather long name, longer than the column is wide " + "x" * i):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            prof.step()
    return prof.key_averages(group_by_input_shape=by_shape)


def check_memory(helper):
    """The columns of memory, and the rows of what is allocated or freed, or fails to be, outside of operators."""
    import torch
    from torch.profiler import ProfilerActivity, profile as profiler
    with profiler(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        for n in (10, 1000, 100000):
            x = torch.ones(n)
            x = x + torch.randn(n)
            del x
        try:
            torch.empty(1 << 50)
        except RuntimeError:
            pass
    events = prof.key_averages()
    rows = rows_of(events)
    mine = {r[0]: r for r in rows if r[0] in ("[memory]", "[OutOfMemory]")}
    assert len(mine) == 2 and mine["[memory]"][6] < 0 and not mine["[OutOfMemory]"][6], f"torch's own rows: {mine}"
    head = events.table(row_limit=0).split("\n")[1].split()
    assert head[-8:] == "CPU Mem Self CPU Mem # of Calls".split(), head
    jobs = [{"sort_by": key, "row_limit": -1, "rows": rows, "memory": True} for key in SORT_KEYS + MEMORY_KEYS]
    check(helper, jobs, "a real profile with memory")


def rows_of(events):
    return [[e.key, e.count, round(e.self_cpu_time_total * 1000), round(e.cpu_time_total * 1000),
             str(e.input_shapes), e.flops, e.cpu_memory_usage, e.self_cpu_memory_usage, e.device_memory_usage,
             e.self_device_memory_usage] for e in events]


def on_border(value, decimals):
    """Whether rounding to so many decimals depends on the last bits of a float."""
    scaled = value * 10 ** decimals
    return abs(scaled - int(scaled) - 0.5) < 1e-5


def in_unit(us):
    return us / 1e6 if us >= 1e6 else us / 1e3 if us >= 1e3 else us


def cells(row, total_self):
    """(value in its unit, decimals) of the row's cells with decimals, left to right."""
    count, own, total = row[1:4]
    out = []
    for us, share in ((own / 1000, True), (total / 1000, True), (total / 1000 / count, False)):
        if share:
            out.append((us * 100 / (total_self / 1000), 2))
        out.append((in_unit(us), 3))
    return out


def excused(a, b, rows, total_self):
    """Lines of one row that differ only in cells whose value lies on a border."""
    number = re.compile(r"\d+\.\d+")
    if a.startswith("Self CPU time total"):
        return on_border(in_unit(total_self / 1000), 3)
    found = [r for r in rows if a.split("  ")[0] == b.split("  ")[0] and r[0][:52] in a and r[4][:80] in a]
    if not found or number.sub("#", a) != number.sub("#", b):
        return False
    def same(row):
        times = slice(-6, -1) if row[5] else slice(-5, None)  # operations are exact
        pairs = zip(number.findall(a)[times], number.findall(b)[times])
        return all(x == y or on_border(*cell) for (x, y), cell in zip(pairs, cells(row, total_self)))

    return any(same(row) for row in found)


def check_real(helper, by_shape):
    events = profile(by_shape)
    rows = rows_of(events)
    jobs = [{"sort_by": key, "row_limit": limit, "rows": rows} for key in SORT_KEYS for limit in (-1, 0, 1, 10, 1000)]
    check(helper, jobs, "a real profile" + (", by input shapes" if by_shape else ""))
    border, total, total_self = 0, 0, sum(r[2] for r in rows)
    # sorted by time, two rows of one rounded time may be in either order
    jobs = [job for job in jobs if job["sort_by"] in (None, "count", "key", "flops")]
    for job, mine in zip(jobs, ours(helper, jobs)):
        want = events.table(sort_by=job["sort_by"], row_limit=job["row_limit"]).split("\n")
        mine = mine.decode().split("\n")
        assert len(want) == len(mine), f"{len(want)} lines, ptbpf has {len(mine)}"
        for a, b in zip(want, mine):
            total += 1
            if a != b:
                assert excused(a, b, rows, total_self), f"\ntorch: {a!r}\nptbpf: {b!r}"
                border += 1
    print(f"ok the same profile unrounded: {total} lines, {border} on the border between two decimals")


def random_rows(rnd):
    alphabets = ("abcdefghijklmnopqrstuvwxyz:_#<> ", "äöüßéèñ", "中文字符", "😀🚀", "0123456789.\"'\\/")
    rows = []
    for _ in range(rnd.randint(1, 12)):
        letters = rnd.choice(alphabets)
        name = "".join(rnd.choice(letters) for _ in range(rnd.choice((1, 2, 10, 40, 50, 51, 52, 53, 55, 56, 80))))
        own = rnd.choice((0, rnd.randint(0, 10 ** rnd.randint(1, 15)), 500 * rnd.randint(0, 4000)))
        rows.append([name, rnd.randint(1, 10 ** rnd.randint(0, 9)), own, own + rnd.choice((0, rnd.randint(0, 10 ** 12)))])
    for r in rows:
        r += ["", 0] + NO_MEMORY
    if rnd.random() < 0.5:
        for r in rows:
            r[4] = str([[rnd.randint(0, 10 ** rnd.randint(1, 4)) for _ in range(rnd.randint(0, 4))]
                        for _ in range(rnd.randint(0, 9))])
    if rnd.random() < 0.5:
        for r in rows:
            r[5] = rnd.choice((0, rnd.randint(1, 10 ** rnd.randint(1, 15)), 10 ** rnd.randint(0, 15)))
    if not sum(r[2] for r in rows):  # torch refuses a total without any self time
        for r in rows:
            r[3] = 0
    return rows


def random_bytes(rnd):
    unit = 1024 ** rnd.randint(0, 4)
    return rnd.choice((1, -1)) * rnd.choice((0, unit, unit - 1, rnd.randint(0, 2 * unit), unit * rnd.randint(1, 2000)))


def check_random_stacks(helper, rnd):
    """Column and lines of stacks, where torch confuses it with FLOPs."""
    jobs = [{"sort_by": rnd.choice(SORT_KEYS), "row_limit": rnd.choice((-1, 0, 3, 100)), "rows": random_rows(rnd)}
            for _ in range(2000)]
    for job in jobs:
        for r in job["rows"]:
            frames = [f"{rnd.choice(('a/ä', 'torch/nn/' * rnd.randint(1, 12), ''))}x.py({rnd.randint(1, 9999)}): {r[0][:20]}f"
                      for _ in range(rnd.randint(0, 4))]
            r[6:] = NO_MEMORY + NO_DEVICE + ["\n".join(frames)]
    check(helper, jobs, "made-up rows with stacks")


def check_random(helper):
    rnd = random.Random(20240229)
    jobs = [{"sort_by": rnd.choice(SORT_KEYS), "row_limit": rnd.choice((-1, 0, 3, 100)), "rows": random_rows(rnd)}
            for _ in range(3000)]
    check(helper, jobs, "made-up rows")
    for job in jobs:
        job["memory"] = True
        job["sort_by"] = rnd.choice(SORT_KEYS + MEMORY_KEYS)
        on_device = rnd.random() < 0.5
        for r in job["rows"]:
            r[6:] = [random_bytes(rnd) for _ in range(2)] + [random_bytes(rnd) if on_device else 0 for _ in range(2)]
    check(helper, jobs, "made-up rows with memory")
    check(helper, [{"sort_by": None, "row_limit": -1, "rows": []}], "no rows")
    check_random_device(helper, rnd)
    check_random_stacks(helper, rnd)


def random_device(rnd):
    """On a device, annotation, self and total time there."""
    own = rnd.choice((0, rnd.randint(0, 10 ** rnd.randint(1, 15)), 500 * rnd.randint(0, 4000)))
    return [int(rnd.random() < 0.4), int(rnd.random() < 0.2), own, own + rnd.choice((0, rnd.randint(0, 10 ** 12)))]


def check_random_device(helper, rnd):
    jobs = [{"sort_by": rnd.choice(SORT_KEYS + MEMORY_KEYS + DEVICE_KEYS), "row_limit": rnd.choice((-1, 0, 3, 100)),
             "rows": random_rows(rnd), "device": True, "memory": rnd.random() < 0.5} for _ in range(3000)]
    for job in jobs:
        idle = rnd.random() < 0.2
        for r in job["rows"]:
            if job["memory"]:
                r[6:] = [random_bytes(rnd) for _ in range(4)]
            r[10:] = NO_DEVICE if idle else random_device(rnd)
        if not sum(r[12] for r in job["rows"] if r[10] and not r[11]):  # torch refuses percentages of nothing
            for r in job["rows"]:
                r[12] = 0
    check(helper, jobs, "made-up rows with GPU time")


if __name__ == "__main__":
    import torch
    print(f"torch {torch.__version__}")
    check_real(sys.argv[1], False)
    check_real(sys.argv[1], True)
    check_memory(sys.argv[1])
    check_random(sys.argv[1])
