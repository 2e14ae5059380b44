# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The CPython of a process: found, its layout verified, its frames read from outside; versions that are refused; programs that only
look like Python. The stacks that ptbpf decodes are compared with what the process says of itself.

Interpreters: the main environment's, the system's, those of the chroots, and what $PTBPF_PYTHONS matches."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from support import BUILD, ENVS, PYTHON, ROOT, WORKLOADS, Process, Skip, check, run_ptbpf, wait_for, workload

TOOL = os.path.join(BUILD, "tests", "python_tool")
REUSED = 1000  # functions of each kind
STACKS = os.path.join(BUILD, "tests", "stack_tool")
FAKE = os.path.join(BUILD, "tests", "workloads", "fake_python")
EMBED = os.path.join(BUILD, "tests", "workloads", "embed_python")
OTHERS = os.environ.get("PTBPF_PYTHONS", os.path.expanduser("~/.pyenv/versions/3.[!6]*/bin/python3"))
SUPPORTED = range(9, 16)

# The mounts of a chroot exist in the namespace of the process in it, and end with it.
IN_CHROOT = """
for m in proc sys dev; do mount --rbind "/$m" "$1/$m"; done
mount --bind "$2" "$1/ptbpf-tests"
root=$1; shift 2
exec chroot "$root" "$@"
"""


def interpreters():
    found = {"main": (None, PYTHON), "system": (None, "/usr/bin/python3")}
    for name, python in (("chroot-trixie", "python3"), ("chroot-unstable", "python3"), ("chroot-unstable", "python3.15")):
        found[f"{name}-{python}"] = (os.path.join(ENVS, name), "/usr/bin/" + python)
    found.update((path, (None, path)) for path in sorted(glob.glob(OTHERS)))
    return [pytest.param(where, id=re.sub(r"^/.*?/(3[.\d]+)/.*", r"other-\1", name)) for name, where in found.items()]


every_python = pytest.mark.parametrize("where", interpreters())


def command(where, script, *args, tests=None):
    """tests: a folder like this one, for a chroot."""
    chroot, python = where
    if not os.path.exists((chroot or "") + python):
        raise Skip(f"{(chroot or '') + python} does not exist: tools/setup.sh legs")
    if not chroot:
        return [python, "-u", os.path.join(WORKLOADS, script), *args]
    tests = tests or os.path.join(ROOT, "tests")
    return ["unshare", "--mount", "sh", "-ec", IN_CHROOT, "sh", chroot, tests, python, "-u", f"/ptbpf-tests/workloads/{script}", *args]


