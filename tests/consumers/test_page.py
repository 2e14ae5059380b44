# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The page of a capture in a headless Chromium: it shows what the reports say at any width, light and dark, runs no script but its own, and stays small.
PTBPF_PICTURES=FOLDER keeps the pictures, for whoever changes it."""

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from support import PTBPF, ROOT, check, run_ptbpf

sys.path.insert(0, os.path.join(ROOT, "tools"))
from view_trace import Browser  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, "tests", "unit"))
from hostile import make_texts, texts as cases  # noqa: E402

pytestmark = pytest.mark.unprivileged
PICTURES = os.environ.get("PTBPF_PICTURES")
SIZE_MAX = 3 << 20
WIDTHS, SCHEMES = (400, 1000, 2000), ("light", "dark")
CAPTURES = ("gpu_everything", "rank0+rank1", "kernel_memory", "samples", "window", "nothing") # the first in every size


class Page(Browser):
    """What the page complains of, its policy's refusals among it, is kept."""

    def __init__(self):
        self.complaints = []
        super().__init__(1000, 900)
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(domain + ".enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def message(self, until):
        m = super().message(until)
        if m.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(m["params"])[:500])
        return m

    def show(self, path, width=1000, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.complaints.clear()
        self.call("Page.navigate", url="file://" + path)
        self.wait_for("document.readyState === 'complete' && document.querySelectorAll('#nav a').length > 0", "the page shows no section")

    def picture(self, name):
        height = min(self.js("document.documentElement.scrollHeight"), 16000)
        width = self.js("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])
        if PICTURES:
            os.makedirs(PICTURES, exist_ok=True)
            with open(os.path.join(PICTURES, name + ".png"), "wb") as f:
                f.write(data)
        return data


@pytest.fixture(name="browser", scope="module")
def start_browser(end_of_processes):
    del end_of_processes  # checks after the browser's end, whichever test is the last
    if not shutil.which("chromium"):
        pytest.skip("needs the package chromium")
    b = Page()
    yield b
    b.close()


def export(*captures, path):
    run_ptbpf("export", *captures, "-o", path, expect=(0, 3))
    return path


def documents(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return {key: json.loads(body) for key, body in re.findall(r'<script type="application/json" id="doc-(\w+)">(.*?)</script>', text, re.S)}


def of_text(ws, lines):
    wrong = cases.make({"a": lines}, ws)
    check(not wrong, wrong)
    return export(ws + "/a.ptb", path=ws + "/a.html")


@pytest.mark.parametrize("name", CAPTURES)
def test_looks(browser, golden, ws, name):
    """Each kind of capture: no complaint, nothing wider than the window, no section that could not be made."""
    page = export(*map(golden, name.split("+")), path=ws + "/page.html")
    pictures = {}
    for width, scheme in itertools.product(WIDTHS, SCHEMES if name == CAPTURES[0] else SCHEMES[:1]):
        browser.show(page, width, scheme)
        needed, broken, back = browser.js("[document.documentElement.scrollWidth, document.querySelectorAll('[id^=s-broken]').length, "
                                          "getComputedStyle(document.body).backgroundColor]")
        check(needed == width, f"{needed} wide on {width}")
        check(not broken and not browser.complaints, f"{broken} sections are broken; {browser.complaints}")
        pictures[width, scheme] = browser.picture(f"{name}-{width}-{scheme}"), back
    check(all(len(data) > 10000 for data, _ in pictures.values()), "an empty picture")
    check(len({back for _, back in pictures.values()}) == (2 if name == CAPTURES[0] else 1), "light and dark are the same")


def test_sections(browser, golden, ws):
    """What was not recorded has no section, and a sentence says which option records it."""
    browser.show(export(golden("everything"), path=ws + "/a.html"))
    check(browser.js("[...document.querySelectorAll('#nav a')].map(a => a.textContent)") ==
          ["Verdict", "Steps over time", "Operators", "Lines of code", "Modules", "Flame graph", "Memory", "The recording"], "sections of everything")
    browser.show(export(golden("names"), path=ws + "/b.html"))
    names = browser.js("[...document.querySelectorAll('#nav a')].map(a => a.textContent)")
    said = browser.js("document.getElementById('s-recording').textContent")
    check("Lines of code" not in names and "Memory" not in names, f"sections {names}")
    check("--with-stack" in said and "--profile-memory" in said and "--sched" in said, said)


REPORTS = {"why": ("why",), "operators": ("report",), "lines": ("report", "--by", "line"), "modules": ("report", "--by", "module"),
           "memory": ("report", "--memory"), "gpu": ("report", "--gpu")}


@pytest.mark.parametrize("name", ("everything", "gpu_everything"))
def test_documents(golden, ws, name):
    """The documents of the page are those of the reports, without the session's facts, which are there once."""
    capture = golden(name)
    docs = documents(export(capture, path=ws + "/page.html"))
    for key, (command, *words) in REPORTS.items():
        if key not in docs:
            check(key == "gpu", f"no {key}")
            continue
        limit = () if command == "why" else ("--row-limit", "100" if key in ("memory", "gpu") else "500")
        report = json.loads("\n".join(run_ptbpf(command, capture, *words, *limit, "--json", expect=(0, 3)).out))
        text = json.dumps({k: v for k, v in report.items() if k not in docs["facts"] or k == "schema_version"}).replace(capture, name + ".ptb")
        check(json.loads(text) == docs[key], f"{key} is another document")
        check(all(report[k] == docs["facts"][k] for k in report if k in docs["facts"]), "other facts")


STEPS = ['window begin=1 @1000000', 't1 process comm="python" cmdline="python3 train.py" exe="/usr/bin/python3"']


def steps_of(durations):
    """Steps of so many ms, one after another, each with an operator."""
    lines, at = list(STEPS), 2000000
    for nr, ms in enumerate(durations):
        end = at + int(ms * 1e6)
        lines += (f't1 rf_begin rf=1 seq=-1 scope=7 "ProfilerStep#{nr}" @{at}', f"enter aten::mul sp=0x9000 @{at + 1000}", f"exit aten::mul sp=0x8f00 @{end - 1000}",
                  f"rf_end rf=1 @{end}")
        at = end + 1000
    return lines + [f"window reason=1 @{at + 1000000}"]


def test_steps(browser, ws):
    """One step of forty is slow: it is marked, and in the table."""
    page = of_text(ws, steps_of([10 + nr % 3 / 10 if nr != 17 else 25 for nr in range(40)]))
    [series] = documents(page)["steps"]["series"]
    check((series["count"], series["slow"], series["median_ns"], series["longest_ns"]) == (40, 1, 10100000, 25000000), f"{series}")
    check([s[0] for s in series["list"]] == list(range(40)) and series["list"][1][1] - series["list"][0][1] == 10001000, "numbers and begins")
    browser.show(page)
    check(browser.js("[document.querySelectorAll('#s-steps .slow').length, document.querySelectorAll('#s-steps .step').length]") == [1, 39], "marks")
    check(browser.js("document.querySelector('#s-steps .slow title').textContent").startswith("step 17: 25.0\u00a0ms"), "the mark's title")
    check("median 10.1\u00a0ms" in browser.js("document.querySelector('#s-steps svg').getAttribute('aria-label')"), "what a screen reader says")
    check(browser.js("document.querySelector('#s-steps tbody').textContent").startswith("17"), "the table of slow steps")


def test_steps_without_probes(ws):
    """Of steps after the probes, which are no slices, there is a sentence."""
    captures = cases.read(os.path.join(cases.HERE, "why", "later.case"))[1]
    [series] = documents(of_text(ws, captures["a"]))["steps"]["series"]
    why = documents(ws + "/a.html")["why"]["step"]
    check((series["later_count"], series["later_median_ns"]) == (why["steps"], why["median_ns"]) and series["count"] < why["steps"], f"{series} {why}")


def test_even_steps(ws):
    """None is slow where all are alike, nor where there are too few to say."""
    for durations, above in (([10] * 40, True), ([10, 10, 10, 90], False)):
        [series] = documents(of_text(ws, steps_of(durations)))["steps"]["series"]
        check(series["slow"] == 0 and (series["slow_above_ns"] is not None) == above, f"{series}")


def test_many_steps(ws):
    """Of many steps some are drawn, and all that are slow; the figures are of all."""
    slow = {7, 1234, 4999}
    [series] = documents(of_text(ws, steps_of([1 if nr not in slow else 3 for nr in range(5000)])))["steps"]["series"]
    check(series["count"] == 5000 and series["slow"] == 3 and series["every"] > 1, f"{series['count']}, {series['slow']}, {series['every']}")
    check(slow < {s[0] for s in series["list"]} and len(series["list"]) <= 2000, f"{len(series['list'])} are drawn")


def test_tables(browser, golden, ws):
    """Sorted by a click or a key, searched, and all rows on request."""
    browser.show(export(golden("everything"), path=ws + "/a.html"))
    table = "document.querySelector('#s-operators table')"
    first = f"[...{table}.tBodies[0].rows].map(r => r.cells[0].textContent)"
    rows = documents(ws + "/a.html")["operators"]["rows"]
    check(browser.js(first) == [r["key"] for r in rows[:15]], "the order by self time")
    check(browser.js(f"{table}.tHead.rows[0].cells[1].getAttribute('aria-sort')") == "descending", "aria-sort")
    calls = browser.js(f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent === 'calls')")
    browser.js(f"{table}.tHead.rows[0].cells[{calls}].firstChild.focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    check(browser.js(f"{table}.tHead.rows[0].cells[{calls}].getAttribute('aria-sort')") == "descending", "sorted by a key")
    check(browser.js(first)[0] == max(rows, key=lambda r: r["count"])["key"], "the order by calls")
    browser.js("document.querySelector('#s-operators button.more').click()")
    check(len(browser.js(first)) == len(rows), "all rows")
    browser.js("(e => { e.value = 'ADD'; e.dispatchEvent(new Event('input')); })(document.querySelector('#s-operators input'))")
    check(sorted(browser.js(first)) == sorted(r["key"] for r in rows if "add" in r["key"].lower()), "what was searched for")


def test_accessible(browser, golden, ws):
    """Landmarks, one first heading, names of sections, tables, fields and pictures; all that is used can be reached by keys."""
    browser.show(export(golden("gpu_everything"), path=ws + "/a.html"))
    check(browser.js("['header', 'nav', 'main', 'footer', 'h1'].every(t => document.querySelectorAll(t).length === 1)"), "landmarks")
    check(browser.js("[...document.querySelectorAll('section')].every(s => document.getElementById(s.getAttribute('aria-labelledby')).textContent)"), "names of sections")
    check(browser.js("[...document.querySelectorAll('table')].every(t => t.caption.textContent && [...t.tHead.rows[0].cells].every(c => c.scope === 'col'))"), "tables")
    check(browser.js("[...document.querySelectorAll('tbody tr')].every(r => r.cells[0].scope === 'row')"), "heads of rows")
    check(browser.js("[...document.querySelectorAll('input, select')].every(e => e.labels.length || e.getAttribute('aria-label'))"), "labels of fields")
    check(browser.js("[...document.querySelectorAll('svg, canvas, .stack')].every(e => e.getAttribute('role') === 'img' && e.getAttribute('aria-label'))"), "names of pictures")
    ids = browser.js("[...document.querySelectorAll('[id]')].map(e => e.id)")
    check(len(ids) == len(set(ids)), "an id twice")
    check(browser.js("[...document.querySelectorAll('[onclick]')].length") == 0, "a handler in the markup")


MARKUP = "</script><img src=x onerror=\"window.hit=1\"><svg/onload=window.hit=1><script>window.hit=1</script>'&amp;\u202egnp\u202c"


def test_hostile_names(browser, ws):
    """Names are shown as they are: none is markup, none reverses what is around it, none is wider than the page."""
    name = MARKUP.replace("\\", "\\\\").replace('"', '\\"')
    lines = [*steps_of([10] * 9)[:-1], f't1 rf_begin rf=1 seq=-1 scope=7 "{name}" @200000000', "rf_end rf=1 @290000000",
             f't1 rf_begin rf=1 seq=-1 scope=7 "{"x" * 900}" @300000000', "rf_end rf=1 @390000000", "window reason=1 @400000000"]
    lines[1] = f't1 process comm="python" cmdline="python3 {name}" exe="/usr/bin/python3"'
    page = of_text(ws, lines)
    for width in (400, 2000):
        browser.show(page, width)
        check(browser.js("document.documentElement.scrollWidth") == width, "a name widens the page")
    check(browser.js("window.hit") is None and not browser.js("document.querySelectorAll('img').length") and not browser.complaints, f"{browser.complaints}")
    shown = browser.js("[...document.querySelectorAll('#s-operators tbody th')].map(e => e.textContent)")
    check(MARKUP.replace("\u202e", "\ufffd").replace("\u202c", "\ufffd") in shown, f"{shown}")
    check("script><img" in browser.js("document.title"), browser.js("document.title"))
    check("\u202e" not in browser.js("document.documentElement.innerText") + browser.js("document.title"), "a control of direction is on the page")


def test_hostile_texts(browser, ws):
    """A capture whose every text attacks: all sections are there."""
    make_texts(ws + "/c.ptb")
    browser.show(export(ws + "/c.ptb", path=ws + "/page.html"))
    check(not browser.js("document.querySelectorAll('[id^=s-broken], b:not(.keys b, .alert b, #details b)').length") and not browser.complaints, f"{browser.complaints}")


# The policy refuses what a text of a capture could smuggle into the page, should it get there.
BLOCKED = """await new Promise(done => {
	const what = [], add = (tag, text) => { const e = document.createElement(tag); e.textContent = text; document.body.append(e); };
	document.addEventListener('securitypolicyviolation', e => {
		what.push(e.effectiveDirective);
		if (what.length === 4)
			done(what.sort().join(' '));
	});
	new Image().src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw=';
	fetch('data:,x').catch(() => {});
	add('script', 'window.hit = 1');
	add('style', 'body { display: none }');
	setTimeout(() => done(what.sort().join(' ')), 5000);
})"""


def test_content_security_policy(browser, golden, ws):
    browser.show(export(golden("names"), path=ws + "/a.html"))
    blocked = browser.js(BLOCKED)
    check(blocked == "connect-src img-src script-src-elem style-src-elem", f"blocked: {blocked}")
    check(browser.js("window.hit") is None, "a script ran")
    with open(ws + "/a.html", encoding="utf-8") as f:
        check("unsafe" not in f.read().split("<style>")[0], "the policy permits more than what has a hash")


def test_without_script(golden, ws):
    """The verdict is in the markup, too."""
    with open(export(golden("everything"), path=ws + "/a.html"), encoding="utf-8") as f:
        said = re.search(r"<noscript>(.*?)</noscript>", f.read(), re.S)[1]
    check("optimizer works parameter by parameter, 38.3 %" in said and "fused=True" in said, said)


def big(path, rounds):
    """Ten slices each round, a step every hundred, with a line of Python and memory."""
    lines = ['window begin=1 @1000000', 'meta "with_stack\\0true"', 'meta "profile_memory\\0true"', 't10 process comm="python" cmdline="python3 train.py" exe="python3"',
             'py_line frame.code=0x1000 frame.at=20 frame.check=1 func="<module>" file="/home/me/train.py" line=30 first=1',
             't10 py_stack_def id=1 frames=0x1000:20:1 @1000001', f"times {rounds}", '?i%100=0 rf_begin rf=1 seq=-1 scope=7 "ProfilerStep#$i/100$" @$1000002+i*50000$']
    for k in range(5):
        at = 1000100 + k * 8000
        lines += ("py_stack id=1 @$%d+i*50000$" % at, "enter aten::add%d sp=0x9000 @$%d+i*50000$" % (k, at), "enter aten::empty sp=0x8000 @$%d+i*50000$" % (at + 100),
                  "mem_alloc sp=0x7000 addr=0x10000 bytes=$4096*(1+r%%64)$ @$%d+i*50000$" % (at + 200), "exit aten::empty sp=0x7f00 @$%d+i*50000$" % (at + 900),
                  "exit aten::add%d sp=0x8f00 @$%d+i*50000+r%%900$" % (k, at + 2000), "mem_free sp=0x9000 addr=0x10000 @$%d+i*50000$" % (at + 3500))
    lines += ("?i%100=99 rf_end rf=1 @$1045000+i*50000+(i%4000=99)*900$", "done", f"window reason=1 @{1000000 + rounds * 50000 + 60000}")
    subprocess.run([cases.CAPTURE_TEXT, path], input="\n".join(lines) + "\n", text=True, check=True)


@pytest.mark.parametrize("slices", (1000000, pytest.param(10000000, marks=pytest.mark.skipif(not os.environ.get("PTBPF_SOAK"), reason="a soak"))))
def test_size(browser, ws, detail, slices):
    """The page of a million slices has at most 3 MiB; that of ten is made within 1 GiB."""
    big(ws + "/big.ptb", slices // 10)
    args = [PTBPF, "export", "-q", ws + "/big.ptb", "-o", ws + "/big.html"]
    done = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]).returncode;"
                           "print(r, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", *args], stdout=subprocess.PIPE, text=True, check=True)
    code, peak = map(int, done.stdout.split())
    size = os.path.getsize(ws + "/big.html")
    browser.show(ws + "/big.html")
    loaded = browser.js("performance.timing.loadEventEnd - performance.timing.navigationStart")
    detail(f"{size} bytes, {peak} KiB at the peak, loaded in {loaded} ms")
    check(code in (0, 3) and documents(ws + "/big.html")["facts"]["totals"]["operators"] == slices, "other slices")
    check(size < SIZE_MAX and peak < 1 << 20, f"{size} bytes, {peak} KiB")


def test_many_rows(browser, ws):
    """Of more rows than the page takes the rest is one row with their sum."""
    lines, at = [STEPS[0], STEPS[1]], 2000000
    for i in range(700):
        lines += (f't1 rf_begin rf=1 seq=-1 scope=7 "part {i}" @{at}', f"rf_end rf=1 @{at + 1000 * (i + 1)}")
        at += 1000000
    page = of_text(ws, [*lines, f"window reason=1 @{at}"])
    browser.show(page)
    rest = browser.js("document.querySelector('#s-operators tfoot').textContent")
    check(rest.startswith("and 200 more") and "20.1\u00a0ms" in rest, rest)  # 1 + 2 + ... + 200 us
    check(len(documents(page)["operators"]["rows"]) == 500, "rows")
