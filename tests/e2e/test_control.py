# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The control socket of ptbpf sample: windows on request beside the schedule and at a given time, status against the log, curl, clients that
may not or do harm."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from support import ENVS, ROOT, Skip, Tracer, check, children_of, load_trace, modified_code, report_json, run_ptbpf, soak, wait_for
from test_sample import links_of, log_of

TRIGGERS = 1000 if soak() else 5
FLOOD = 20000 if soak() else 2000
IDLE = 200  # more than are kept
MEMORY_KIB = 4096  # by which ptbpf sample may grow in all that


@contextlib.contextmanager
def daemon(ws, *args, name="w"):
    """ptbpf sample with its socket at WS/NAME.sock, until SIGTERM."""
    with Tracer("sample", "--dir", f"{ws}/{name}", "--control", f"{ws}/{name}.sock", *args) as t:
        t.control = f"{ws}/{name}.sock"
        t.wait_line("sampling into", "the start", t.err)
        yield t
        t.signal(signal.SIGTERM)
        t.expect(0, 3)


def trigger(t, *args, expect=0):
    return run_ptbpf("trigger", "--control", t.control, *args, expect=expect)


def status(t):
    document = json.loads("\n".join(run_ptbpf("status", "--json", "--control", t.control).out))
    return document["daemons"][0]["status"]


def wait_state(t, state):
    return wait_for(lambda: next((w for w in status(t)["windows"]["in_hand"] if w["state"] == state), None), f"a window that is {state}")


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.settimeout(60)
    return s


def ask(path, what, body=b"", declared=None):
    """The status of an answer, and its JSON."""
    with connect(path) as s:
        s.sendall(f"{what} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body) if declared is None else declared}\r\n\r\n".encode() + body)
        head, answer = b"".join(iter(lambda: s.recv(1 << 16), b"")).split(b"\r\n\r\n", 1)
    return int(head.split()[1]), json.loads(answer)


def curl(t, path, *args):
    """Likewise, by curl."""
    done = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "--unix-socket", t.control, *args, "http://ptbpf" + path], capture_output=True, text=True,
                          check=True)
    return int(done.stdout[-3:]), done.stdout[:-3]


def test_request(ws, spin):
    """A window of the selected processes and one of named ones; who asked is in the log; its files are whole; a status says the same."""
    spin.wait_line("rate")
    with daemon(ws, "--pid", spin.pid, "--schedule", "none", "--traces", "json.gz") as t:
        first = run_ptbpf("trigger", "--dir", ws + "/w", "--control", t.control, "--wait", "-d", "300ms")
        second = trigger(t, "--wait", "-d", "200ms", "--pid", spin.pid, "--json")
        a, b = log_of(ws + "/w")
        document = json.loads("\n".join(run_ptbpf("status", "--json", "--control", t.control).out))
        text = run_ptbpf("status", "--control", t.control).out
        check(not children_of(t.pid) and not links_of(t.pid), "something is attached after the windows")
    check(first.out[0] == "window 0" and first.out[2:] == [a["capture"], a["trace"]], f"what it printed: {first.out}; {a}")
    check([json.loads(line) for line in second.out] == [{"version": 1, "ok": True, "window": 1, "ended": b}], f"what it printed: {second.out}; {b}")
    for w, client in ((a, first), (b, second)):
        check(w["trigger"] == "request" and w["requested_by"] == {"uid": 0, "pid": client.pid} and w["exit"] == 0, f"window: {w}")
    check(a["seconds"] >= 0.3 and b["pids"] == [spin.pid], f"windows: {a}, {b}")
    trace = load_trace(a["trace"])
    check(trace["ptbpf"]["capture"]["trigger"] == "request" and "aten::neg" in str(report_json(b["capture"])), "the files")
    d = document["daemons"][0]["status"]
    check(d["windows"]["last"] == [a, b] and d["windows"]["complete"] == 2 and not d["windows"]["in_hand"], f"the status: {d['windows']}")
    check([x["pid"] for x in d["targets"]] == [spin.pid] and d["daemon"]["dir"] == ws + "/w", f"the status: {d}")
    check(d["control"]["triggers"] == 2 and d["control"]["refused"] == 0 and d["cost"]["charged_seconds"] > 0, f"the status: {d}")
    size = sum(os.path.getsize(w[k]) for w in (a, b) for k in ("capture", "trace"))
    check(d["disk"]["bytes"] >= size, f"{d['disk']}, the files have {size}")
    check(any(re.search(rf"^ *{b['window']} .*complete", line) for line in text) and any(str(spin.pid) in line for line in text), f"the text: {text}")


