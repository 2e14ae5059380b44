# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A capture whose texts attack terminals, JSON and HTML: the output is plain text on ptbpf's own lines, JSON is valid UTF-8
without repeated keys, the page has only ptbpf's markup."""

import html.parser
import json
import os
import subprocess
import unicodedata

from hostile import make_texts
from support import PTBPF


def plain(what, data):
    """Text for people: UTF-8, no control characters except newlines, no zero-width characters, no line that a name began."""
    text = data.decode("utf-8")
    bad = {f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")}
    assert not bad, f"{what} prints {sorted(bad)}"
    assert not any(line.lstrip().startswith("INJECTED") for line in text.splitlines()), f"{what}: a name began a line\n{text}"
    return text


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def unique(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), f"repeated keys: {sorted(k for k in set(keys) if keys.count(k) > 1)}"
    return dict(pairs)


def is_json(data):
    return json.loads(data.decode("utf-8"), parse_constant=no_constant, object_pairs_hook=unique)


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)


def test_texts(ws):
    capture = os.path.join(ws, "c.ptb")
    make_texts(capture)

    def run(*words):
        done = subprocess.run([PTBPF, *words], capture_output=True)
        assert done.returncode in (0, 3), f"{words} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        plain("stderr of " + " ".join(words), done.stderr)
        return done.stdout

    for words in ([], ["--group-by-input-shape", "--with-flops"], ["--memory"], ["--gpu"]):
        report = ["report", capture, "--row-limit", "-1", *words]
        text = plain(" ".join(report), run(*report))
        assert "INJECTED" in text or words == ["--gpu"], f"{words}: the names are not there\n{text}"
        doc = is_json(run(*report, "--json"))
        assert "INJECTED" in str(doc), f"{words}: the names are not in the JSON"
    rows = plain("table", run("report", capture)).split("\n---")[1].splitlines()[1:]
    assert len(rows) > 5 and len({len(row) for row in rows}) == 1, "the columns of the table do not line up:\n" + "\n".join(rows)
    for form in ("chrome", "et", "memory", "memory-raw", "speedscope"):
        path = os.path.join(ws, form)
        run("export", capture, "--format", form, "-o", path)
        with open(path, "rb") as f:
            doc = is_json(f.read())
        if form == "chrome":
            assert doc["ptbpf"]["capture"]["kernel"].startswith("full\""), "META that is no JSON is not a text"
            assert doc["host_name"] == "h\u00ff\u001b\u0007", repr(doc["host_name"])
    for form in ("memory-snapshot", "pprof"):
        path = os.path.join(ws, form)
        run("export", capture, "--format", form, "-o", path)
        with open(path, "rb") as f:
            data = f.read()
        assert b"INJECTED" in data and not any(c in data for c in (b"\nINJECTED", b"\x1b[", "\u202e".encode())), f"{form} has texts that attack terminals"
    path = os.path.join(ws, "page.html")
    run("export", capture, "--format", "memory-html", "-o", path)
    with open(path, "rb") as f:
        page = plain("page", f.read())
    tags = Tags()
    tags.feed(page)
    assert "b" not in tags.seen and page.count("</script>") == 1, f"markup of a name is in the page: {sorted(tags.seen)}"
    run("export", capture, "--format", "flamegraph", "-o", path)
    with open(path, "rb") as f:
        page = plain("flame graph", f.read())
    tags = Tags()
    tags.feed(page)
    assert "b" not in tags.seen and page.count("</script>") == 1, f"markup of a name is in the flame graph: {sorted(tags.seen)}"
    evil = os.path.join(ws, "x\n\x1b[31mINJECTED\u202e.ptb")
    os.rename(capture, evil)
    run("report", evil)
    done = subprocess.run([PTBPF, "report", evil + "x"], capture_output=True)
    assert done.returncode == 1
    plain("the message", done.stderr)
