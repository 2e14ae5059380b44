# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The page of a flame graph in a headless Chromium: what it draws, zooms to, finds and compares, and that it needs no network."""

import os
import shutil
import sys

import pytest

from support import ROOT, check, run_ptbpf

sys.path.insert(0, os.path.join(ROOT, "tools"))
from view_trace import Browser  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, "tests", "unit"))
from hostile import make_texts, texts as cases  # noqa: E402

pytestmark = pytest.mark.unprivileged


@pytest.fixture(name="browser", scope="module")
def start_browser():
    if not shutil.which("chromium"):
        pytest.skip("needs the package chromium")
    b = Browser(1200, 800)
    b.call("Network.enable")
    b.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    yield b
    b.close()


def show(browser, page):
    browser.call("Page.navigate", url="file://" + page)
    browser.wait_for("document.readyState === 'complete' && typeof boxes !== 'undefined' && boxes.length > 0", "the page draws nothing")


def page_of(ws, *words):
    """Of the case export/stacks; in the second capture one operator takes longer, and there is one more."""
    first, second, page = (os.path.join(ws, name) for name in ("a.ptb", "b.ptb", "page.html"))
    lines = cases.read(os.path.join(cases.HERE, "export", "stacks.case"))[1]["a"]
    more = [line.replace("@3000000", "@3500000") for line in lines]
    more[-1:-1] = ("t1 py_stack id=1 @7300000", "enter aten::addmm sp=0x9000 @7300000", "exit aten::addmm sp=0x8f00 @7800000")
    check(not cases.make({"a": lines, "b": more}, ws), "no captures")
    run_ptbpf("export", first, "--format", "flamegraph", "-o", page, *(second if w == "SECOND" else w for w in words))
    return page


def click(browser, label):
    """On the bar with this label, by the pointer."""
    x, y = browser.js("(() => { const b = boxes.find(b => tree.labels[b.node] === '" + label + "'), r = canvas.getBoundingClientRect();"
                      "return [r.left + b.x + b.w / 2, r.top + tree.depth[b.node] * ROW + ROW / 2]; })()")
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def press(browser, key):
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


def text(browser, element):
    return browser.js(f"byId('{element}').textContent")


def labels(browser):
    return browser.js("boxes.map(b => tree.labels[b.node])")


def test_zoom_and_keys(browser, ws):
    show(browser, page_of(ws))
    check(browser.js("canvas.getContext('2d').getImageData(20, 5, 1, 1).data[3]") == 255, "nothing is painted")
    check("3.04 ms (100.00 % of all)" in text(browser, "details"), text(browser, "details"))
    click(browser, "Linear.forward (linear.py:134)")
    check("1.30 ms (42.76 % of all" in text(browser, "details"), text(browser, "details"))
    check("aten::relu" not in labels(browser) and "aten::linear" in labels(browser), f"the zoom shows {labels(browser)}")
    check(text(browser, "path").startswith("all > <module> (train.py:30) > "), text(browser, "path"))
    browser.js("canvas.focus()")
    press(browser, "ArrowDown")
    check(text(browser, "details").startswith("aten::linear"), "the widest below")
    press(browser, "ArrowRight")
    check(text(browser, "details").startswith("AddmmBackward0"), "the next one")
    press(browser, "Enter")
    check(set(labels(browser)) >= {"AddmmBackward0", "aten::mm"} and "aten::linear" not in labels(browser), "zoom by key")
    press(browser, "Backspace")
    check("aten::linear" in labels(browser), "zoom out by key")
    press(browser, "Escape")
    check("aten::relu" in labels(browser) and not text(browser, "path"), "all again")


def test_search(browser, ws):
    show(browser, page_of(ws))
    for pattern, answer in (("relu|^nothing$", "23.03 % matched"), ("LINEAR", "42.76 % matched"), ("fib", "6.58 % matched"),
                            ("x{5}", "nothing matched"), ("(", "no regular expression"), ("", "")):
        browser.js(f"(byId('search').value = {pattern!r}, byId('search').dispatchEvent(new Event('input')))")
        check(text(browser, "matched") == answer, f"{pattern}: {text(browser, 'matched')}")


def test_metrics_and_lines(browser, ws):
    show(browser, page_of(ws))
    names = browser.js("[...byId('metric').options].map(o => o.text)")
    check("GPU time" not in names and "page faults" in names, f"metrics {names}")
    browser.js(f"(byId('metric').value = {names.index('CPU memory never freed')}, byId('metric').dispatchEvent(new Event('change')))")
    check(text(browser, "details").endswith("1.00 MiB (100.00 % of all), itself 0 B"), text(browser, "details"))
    check("aten::relu" not in labels(browser) and "aten::empty" in labels(browser), f"memory of {labels(browser)}")
    browser.js("(byId('metric').value = 0, byId('metric').dispatchEvent(new Event('change')), byId('lines').click())")
    check(labels(browser).count("Trainer.step") == 2, "both lines are one function, beside that of a cut stack")