def test_curl(ws, spin):
    """Any client of HTTP has what ptbpf's own have: status, windows, switches, metrics; errors have their codes."""
    if not shutil.which("curl"):
        raise Skip("no curl")
    spin.wait_line("rate")
    with daemon(ws, "--pid", spin.pid, "--schedule", "none") as t:
        code, text = curl(t, "/trigger", "-d", '{"duration_ms": 200, "wait": true}')
        w, = log_of(ws + "/w")
        check(code == 200 and json.loads(text) == {"version": 1, "ok": True, "window": 0, "ended": w}, f"{code} {text}")
        code, text = curl(t, "/status")
        check(code == 200 and json.loads(text)["windows"]["last"] == [w], f"{code} {text}")
        code, text = curl(t, "/metrics")
        check(code == 200 and 'ptbpf_windows_total{result="complete"} 1\n' in text, f"{code} {text}")
        code, text = curl(t, "/toggle", "-d", '{"cuda": false}')
        check(code == 200 and json.loads(text)["off"] == "cuda", f"{code} {text}")
        trigger(t, "-d", "2s")
        for args, expected, error in ((["/trigger", "-X", "POST"], 409, "window 1 "), (["/trigger", "-d", "{"], 400, "not a JSON object"),
                                      (["/toggle", "-d", '{"cpu": false}'], 400, "nothing would be left"), (["/trigger"], 405, "takes POST only"),
                                      (["/"], 404, "there is only /status")):
            code, text = curl(t, *args)
            check(code == expected and error in json.loads(text)["error"], f"{args}: {code} {text}")


def test_toggle(ws, spin):
    """An activity that is switched off is not in the windows that begin then, but in the one in hand and in those after it is switched on again."""
    spin.wait_line("rate")
    with daemon(ws, "--pid", spin.pid, "--schedule", "none") as t:
        def window(*args):
            trigger(t, "--wait", "-d", "200ms", *args)
            return log_of(ws + "/w")[-1]

        def has_ops(w):
            return "aten::neg" in str(report_json(w["capture"]))

        with Tracer("trigger", "--control", t.control, "-d", "2s", "--wait") as client:
            wait_state(t, "recording")
            done = trigger(t, "--toggle", "cpu=off")
            client.expect(0)
        check(done.out == ["from window 1 on: without cpu"], f"the answer: {done.out}")
        in_hand = log_of(ws + "/w")[-1]
        s = status(t)
        off = window()
        for to, code in (("cuda=off", 1), ("cpu=on,cuda=off", 0)):
            done = trigger(t, "--toggle", to, expect=code)
        other = window()
        done = trigger(t, "--toggle", "cuda=on", "--json")
        on = window()
    check("switched_off" not in in_hand and has_ops(in_hand), f"the window in hand: {in_hand}")
    check(s["daemon"]["off"] == "cpu", f"the status: {s['daemon']}")
    check(off["switched_off"] == "cpu" and not has_ops(off), f"without cpu: {off}")
    check(report_json(off["capture"])["capture"]["switched_off"] == "cpu", "META")
    check(other["switched_off"] == "cuda" and has_ops(other), f"without cuda: {other}")
    check(json.loads(done.out[0]) == {"version": 1, "ok": True, "from_window": 3} and "switched_off" not in on and has_ops(on), f"all: {done.out} {on}")
    check("nothing would be left" in "\n".join(t.err), "why it is refused")


def test_toggle_is_kept(ws, spin):
    """SIGHUP: what is switched off stays off, unless that is no longer possible."""
    spin.wait_line("rate")
    conf = ws + "/conf"

    def write(*more):
        with open(conf, "w", encoding="utf-8") as f:
            f.write("\n".join([f"pid={spin.pid}", f"dir={ws}/w", f"control={ws}/w.sock", *more]) + "\n")

    write("schedule=none")
    with Tracer("sample", "--config", conf) as t:
        t.control = ws + "/w.sock"
        t.wait_line("sampling into", "the start", t.err)
        trigger(t, "--toggle", "cpu=off")
        write("schedule=none", "max-disk=1GiB")
        t.signal(signal.SIGHUP)
        t.wait_line("is read again", "the new settings", t.err)
        wait_for(lambda: status(t)["daemon"].get("off") == "cpu", "the switch")
        write("schedule=wait=1000000,active=1")
        t.signal(signal.SIGHUP)
        t.wait_line("cpu is no longer switched off: .*counted in steps", "the message", t.err)
        done = trigger(t, "--toggle", "cpu=off", expect=1)
        check("counted in steps" in done.text() and "off" not in status(t)["daemon"], done.text())
        t.signal(signal.SIGTERM)
        t.expect(0, 1, 3)


