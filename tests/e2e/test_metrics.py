# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--metrics of sample: what is served, against reports of the same captures; its format, by prometheus_client's parser, promtool and
Prometheus; clients that do harm."""

import collections
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from support import AGENT, ENVS, Failure, Process, Skip, Tracer, check, report_json, run_ptbpf, shared, wait_for, workload, workspace
from gpu_target import MOCK, need

OPENMETRICS = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
NO_WINDOW = ("--pid", os.getpid(), "--schedule", "wait=1h,active=1s")


def fetch(url, accept=OPENMETRICS, method="GET"):
    request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.headers["Content-Type"], reply.read().decode()


def parse(text):
    """{(sample, labels): value}, by the parser of prometheus_client, which is strict."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = list(parser.text_string_to_metric_families(text))
    for f in families:
        check(f.documentation and (f.unit == "" or f.name.endswith("_" + f.unit)), f"family {f}")
        check(bool(f.unit) == bool(re.search("_(seconds|bytes|ratio)$", f.name)), f"unit of {f.name}: {f.unit!r}")
    return {(s.name, tuple(s.labels.items())): s.value for f in families for s in f.samples}, {f.name: f.type for f in families}


class Scrape:
    def __init__(self, url):
        kind, text = fetch(url)
        check(kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", f"content type {kind}")
        self.values, self.types = parse(text)

    def get(self, name, **labels):
        return self.values[name, tuple(labels.items())]

    def all(self, name):
        """{value of the only label: value}"""
        return {labels[0][1]: v for (n, labels), v in self.values.items() if n == name}


@contextlib.contextmanager
def sampled(folder, *args):
    """ptbpf sample, and the address of its metrics."""
    with Tracer("sample", "--dir", folder, "--metrics", "0", *args) as t:
        yield t, t.wait_line("metrics: (http://127.0.0.1:[0-9]+/metrics)", stream=t.err)[1]
        t.signal(signal.SIGTERM)
        t.expect(0, 1, 3)  # 1: no window was due; 3: the machine is busy


def log_of(folder):
    with open(folder + "/windows.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def settled(folder, url, windows):
    """A scrape and the log of the same windows, at least so many of which were recorded."""
    def both():
        with contextlib.suppress(FileNotFoundError):
            before = log_of(folder)
            scrape = Scrape(url)
            done = sum(v for k, v in scrape.all("ptbpf_windows_total").items() if k != "skipped")
            same = len(before) == done == len(log_of(folder))
            return same and sum("seconds" in w for w in before) >= windows and (scrape, before)
    try:
        return wait_for(both, f"{windows} windows in {folder}")
    except Failure as e:
        raise Failure(f"{e}\n{log_of(folder)}\n{Scrape(url).all('ptbpf_windows_total')}") from None


def near(a, b, text):
    check(abs(a - b) <= 2e-9 + 1e-9 * abs(b), f"{text}: {a}, not {b}")


def total(documents, *keys):
    for key in keys:
        documents = [d[key] for d in documents]
    return sum(documents)


def memory_reports(log):
    out = [json.loads("\n".join(run_ptbpf("report", w["capture"], "--memory", "--json").out)) for w in log]
    return [r["processes"][0] for r in out]


def compare_operators(scrape, reports):
    rows = [{r["key"]: r["self_cpu_ns"] for r in d["rows"] if r["category"] == "cpu_op"} for d in reports]
    named = scrape.all("ptbpf_operator_self_seconds_total")
    check(scrape.get("ptbpf_operators_total") == total(reports, "totals", "operators") > 1000, "operators")
    near(sum(named.values()), sum(sum(r.values()) for r in rows) / 1e9, "self time of all")
    tops = [set(sorted(r, key=r.get)[-10:]) for r in rows]
    # A rare operator that was delayed in one window finds no place when fifty others run in every window.
    missing = set.union(*tops) - set(named)
    check("other" in named and (not missing or len(named) == 51), f"no name: {missing}; names {list(named)}")
    for name in set.intersection(*tops):  # others began without a name: later windows may begin before the first is exported
        near(named[name], sum(r[name] for r in rows) / 1e9, name)


def compare_steps(scrape, reports):
    rows = [r for d in reports for r in d["rows"] if r["key"] == "ProfilerStep*"]
    steps = scrape.get("ptbpf_step_duration_seconds_count")
    check(steps == total(rows, "count") > 5, f"{steps} steps")
    near(scrape.get("ptbpf_step_duration_seconds_sum"), total(rows, "cpu_total_ns") / 1e9, "time of steps")
    check(scrape.get("ptbpf_step_duration_seconds_bucket", le="+Inf") == steps, "the last bucket")
    check(scrape.get("ptbpf_partial_steps_total") == total(reports, "totals", "partial_steps"), "partial steps")


def compare_memory(scrape, memory):
    allocated = sum(d["allocated_bytes"] for p in memory for d in p["devices"] if d["device"] == "CPU")
    check(scrape.get("ptbpf_allocated_bytes_total", device="cpu") == allocated > 0, "allocated bytes")
    for kind in ("minor", "major"):
        check(scrape.get("ptbpf_page_faults_total", kind=kind) == total(memory, "kernel", kind + "_faults"), f"{kind} faults")
    end = memory[-1]["rss"]["end"]
    got = scrape.all("ptbpf_resident_memory_bytes")
    check(abs(sum(got.values()) - end["total"]) <= 0.1 * end["total"] and got["anon"] > 0, f"resident {got}, report {end}")


def compare_waits(scrape, log):
    want = collections.Counter()
    for w in log:
        report = json.loads("\n".join(run_ptbpf("report", w["capture"], "--sched", "--json").out))
        want.update(next(t["waits_ns"] for t in report["threads"] if t["pid"] == t["tid"]))
    for reason, ns in want.items():
        near(scrape.get("ptbpf_wait_seconds_total", reason=reason), ns / 1e9, reason)


def compare_losses(scrape, reports):
    want = collections.Counter()
    for c in (c for d in reports for c in d["loss"]["counters"] if c["loss"] and not c["name"].endswith("_NS")):
        want[c["name"].lower()] += c["value"]
    got = scrape.all("ptbpf_losses_total")
    check({k: v for k, v in got.items() if v} == want and "ring_full" in got, f"losses {got}, not {want}")


def never_less(a, b):
    for (name, labels), v in a.values.items():
        if name.endswith(("_total", "_bucket", "_count", "_sum")):
            check(b.values[name, labels] >= v, f"{name}{labels} went from {v} to {b.values[name, labels]}")


def test_values(ws, detail):
    """Each value is that of reports of the captures."""
    job = shared(workload, "train_loop.py")
    job.wait_line("step 20")
    with sampled(ws + "/w", "--pid", job.pid, "--profile-memory", "--kernel-memory", "--sched", "--schedule",
                 "wait=6s,active=700ms,skip_first_wait=1", "--max-overhead", "off") as (t, url):
        first = Scrape(url)
        check(first.get("ptbpf_windows_total", result="complete") == first.get("ptbpf_operators_total") == 0, "not empty at the begin")
        second, _ = settled(ws + "/w", url, 1)
        scrape, log = settled(ws + "/w", url, 2)
        never_less(first, second)
        never_less(second, scrape)
        exits = [w["exit"] for w in log]
        for result, code in (("complete", 0), ("incomplete", 3), ("failed", 1)):
            check(scrape.get("ptbpf_windows_total", result=result) == exits.count(code), f"{result} windows: {exits}")
        log = [w for w in log if "seconds" in w]
        reports = [report_json(w["capture"]) for w in log]
        compare_operators(scrape, reports)
        compare_steps(scrape, reports)
        compare_memory(scrape, memory_reports(log))
        near(scrape.get("ptbpf_window_seconds_total"), total(log, "seconds"), "recorded time")
        near(scrape.get("ptbpf_overhead_seconds_total"), sum(w["cost_share"] * w["seconds"] for w in log), "cost")
        seconds = log[-1]["seconds"]  # the cost is a whole number of nanoseconds
        near(scrape.get("ptbpf_last_window_overhead_ratio") * seconds, log[-1]["cost_share"] * seconds, "share of the cost")
        near(scrape.get("ptbpf_last_window_late_seconds"), log[-1]["late_seconds"], "late")
        near(scrape.get("ptbpf_last_window_begin_seconds"), log[-1]["begin_unix_ns"] / 1e9, "begin")
        check(scrape.get("ptbpf_targets") == 1 and scrape.get("ptbpf_cpu_seconds_total") > 0, "targets, own time")
        compare_waits(scrape, log)
        compare_losses(scrape, reports)
        check(scrape.types["ptbpf_step_duration_seconds"] == "histogram" and scrape.types["ptbpf_build"] == "info", f"{scrape.types}")
    detail(f"{len(log)} windows, {len(scrape.values)} samples, {scrape.get('ptbpf_step_duration_seconds_count'):.0f} steps")


def tool(name):
    path = os.path.join(ENVS, "prometheus", "usr", "bin", name)
    if not os.path.exists(path):
        raise Skip(f"{path} does not exist: tools/setup.sh legs")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_prometheus(ws):
    """promtool finds nothing to object to; Prometheus scrapes, and answers with the same values."""
    job = shared(workload, "train_loop.py")
    job.wait_line("step 20")
    with sampled(ws + "/w", "--pid", job.pid, "--schedule", "wait=1h,active=500ms,skip_first_wait=1") as (_, url):
        scrape, _ = settled(ws + "/w", url, 1)
        kind, text = fetch(url, "text/plain")
        check(kind == "text/plain; version=0.0.4; charset=utf-8", f"content type {kind}")
        done = subprocess.run([tool("promtool"), "check", "metrics"], input=text, capture_output=True, text=True)
        check(done.returncode == 0 and not done.stdout + done.stderr, f"promtool: {done.stdout}{done.stderr}")
        api = f"127.0.0.1:{free_port()}"
        with open(ws + "/prometheus.yml", "w", encoding="utf-8") as f:
            f.write(f"scrape_configs: [{{job_name: ptbpf, scrape_interval: 1s, static_configs: [{{targets: ['{url.split('/')[2]}']}}]}}]\n")
        with Process([tool("prometheus"), "--config.file=" + ws + "/prometheus.yml", "--storage.tsdb.path=" + ws + "/tsdb",
                      "--web.listen-address=" + api]) as prometheus:
            def query(what):
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    check(prometheus.alive(), prometheus.text())
                    return json.loads(fetch(f"http://{api}/api/v1/{what}")[1])["data"]
            found = wait_for(lambda: (query("query?query=ptbpf_operators_total") or {}).get("result"), "the first scrape")
            check(float(found[0]["value"][1]) == scrape.get("ptbpf_operators_total") > 0, f"{found}")
            found = query("query?query=histogram_quantile(0.5,ptbpf_step_duration_seconds_bucket)")["result"]
            check(0 < float(found[0]["value"][1]) < 60, f"{found}")
            target, = query("targets")["activeTargets"]
            check(target["health"] == "up" and not target["lastError"], f"{target}")
            found = query("metadata?metric=ptbpf_window_seconds")  # only OpenMetrics has units
            check(found["ptbpf_window_seconds"][0]["unit"] == "seconds", f"{found}")


def test_gpu(ws):
    """Busy time of the mock device."""
    need()
    go = ws + "/go"
    with workload("gpu_work.py", MOCK, go, env={"LD_PRELOAD": AGENT}) as job:
        job.wait_line("ready")
        with sampled(ws + "/w", "--pid", job.pid, "--schedule", "wait=1h,active=2s,skip_first_wait=1") as (t, url):
            t.wait_line("recording 1 process", "the window", t.err)
            open(go, "w").close()
            scrape, (w,) = settled(ws + "/w", url, 1)
        open(go + ".leave", "w").close()
        job.finish()
    report = json.loads("\n".join(run_ptbpf("report", w["capture"], "--gpu", "--json").out))
    busy = scrape.all("ptbpf_gpu_busy_seconds_total")
    check(set(busy) == {str(d["id"]) for d in report["gpus"]} and any(busy.values()), f"{busy}")
    for d in report["gpus"]:
        near(busy[str(d["id"])], d["busy_ns"] / 1e9, "busy")
        got = scrape.get("ptbpf_last_window_gpu_busy_ratio", gpu=str(d["id"]))
        check(abs(got - d["busy_share"]) < 1e-6, f"share {got}, report {d['busy_share']}")


def test_clients(ws):
    """Only loopback; connections that stay open and garbage, with answers for others all the while; nothing is left of them."""
    with sampled(ws + "/w", *NO_WINDOW) as (t, url):
        port = int(re.search(":([0-9]+)/", url)[1])
        with open(f"/proc/{t.pid}/net/tcp", encoding="utf-8") as f:
            check(f" 0100007F:{port:04X} 00000000:0000 0A " in f.read(), "not on loopback alone")

        def open_fds():
            return len(os.listdir(f"/proc/{t.pid}/fd"))
        t.wait_line("sampling into", stream=t.err)  # the last that it opens is the control socket
        before = open_fds()
        with contextlib.ExitStack() as stack:
            for i in range(200):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(OSError):
                    s.send((b"", b"GET /metr", b"\r\n\r\n", b"\x16\x03\x01\xff" * 500, b"A" * 30000)[i % 5])
                check(i % 20 or "# EOF" in fetch(url)[1], "no answer")
            check(open_fds() <= before + 32, f"{open_fds()} descriptors, {before} before")
        wait_for(lambda: open_fds() == before, "connections to be closed")
        for path, method, code in (("/metrics", "POST", 405), ("/metrics", "DELETE", 405), ("/", "GET", 404), ("/status", "GET", 404), ("/trigger", "POST", 404), ("/metrics/", "GET", 404)):
            with pytest.raises(urllib.error.HTTPError) as err:
                fetch(f"http://127.0.0.1:{port}{path}", method=method)
            err.value.close()
            check(err.value.code == code, f"{method} {path}: {err.value.code}")
        check(fetch(url, method="HEAD") == ("application/openmetrics-text; version=1.0.0; charset=utf-8", ""), "HEAD")


@pytest.mark.parametrize("address, code, text", [
    ("9464x", 2, "'9464x' is not a valid value for --metrics"),
    ("::1:9464", 2, "'::1:9464' is not a valid value"),
    ("a.host:9464", 2, "'a.host:9464' is not a valid value"),
    ("192.0.2.1:9464", 1, "metrics cannot be served at 192.0.2.1:9464: "),
    (None, 1, "Address already in use"),
])
def test_addresses(address, code, text):
    with workspace() as ws, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        done = run_ptbpf("sample", "--dir", ws, "--metrics", address or f":{s.getsockname()[1]}", *NO_WINDOW,
                         expect=(code,))
    check(sum(text in line for line in done.err) == 1, f"the message lacks {text!r}\n{done.text()}")


def test_ipv6(ws):
    if not os.path.exists("/proc/net/if_inet6"):
        raise Skip("no IPv6")
    with Tracer("sample", "--dir", ws + "/w", "--metrics", "[::1]:0", *NO_WINDOW) as t:
        url = t.wait_line(r"metrics: (http://\[::1\]:[0-9]+/metrics)", stream=t.err)[1]
        check("# EOF" in fetch(url)[1], "no answer")