def test_difference(browser, ws):
    show(browser, page_of(ws, "--diff", "SECOND"))
    check("first: 3.04 ms" in text(browser, "details") and "second: 4.04 ms" in text(browser, "details") and
          "change: +1.00 ms (+32.9 %)" in text(browser, "details"), text(browser, "details"))
    color = "(label => color(tree.labels.indexOf(label), false))"
    check(browser.js(color + "('aten::relu')") != browser.js(color + "('aten::linear')"), "what changed has the colour of what did not")
    browser.js("(byId('basis').value = 0, byId('basis').dispatchEvent(new Event('change')))")
    check(labels(browser).count("aten::addmm") == 1, "the new operator is as wide as in the first capture")


# A page that loads nothing, not even what is in an address itself.
BLOCKED = """await new Promise(done => {
	const what = [], image = new Image();
	document.addEventListener('securitypolicyviolation', e => {
		what.push(e.effectiveDirective);
		if (what.length === 2)
			done(what.sort().join(' '));
	});
	image.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw=';
	fetch('data:,x').catch(() => {});
	setTimeout(() => done(what.sort().join(' ')), 5000);
})"""


@pytest.mark.parametrize("form", ("flamegraph", "memory-html"))
def test_content_security_policy(browser, ws, form):
    """What a text of a capture could smuggle into a page cannot load anything, should it get there."""
    page = ws + "/page.html"
    if form == "flamegraph":
        page = page_of(ws)
    else:
        make_texts(ws + "/c.ptb")
        run_ptbpf("export", ws + "/c.ptb", "--format", form, "-o", page, expect=(0, 3))
    browser.call("Page.navigate", url="file://" + page)
    browser.wait_for("document.readyState === 'complete'", "the page does not load")
    blocked = browser.js(BLOCKED)
    check(blocked == "connect-src img-src", f"blocked: {blocked}")
    styled = browser.js("getComputedStyle(document.querySelector('svg, canvas')).display")
    check(styled, "its own style or script does not run")


@pytest.mark.parametrize("form", ("flamegraph", "memory-html"))
def test_width_and_darkness(browser, ws, form):
    """Both pages fit a phone and a wide screen, and are dark where the system is."""
    page = page_of(ws)
    if form == "memory-html":
        run_ptbpf("export", ws + "/a.ptb", "--format", form, "-o", page, expect=(0, 3))
    backs = []
    for width, scheme in ((400, "light"), (1110, "dark"), (2000, "light")):
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.call("Page.navigate", url="file://" + page)
        browser.wait_for("document.readyState === 'complete'", "the page does not load")
        title, needed, drawn, back = browser.js("[document.title, document.documentElement.scrollWidth, document.querySelector('canvas, #plot')"
                                                ".getBoundingClientRect().width, getComputedStyle(document.body).backgroundColor]")
        check(needed == width and width * 0.75 < drawn < width, f"{needed} wide on {width}, the picture {drawn}")
        check(" (10)" in title or "(1)" in title, f"no process in the title: {title}")
        backs.append(back)
    for call in ("Emulation.clearDeviceMetricsOverride", "Emulation.setEmulatedMedia"):
        browser.call(call)
    check(backs[0] == backs[2] == "rgb(255, 255, 255)" != backs[1], f"backgrounds {backs}")


def test_many_nodes(browser, ws):
    """100,000 nodes: those narrower than a pixel are left out, and a deep chain is drawn."""
    page = page_of(ws)
    with open(page, encoding="utf-8") as f:
        head, rest = f.read().split("const data = ", 1)
    tail = rest.split("\n", 1)[1]
    many = ("(() => { const n = 100000, parent = [-1], frame = [0]; for (let i = 1; i < n; i++) { parent.push(i < 200 ? i - 1 : i % 199);"
            "frame.push(i % 2000 + 1); } return { metrics: [{ name: 'CPU time', unit: 'ns' }], strings: ['', ...Array.from({ length: 2000 },"
            "(_, i) => 'f' + i)], frames: [[4, 0, 0, 0], ...Array.from({ length: 2000 }, (_, i) => [0, i + 1, 1, i])], parent, frame,"
            "self: [[parent.map((_, i) => i % 7)]] }; })();\n")
    with open(page, "w", encoding="utf-8") as f:
        f.write(head + "const data = " + many + tail)
    show(browser, page)
    nodes, drawn, height = browser.js("[tree.parent.length, boxes.length, canvas.height]")
    check(nodes > 99000 and 199 <= drawn < 5000 and height >= 199 * 19, f"{nodes} nodes, {drawn} drawn, {height} high")
    browser.js("zoomTo(198)")
    zoomed = browser.js("boxes.length")
    check(zoomed > drawn, f"{zoomed} drawn of the innermost caller, {drawn} of all")