VALIDATE = """
import json, jsonschema, sys
sys.path.append(sys.argv[1])
from bundle_schemas import bundled
for document in json.load(sys.stdin):
    jsonschema.validate(document, bundled("status"))
"""


def test_schema(ws, spin):
    """What it prints as JSON fits its schema, also of windows that wait and of one that was killed."""
    spin.wait_line("rate")
    with daemon(ws, "--pid", spin.pid, "--schedule", "wait=1h,active=1s", "--max-overhead", "1%", "--max-disk", "1GiB") as t:
        trigger(t, "-d", "50ms", "--wait")
        trigger(t, "--start-at", int(time.time() * 1000) + 600000)
        documents = [json.loads("\n".join(run_ptbpf("status", "--json", "--control", path, expect=code).out))
                     for path, code in ((t.control, 0), (ws + "/none", 1))]
    check([len(documents[0]["daemons"][0]["status"]["windows"][k]) for k in ("last", "next")] == [1, 2], f"{documents[0]}")
    python = os.path.join(ENVS, "consumers", "bin", "python")
    if not os.path.exists(python):
        raise Skip("no jsonschema: tools/setup.sh legs installs it")
    done = subprocess.run([python, "-c", VALIDATE, os.path.join(ROOT, "tools")],
                          input=json.dumps(documents), capture_output=True, text=True)
    check(done.returncode == 0, done.stderr[-2000:])


def test_beside_the_schedule(ws, spin):
    """While a window is recorded a request is refused; a window of the schedule in whose time a requested one falls is left out and counted;
    without a process there is none."""
    spin.wait_line("rate")
    with Tracer("sample", "--dir", ws + "/u", "--control", ws + "/u.sock", "--pid", spin.pid, "--schedule", "active=60s") as t:
        t.control = ws + "/u.sock"
        t.wait_line("recording 1 process", "the window", t.err)
        busy = status(t)["windows"]["in_hand"]
        done = trigger(t, "-d", "1s", expect=1)
        check(busy[0]["state"] == "recording" and f"window {busy[0]['window']} is being recorded" in done.text(), done.text())
    with daemon(ws, "--pid", spin.pid, "--schedule", "wait=3s,active=500ms") as t:
        w = wait_for(lambda: in_place_of_next(t), "a request that is taken")
        s = status(t)
    check(w["trigger"] == "request" and w["exit"] == 0 and s["windows"]["skipped"] >= 1, f"window: {w}, {s['windows']}")
    check("a requested one takes its time" in "\n".join(t.err), "the message")
    with daemon(ws, "--comm", "no_such_process", "--schedule", "none", name="v") as t:
        done = trigger(t, expect=1)
        check("there is no process to record" in done.text(), done.text())
        done = trigger(t, "--pid", "999999999", expect=1)
        check("no such process" in done.text(), done.text())
        check(status(t)["control"]["refused"] == 2, "what is refused is not counted")
        trigger(t, "--pid", spin.pid, "-d", "100ms", "--wait")
    w, = log_of(ws + "/v")
    check(w["pids"] == [spin.pid], f"window: {w}")


