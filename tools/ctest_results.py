# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs ctest in a build folder and prints one result line per test.

  ctest_results.py BUILD TITLE [LABEL [BUT]]     BUT: a regular expression of tests that are left out

Notes in $PTBPF_TIMES, where that is set, how long each took.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree


def reason(case):
    """The last words of a skipped test's output."""
    text = (case.findtext("system-out") or "").strip().splitlines()
    told = [line.strip() for line in text if "skip" in line.lower()]
    return (told or text or ["no reason given"])[-1]


def why(case):
    """The assertions that failed, as CUnit lists them, or the status where none is listed."""
    failed = re.findall(r"^\s+\d+\. (\S+:\d+\s+- .*)$", case.findtext("system-out") or "", re.MULTILINE)
    return "; ".join(failed[:3]) or case.get("status")


def main():
    build, title = sys.argv[1:3]
    label, *but = sys.argv[3:] or ["unit"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "junit.xml")
        # one more than processors: tests of probes wait for the kernel much of the time
        subprocess.run(["ctest", "--test-dir", build, "-L", label, *(["-E", but[0]] if but else []), "-j", str(os.cpu_count() + 1),
                        "--output-junit", path],
                       stdout=subprocess.DEVNULL, check=False)
        cases = ElementTree.parse(path).getroot().findall("testcase")
    failed = False
    for case in cases:
        name, status = f"{title}.{case.get('name')}", case.get("status")
        if status == "disabled":  # runs in another build
            continue
        if os.environ.get("PTBPF_TIMES"):
            with open(os.environ["PTBPF_TIMES"], "a", encoding="ascii") as f:
                f.write(f"{float(case.get('time') or 0):.1f} {name}\n")
        if status == "run":
            print(f"PASS {name}")
        elif case.find("skipped") is not None and status != "fail":
            print(f"SKIP {name}: {reason(case)}")
        else:
            failed = True
            print(f"FAIL {name}: {why(case)}")
            for line in (case.findtext("system-out") or "").splitlines()[-25:]:
                print("    " + line)
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
