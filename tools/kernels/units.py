# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The C tests that depend on the kernel, in a guest.

  units.py list BUILD          on the host: their commands out of ctest, as JSON
  units.py run LIST [NAME...]  in the guest: one result line each, PASS, FAIL or SKIP with the reason
"""

import json
import re
import subprocess
import sys
import time

DEADLINE = 1800  # for a test that hangs: the processor is emulated, and the machine may be busy


def listing(build):
    out = subprocess.run(["ctest", "--test-dir", build, "-L", "^kernel$", "--show-only=json-v1"], check=True,
                         stdout=subprocess.PIPE).stdout
    json.dump([{"name": t["name"], "command": t["command"]} for t in json.loads(out)["tests"]], sys.stdout)


def reason(lines):
    skips = [line.strip() for line in lines if "skip" in line.lower()]
    return (skips or lines or ["no reason given"])[-1]


def run(test, deadline):
    begin = time.monotonic()
    try:
        done = subprocess.run(test["command"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=deadline, check=False)
        out, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        out, status = late.stdout or b"", f"not done after {deadline} s"
    lines = out.decode(errors="replace").splitlines()
    took = f"{time.monotonic() - begin:.0f} s"
    if status == 0:
        print(f"PASS {test['name']}: {took}", flush=True)
    elif status == 77:
        print(f"SKIP {test['name']}: {reason(lines)}", flush=True)
    else:
        failed = re.findall(r"^\s+\d+\. (\S+:\d+\s+- .*)$", "\n".join(lines), re.MULTILINE)
        print(f"FAIL {test['name']}: {'; '.join(failed[:3]) or status}; {took}", flush=True)
        for line in lines[-25:]:
            print("    " + line, flush=True)
    return status in (0, 77)


def main():
    if sys.argv[1] == "list":
        listing(sys.argv[2])
        return
    with open(sys.argv[2], encoding="utf-8") as f:
        tests = json.load(f)
    wanted = sys.argv[3:]
    results = [run(t, DEADLINE) for t in tests if not wanted or t["name"] in wanted]
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