def in_place_of_next(t):
    """The line of a requested window that begins when the next one of the schedule would; None: that is in hand already."""
    due = status(t)["windows"]["next"][0]["begin_unix_ns"]
    with Tracer("trigger", "--control", t.control, "--wait", "--json", "-d", "200ms", "--start-at", due // 1000000 + 1) as client:
        client.expect(0, 1)
        return json.loads(client.out[-1]).get("ended")


def test_start_at(ws, spin, detail):
    """Two ptbpf begin a window at the same instant, never before it; instants that have passed, that are far ahead or that are taken are refused."""
    spin.wait_line("rate")
    args = ("--pid", spin.pid, "--schedule", "none")
    with daemon(ws, *args) as a, daemon(ws, *args, name="v") as b:
        at = int(time.time() * 1000) + 3000
        for t in (a, b):
            trigger(t, "--start-at", at, "-d", "200ms")
        planned = status(a)["windows"]["next"]
        check(planned == [{"window": 0, "trigger": "request", "begin_unix_ns": at * 1000000}] or not planned, f"what is planned: {planned}")
        for when, text in ((at - 3600000, "s ago"), (at + 3700000, "more than 3600 s ahead"), (at + 100, "")):
            done = trigger(a, "--start-at", when, expect=1)
            check(text in done.text(), done.text())
        logs = [wait_for(lambda d=d: log_of(f"{ws}/{d}"), "the window") for d in "wv"]
    for w, in logs:
        check(w["begin_unix_ns"] == at * 1000000 and w["late_seconds"] >= 0 and w["exit"] == 0, f"window: {w}")
        begin = report_json(w["capture"])["window"]["begin_unix_ns"]
        check(abs(begin - w["begin_unix_ns"] - 1e9 * w["late_seconds"]) < 5e6, f"the capture begins at {begin}: {w}")
    detail("late by " + ", ".join(f"{1000 * w['late_seconds']:.2f} ms" for w, in logs))


REFUSED = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.send(b"GET /status HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
print(s.recv(1 << 16).decode())
"""


def harm(path):
    """Everything that is no request, idle connections, a flood of requests of which nobody reads the answers."""
    rng = random.Random(1)
    idle = [connect(path) for _ in range(IDLE)]
    for text in (b"x", b"{", b"[" * 8000, b'{"version": 1}', rng.randbytes(8000), b'{"pids": [' + b"1," * 2000 + b"1]}"):
        code, answer = ask(path, "POST /trigger", text)
        check(code == 400 and answer["ok"] is False, f"accepted: {text[:80]}")
    for size in (9000, 100000, 1 << 60):
        code, answer = ask(path, "POST /trigger", b" " * 5000, size)
        check(code == 413 and "too long" in answer["error"], f"{size} bytes are accepted")
    deaf = []
    for i in range(FLOOD):
        with contextlib.suppress(OSError):  # one that was closed for newer ones
            deaf.append(connect(path))
            deaf[-1].send((b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /sta", rng.randbytes(3000))[i % 3])
        if len(deaf) > IDLE:
            deaf.pop(0).close()
    for s in idle + deaf:
        s.close()


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def test_other_users_and_harm(ws, spin, detail):
    """Other users are refused with a sentence. Garbage and a flood disturb no window, and leave neither memory nor descriptors behind."""
    spin.wait_line("rate")
    os.chmod(ws, 0o755)
    with daemon(ws, "--pid", spin.pid, "--schedule", "none") as t:
        trigger(t, "-d", "100ms", "--wait")
        check(os.stat(t.control).st_mode & 0o777 == 0o600, "the mode of the socket")
        done = subprocess.run([sys.executable, "-c", REFUSED, t.control], user=65534, capture_output=True, text=True)
        check("PermissionError" in done.stderr, done.stderr)
        os.chmod(t.control, 0o666)
        done = subprocess.run([sys.executable, "-c", REFUSED, t.control], user=65534, capture_output=True, text=True)
        check(" 403 " in done.stdout and "only root" in done.stdout, f"{done.stdout} {done.stderr}")
        before = memory_kib(t.pid), len(os.listdir(f"/proc/{t.pid}/fd"))
        client = Tracer("trigger", "--control", t.control, "-d", "1500ms")
        with client:
            client.expect(0)
        wait_state(t, "recording")
        harm(t.control)
        w = wait_for(lambda: log_of(ws + "/w")[1:], "the window")[0]
        check(w["exit"] == 0 and w["lost"] == 0 and w["seconds"] >= 1.5, f"window: {w}")
        s = wait_for(lambda: (x := status(t))["windows"]["last"][-1]["window"] == 1 and x, "the status")
        check(s["control"]["foreign"] == 1 and s["control"]["malformed"] == 9 and s["control"]["closed"] >= IDLE - 32, f"counts: {s['control']}")
        after = memory_kib(t.pid), len(os.listdir(f"/proc/{t.pid}/fd"))
        check(after[0] - before[0] < MEMORY_KIB and after[1] <= before[1] + 1, f"memory and descriptors: {before}, then {after}")
        detail(f"{after[0] - before[0]} KiB more after the flood")


def test_many_requests(ws, spin, detail):
    """One after the other: nothing is left behind, neither descriptors nor memory nor probes."""
    spin.wait_line("rate")
    with daemon(ws, "--pid", spin.pid, "--schedule", "none", "--max-disk", "50MiB") as t:
        for _ in range(2):
            trigger(t, "-d", "50ms", "--wait")
        before = memory_kib(t.pid), len(os.listdir(f"/proc/{t.pid}/fd"))
        for _ in range(TRIGGERS):
            trigger(t, "-d", "50ms", "--wait")
        wait_for(lambda: len(os.listdir(f"/proc/{t.pid}/fd")) <= before[1], "the last client's connection to be closed")
        after = memory_kib(t.pid), len(os.listdir(f"/proc/{t.pid}/fd"))
        check(after[0] - before[0] < MEMORY_KIB, f"memory and descriptors: {before}, then {after}")
        check(not children_of(t.pid) and not modified_code(spin.pid), "a process or a probe is left")
    log = log_of(ws + "/w")
    check([w["window"] for w in log] == list(range(TRIGGERS + 2)) and all(w["exit"] == 0 for w in log), f"the log: {log[-3:]}")
    late = sorted(w["late_seconds"] for w in log[2:])
    detail(f"{TRIGGERS} requests, {after[0] - before[0]} KiB more; from request to window {1000 * late[len(late) // 2]:.0f} ms (median)")


def test_killed(ws, spin):
    """After kill -9 the socket is there and nobody listens; the next ptbpf takes its place. At the usual path, which --dir names."""
    spin.wait_line("rate")
    args = ("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "none")
    with Tracer(*args) as t:
        path = t.wait_line("control: (/run/ptbpf/w-[0-9a-f]{16}[.]sock)", "its path", t.err)[1]
        run_ptbpf("trigger", "--dir", ws + "/w", "-d", "50ms", "--wait")
        t.signal(signal.SIGKILL)
        t.finish()
    check(os.path.exists(path), "the socket is gone")
    done = run_ptbpf("trigger", "--dir", ws + "/w", expect=1)
    check("no ptbpf sample listens there" in done.text(), done.text())
    check(path not in "\n".join(run_ptbpf("status", "--json", expect=(0, 1)).out), "a status of one that was killed")
    with Tracer(*args) as t:
        t.wait_line("sampling into", "the start", t.err)
        run_ptbpf("trigger", "--dir", ws + "/w/.", "-d", "50ms", "--wait")
        check(path in "\n".join(run_ptbpf("status", "--json", expect=(0, 1)).out), "it is not in the list")
        t.signal(signal.SIGTERM)
        t.expect(0)
    check(not os.path.exists(path), "the socket is left")
    check([w["window"] for w in log_of(ws + "/w")] == [0, 1], "the log")


def test_end(ws, spin):
    """A window that waits for its time is given up when ptbpf ends, and who waits for it is told so."""
    spin.wait_line("rate")
    with daemon(ws, "--pid", spin.pid, "--schedule", "none") as t:
        with Tracer("trigger", "--control", t.control, "--wait", "--start-at", int(time.time() * 1000) + 600000) as client:
            t.wait_line("window 0: requested", "the request", t.err)
            t.signal(signal.SIGTERM)
            client.expect(1)
            check("was ended before the window began" in client.text(), client.text())
        t.expect(0)


@pytest.mark.parametrize("args, code, text", [
    (["trigger", "--start-at", "now"], 2, "not a valid value for --start-at"),
    (["trigger", "--toggle", "cpu"], 2, "not a valid value for --toggle"),
    (["trigger", "--toggle", "cpu=off,cpu=on"], 2, "not a valid value for --toggle"),
    (["trigger", "--toggle", "cpu=off", "--wait"], 2, "excludes"),
    (["trigger", "--control", "/no/such"], 1, "no ptbpf sample listens there"),
    (["trigger", "--dir", "/no/such"], 1, "No such file"),
    (["status", "--control", "/dev/null"], 1, "no ptbpf sample listens there"),
    (["sample", "--pid", "1", "--dir", "/x", "--schedule", "none", "--control", "off"], 2, "without --control off"),
    (["sample", "--pid", "1", "--dir", "/x", "--schedule", "none,active=5s"], 2, "'none' is not valid"),
])
def test_usage(args, code, text):
    done = run_ptbpf(*args, expect=code)
    check(text in done.text(), f"the message lacks {text!r}\n{done.text()}")


def test_no_socket(ws, spin):
    """One that cannot be created is no obstacle, unless it is named."""
    spin.wait_line("rate")
    args = ("sample", "--pid", spin.pid, "--dir", ws + "/w", "--schedule", "active=50ms,repeat=1")
    done = run_ptbpf(*args, "--control", ws + "/no/such", expect=1)
    check("cannot be created: No such file" in done.text(), done.text())
    with open(ws + "/file", "w", encoding="utf-8") as f:
        f.write("text")
    done = run_ptbpf(*args, "--control", ws + "/file", expect=1)
    check("a file that is no socket" in done.text() and os.path.getsize(ws + "/file") == 4, done.text())
    done = run_ptbpf(*args, "--control", "off")
    check("control:" not in done.text(), done.text())
