# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Reads the JUnit files of CTest (ctest.xml) and of pytest (one for each CTest test that runs it), and prints a line PASS, FAIL
or SKIP for each test, the slowest tests, the failures with their reasons, and the count.

  test_summary.py FOLDER     exit code 1 when anything failed or nothing ran

A test that holds many comparisons prints such a line for each, and is counted by these.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

RESULT = re.compile(r"^(PASS|FAIL|SKIP) ((?:torch|consumers|viewer|kernel|fuzz|check|package)[^\s:]*):?(?: (.*))?$", re.MULTILINE)
SLOWEST = 25


class Result:
    def __init__(self, kind, name, text=""):
        self.kind, self.name, self.text = kind, name, " ".join((text or "").split())

    def line(self, width=1000):
        return f"{self.kind} {self.name}" + (f": {self.text[:width]}" if self.text else "")


def within(output, whole):
    """The results that a test printed; `whole` if it printed none, or failed for another reason than these."""
    found = [Result(*m) for m in RESULT.findall(output)]
    return found + ([whole] if not found or (whole.kind == "FAIL" and all(r.kind != "FAIL" for r in found)) else [])


def of_ctest(case):
    name, status, output = case.get("name"), case.get("status"), case.findtext("system-out") or ""
    if status == "run":
        return within(output, Result("PASS", name))
    skipped = case.find("skipped")
    if skipped is not None and status != "fail":
        lines = output.strip().splitlines()
        text = [line for line in lines if "skip" in line.lower()] or lines or [skipped.get("message") or "no reason given"]
        return within(output, Result("SKIP", name, text[-1]))
    # CUnit lists the assertions that failed
    asserts = re.findall(r"^\s+\d+\. (\S+:\d+\s+- .*)$", output, re.MULTILINE)
    failure = case.find("failure")
    last = output.strip().splitlines()[-1:]
    text = "; ".join(asserts[:3]) or " ".join([(failure.get("message") if failure is not None else None) or status, *last])
    return within(output, Result("FAIL", name, text))


def of_pytest(case):
    name = case.get("classname", "").replace(".", "/") + ".py::" + case.get("name")
    output = case.findtext("system-out") or ""
    for kind, word in (("failure", "FAIL"), ("error", "FAIL"), ("skipped", "SKIP")):
        if case.find(kind) is not None:
            return within(output, Result(word, name, case.find(kind).get("message")))
    return within(output, Result("PASS", name, "; ".join(p.get("value") for p in case.iter("property") if p.get("name") == "detail")))


def processor(case):
    return next((float(p.get("value")) for p in case.iter("property") if p.get("name") == "processor"), None)


def read(folder):
    """Results; times [(seconds, processor seconds or None, name)] of single tests; and of CTest's."""
    results, times, files = [], [], []
    for outer in ElementTree.parse(os.path.join(folder, "ctest.xml")).getroot().iter("testcase"):
        name, seconds = outer.get("name"), float(outer.get("time") or 0)
        if outer.get("status") == "disabled":
            continue
        path = os.path.join(folder, name + ".xml")
        files.append((seconds, None, name))
        found = []
        if os.path.exists(path):
            for case in ElementTree.parse(path).getroot().iter("testcase"):
                found += of_pytest(case)
                times.append((float(case.get("time")), processor(case), found[-1].name if "::" in found[-1].name else
                              f"{name} {case.get('name')}"))
        else:
            found += of_ctest(outer)
            times.append((seconds, None, name))
        if outer.get("status") == "fail" and all(r.kind != "FAIL" for r in found):
            found += [r for r in of_ctest(outer) if r.kind == "FAIL"]
        results += found
    return results, times, files


def table(title, rows):
    print(f"\n{title}")
    for seconds, work, name in sorted(rows, key=lambda r: -r[0])[:SLOWEST]:
        print(f"  {seconds:6.1f}  {'' if work is None else f'{work:.1f}':>6}  {name}")


def main():
    try:
        results, times, files = read(sys.argv[1])
    except (OSError, ElementTree.ParseError) as why:
        sys.exit(f"FAIL test_summary: CTest left no results, so it was ended: {why}\n0 passed, 1 failed, 0 skipped")
    for r in results:
        print(r.line())
    table("the slowest tests: seconds, and seconds of processors where known", times)
    table("the slowest files", files)
    print(f"  {sum(f[0] for f in files):6.1f}          all together, some at once")
    failed = [r for r in results if r.kind == "FAIL"]
    if failed:
        print("\nfailed:")
        for r in failed:
            print("  " + r.line()[5:])
    count = {kind: sum(r.kind == kind for r in results) for kind in ("PASS", "FAIL", "SKIP")}
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped")
    sys.exit(0 if results and not failed else 1)


if __name__ == "__main__":
    main()