def minor(where):
    argv = command(where, "none")
    argv[argv.index("-u"):] = ["-c", "import sys; print(sys.version_info[1], '%d.%d.%d' % sys.version_info[:3])"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def read_stacks(pid):
    done = subprocess.run([TOOL, str(pid)], capture_output=True, text=True, timeout=100)
    check(done.returncode == 0, f"python_tool ended with {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def as_decoded(stack):
    """What the process says, with the characters that UTF-8 has."""
    return [[re.sub("[\ud800-\udfff]", "\ufffd", text) for text in frame[:2]] + [frame[2]] for frame in stack]


def doctor_row(pid, title="Python"):
    done = run_ptbpf("doctor", "--pid", pid, expect=(0, 1))
    rows = [line for line in done.out if line[5:].startswith(title + " ")]
    check(len(rows) == 1, f"{len(rows)} rows\n{done.text()}")
    return rows[0][5 + 28:].strip()


def compare(pid, truth):
    found = read_stacks(pid)
    check(found["error"] == 0 and not found["why"], f"refused: {found['why']}")
    # two more threads: one reports, one runs, which changes under the reader
    check(found["checked"] == found["threads"] == len(truth) + 2 and found["verified"] > len(truth),
          f"{found['verified']} of {found['checked']} verified, {found['threads']} threads, {len(truth)} wait")
    mine = sorted([frame[:3] for frame in stack] for stack in found["stacks"] if stack and stack[0][1:2] == ["wait"])
    truth = sorted(map(as_decoded, truth))
    for got, want in zip(mine, truth):
        check(got == want, f"decoded {got[:6]}\nthe process says {want[:6]}")
    check(len(mine) == len(truth), f"{len(mine)} stacks of threads that wait, {len(truth)} expected")
    return found, sum(map(len, mine))


def waiting(process):
    process.wait_line("^ready")
    return json.loads(process.wait_line("^stacks (.*)")[1])


@every_python
def test_stacks(where, detail):
    """Every frame of every thread that waits: function, file and line as the process says; one thread runs meanwhile."""
    minor_version, version = minor(where)
    with Process(command(where, "python_stacks.py")) as p:
        if int(minor_version) not in SUPPORTED:
            p.wait_line("^ready")
            found = read_stacks(p.pid)
            check(found["version"].startswith("3." + minor_version) and found["why"] == "the layout of this version is not known", f"{found}")
            return
        found, frames = compare(p.pid, waiting(p))
        named = subprocess.run([TOOL, "threads", str(p.pid)], capture_output=True, text=True, check=True).stdout.split()[1::2]
        check({"MainThread", "spin", "report"} <= set(named), f"names of {found['threads']} threads: {named}")
    check(version.startswith(found["version"]), f"version {found['version']}, {version} expected")
    detail(f"{version}: {frames} frames of {found['threads']} threads")


def futex(pid, tid):
    """The address for which a thread waits that is in futex(2), or 0."""
    with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as f:
        call = f.read().split()
    return int(call[1], 16) if call[0] == "202" else 0


@every_python
def test_gil(where, detail):
    """The lock while threads compete for it, and while one keeps it: the others wait within it, and it names the one."""
    version = int(minor(where)[0])
    if version not in SUPPORTED:
        return
    with Process(command(where, "python_gil.py"), stdin=subprocess.PIPE) as p:
        start, spinners = json.loads(p.wait_line("^lock (.*)")[1])
        gil = read_stacks(p.pid)["gil"]
        check(gil["error"] == 0 and gil["start"] == start, f"{gil} instead of {start}")
        p.send()
        holder, thread = json.loads(p.wait_line("^holder (.*)")[1])
        wait_for(lambda: read_stacks(p.pid)["gil"]["holder"] == holder, "the others' turns are over")
        gil = read_stacks(p.pid)["gil"]
        want = {"error": 0, "start": start, "end": start + 208, "holder": holder, "thread": thread}
        check(gil == want, f"{gil} instead of {want}")
        for spinner in spinners:  # each wakes up at every interval
            wait_for(lambda tid=spinner: start <= futex(p.pid, tid) < gil["end"], f"{spinner} waits in {gil}")
    detail(f"{minor(where)[1]}: {start - holder:#x}")


@every_python
def test_gc(where):
    """How often the garbage collector has run, and whether it runs now."""
    if int(minor(where)[0]) not in SUPPORTED:
        return
    with Process(command(where, "python_gc.py"), stdin=subprocess.PIPE) as p:
        counts = json.loads(p.wait_line("^ready (.*)")[1])
        found = read_stacks(p.pid)
        check(found["collections"] == counts and found["collecting"] == 0, f"{found} instead of {counts}")
        p.send()
        wait_for(lambda: read_stacks(p.pid)["collecting"] == 1, "it collects")
        wait_for(lambda: read_stacks(p.pid)["collections"][2] > counts[2], "a collection is counted")


@every_python
def test_dicts(where, detail):
    """What is read of dicts, texts, numbers and tuples, against what the process says; what is not understood is null, or no dict at all."""
    with Process(command(where, "python_dicts.py"), stdin=subprocess.PIPE) as p:
        for row in json.loads(p.wait_line(r"^(\[.*)").group(1)):
            done = subprocess.run([TOOL, "dict", str(p.pid), str(row["id"])], capture_output=True, text=True, timeout=100)
            got = json.loads(done.stdout) if done.returncode == 0 else done.returncode
            check(got == row["want"], f"{row['name']}: {str(got)[:300]} instead of {str(row['want'])[:300]}")
    detail(f"{minor(where)[1]}")


@every_python
def test_lines(where, detail):
    """Every instruction of a part of the interpreter's own library."""
    if int(minor(where)[0]) not in SUPPORTED:
        return
    rows = subprocess.run(command(where, "python_lines.py", "25"), capture_output=True, text=True, check=True).stdout.splitlines()
    tables, truth = rows[::2], rows[1::2]
    check(len(tables) > 500, f"only {len(tables)} code objects")
    found = subprocess.run([TOOL, "lines"], input="\n".join(tables), capture_output=True, text=True, check=True).stdout.splitlines()
    check(len(found) == len(truth), f"{len(found)} answers")
    for table, got, want in zip(tables, found, truth):
        check(got.split() == want.split(), f"{table[:300]}\n{got[:300]}\n{want[:300]}")
    detail(f"{len(truth)} code objects, {sum(len(row.split()) for row in truth)} instructions")


@every_python
def test_key_from_code(where):
    """The code of PyGILState_GetThisThreadState() and schemas/python agree about autoTSSkey; from 3.15 on only the code has it."""
    version = int(minor(where)[0])
    if version not in SUPPORTED:
        return
    with Process(command(where, "python_stacks.py")) as p:
        waiting(p)
        found = read_stacks(p.pid)
        facts = json.loads(subprocess.run([TOOL, "file", f"/proc/{p.pid}/root{found['object']}" if not where[0] else found["object"]],
                                          capture_output=True, text=True, check=True).stdout)
    with open(os.path.join(ROOT, "schemas", "python", f"cpython-3.{version}.json"), encoding="utf-8") as f:
        key = json.load(f)["layout"]["runtime_key"]
    check(facts["key"] == (-1 if key is None else key), f"{facts}, {key} in the schema")
    check((facts["tls"] == found["slot"]) if key is None else found["slot"] > 0, f"{facts}, slot {found['slot']}")


def test_doctor(detail):
    with workload("python_stacks.py", "subinterpreter") as p:
        cnt = len(waiting(p)) + 2
        version = read_stacks(p.pid)["version"]
        row = doctor_row(p.pid)
    check(row in [f"CPython {version} (free-threaded: no), stacks can be read: verified on {n} of {cnt} threads; 1 other interpreter, whose "
                  "threads have no stacks" for n in (cnt, cnt - 1)], row)
    detail(row)


def test_no_python():
    with Process(["sleep", "1000"]) as p:
        row = doctor_row(p.pid)
    check(row == "no interpreter in the process: it has no Python stacks", row)


def test_pytorch(spin, detail):
    """A process with PyTorch and its threads."""
    spin.wait_line("rate")
    row = doctor_row(spin.pid)
    check(re.search(r"verified on (\d+) of \1 threads", row), row)
    detail(row)


def test_renamed(ws):
    """The system's interpreter, which is linked statically, under another name."""
    copy = os.path.join(ws, "trainer-v2 (deleted)")
    shutil.copy(os.path.realpath("/usr/bin/python3"), copy)
    with workload("python_stacks.py", python=copy, env={"PYTHONHOME": "/usr"}) as p:
        found, _ = compare(p.pid, waiting(p))
    check(os.path.basename(copy).startswith(os.path.basename(found["object"])), found["object"])


def libpython():
    for lib in [*glob.glob("/usr/lib/*/libpython3.*.so.1.0"), *glob.glob(os.path.dirname(OTHERS) + "/../lib/libpython3.1*.so.1.0")]:
        if os.path.exists(lib):
            return lib
    raise Skip("no libpython on this machine")


def test_embedded(ws):
    """A program with a copy of _PyRuntime that is not used, and a libpython under another name."""
    copy = os.path.join(ws, "engine.so")
    shutil.copy(libpython(), copy)
    home = subprocess.run(["/usr/bin/python3", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True).stdout.strip()
    with Process([EMBED, copy, "-u", os.path.join(WORKLOADS, "python_stacks.py")], env={"PYTHONHOME": home}) as p:
        found, _ = compare(p.pid, waiting(p))
    check(found["object"] == copy, found["object"])


def test_embedded_tls():
    """A libpython that asks __tls_get_addr() for the variable of a thread's state, loaded late: its block is elsewhere for each thread."""
    chroot, lib = os.path.join(ENVS, "chroot-unstable"), "/usr/lib/x86_64-linux-gnu/libpython3.15.so.1.0"
    argv = command((chroot, lib), "python_stacks.py")
    with tempfile.TemporaryDirectory(dir=chroot + "/tmp") as folder:
        shutil.copy(EMBED, folder)
        argv.insert(argv.index(lib), os.path.join(folder[len(chroot):], os.path.basename(EMBED)))
        with Process(argv, env={"PYTHONHOME": "/usr"}) as p:
            found, _ = compare(p.pid, waiting(p))
    check(found["object"].endswith("/libpython3.15.so.1.0") and found["slot"] == 8, f"{found['object']}, slot {found['slot']}")


def test_deleted(ws):
    """The interpreter's file is replaced while it runs, as an upgrade does."""
    copy = os.path.join(ws, "python")
    shutil.copy(os.path.realpath("/usr/bin/python3"), copy)
    with workload("python_stacks.py", python=copy, env={"PYTHONHOME": "/usr"}) as p:
        truth = waiting(p)
        os.unlink(copy)
        shutil.copy("/bin/true", copy)
        compare(p.pid, truth)


@every_python
def test_subinterpreter(where):
    if int(minor(where)[0]) not in SUPPORTED:
        return
    with Process(command(where, "python_stacks.py", "subinterpreter")) as p:
        found, _ = compare(p.pid, waiting(p))
    check(found["subinterpreters"] == 1, f"{found['subinterpreters']} other interpreters")


REFUSALS = {
    "zero": "its table for debuggers is missing|its version is not known", "garbage": "damaged|not laid out|not initialized",
    "preliminary": "CPython 3.15.0b2 .*preliminary", "future": "CPython 3.42.0 .*version is not known",
    "free-threaded": "CPython 3.14.2 .*free-threaded builds are not supported", "interpreters": "not initialized",
    "threads": "no thread is where", "slot": "thread state was not found", "frames": "frames or code objects",
    "native": "no thread runs Python code", "texts": "frames or code objects",
    "slow": "to read its threads takes too long",
}


@pytest.mark.parametrize("mode", REFUSALS)
def test_hostile(mode):
    """A _PyRuntime that no CPython made: a refusal with its reason, in time."""
    with Process([FAKE, mode]) as p:
        p.wait_line("ready")
        found = read_stacks(p.pid)
        check(p.alive(), "the process ended")
    row = f"CPython {found['version']} in {found['object']}: stacks cannot be read: {found['why']}"
    check(found["error"] and FAKE in row and re.search(REFUSALS[mode], row), row)


def test_hostile_doctor():
    with Process([FAKE, "garbage"]) as p:
        p.wait_line("ready")
        row = doctor_row(p.pid)
    check(row.startswith(f"CPython 3.14.2 in {FAKE}: stacks cannot be read: "), row)


def reuse_target(where, ws, count):
    """py_reuse.py, and the path of the library whose function it calls, as the process and as the tracer names it."""
    os.makedirs(ws + "/workloads", exist_ok=True)
    shutil.copy(os.path.join(WORKLOADS, "py_reuse.py"), ws + "/workloads")
    lib = shutil.copy(os.path.join(BUILD, "tests", "workloads", "libpy_point.so"), ws + "/workloads")
    inside = "/ptbpf-tests/workloads/libpy_point.so" if where[0] else lib
    return Process(command(where, "py_reuse.py", inside, str(count), tests=ws), stdin=subprocess.PIPE), inside


def point_offset(lib):
    names = subprocess.run(["nm", "--dynamic", lib], capture_output=True, text=True, check=True).stdout
    return "0x" + re.search(r"^(\w+) T py_point$", names, re.M)[1]


@pytest.mark.parametrize("mode", ["counted", "slow"])
@every_python
def test_reused_addresses(where, mode, ws, detail):
    """Functions that are made one after the other at the same address: each has a stack of its own, and no name is another one's.
    counted: the ends of code objects are; slow: they are not, and each code object is read at each call."""
    version = int(minor(where)[0])
    if version not in SUPPORTED:
        return
    target, lib = reuse_target(where, ws, REUSED)
    with target as p:
        p.wait_line("begin")
        lib = f"/proc/{p.pid}/root{lib}"
        with Process([STACKS, str(p.pid), lib, point_offset(lib), mode], stdin=subprocess.PIPE) as tool:
            tool.wait_line("^ready$")
            p.send()
            truth = json.loads(p.wait_line(r"^\[\[").string)
            tool.proc.stdin.close()
            tool.finish()
            rows = json.loads("".join(tool.out[1:]))
    check(rows[-1].pop("counted") == (mode == "counted" and version < 14), "the ends of code objects are probed where CPython does not count them")
    lost = {name: n for name, n in rows[-1].items() if n and name not in ("defs", "stacks", "calls")}
    check(not lost, f"{lost}")
    for kind in range(5):
        named = compare_reused(rows, truth, range(kind * REUSED, (kind + 1) * REUSED))
        detail(f"kind {kind}: {named} of {REUSED} names were read")


def compare_reused(rows, truth, numbers):
    found = {row["def"]: row["frames"][0] for row in rows if "def" in row}
    stacks = {row["call"]: row["stack"] for row in rows if row.get("call", -1) in numbers}
    check(len(stacks) == len(numbers), f"{len(stacks)} calls")
    places, named = {}, 0
    for n, stack in stacks.items():
        places.setdefault(stack, set()).add(tuple(truth[n]))
        named += bool(found.get(stack))
        check(not found.get(stack) or found[stack][:3] == truth[n], f"call {n}: {found.get(stack)} is {truth[n]}")
    check(all(len(p) == 1 for p in places.values()), "two functions have one stack")
    check(named, "no name was read")
    return named
