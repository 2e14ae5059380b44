# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/deploy: sample works with its configuration file and the rights that the unit leaves, and the unit is well-formed and tight."""

import json
import os
import re
import subprocess
import sys

from support import PTBPF, ROOT, Process, check, run_ptbpf

UNIT = os.path.join(ROOT, "tools", "deploy", "ptbpf.service")
CONF = os.path.join(ROOT, "tools", "deploy", "ptbpf.conf")
# As MemoryDenyWriteExecute= does: PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN (linux include/uapi/linux/prctl.h).
NO_WRITABLE_CODE = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    sys.exit("PR_SET_MDWE is refused")
os.execvp(sys.argv[1], sys.argv[1:])
"""
EXPOSURE_MAX = 50  # tenths, as systemd-analyze security counts


def setting(name):
    with open(UNIT, encoding="utf-8") as f:
        text = f.read().replace("\\\n", "")
    return next(line.split("=", 1)[1] for line in text.splitlines() if line.startswith(name + "="))


def test_unit(ws):
    """Under another name of the program, since it may not be installed."""
    path = ws + "/ptbpf.service"
    with open(UNIT, encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        out.write("".join(line for line in f if not line.startswith("Documentation")).replace("=ptbpf sample", f"={PTBPF} sample"))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    check(done.returncode == 0 and "ptbpf.service" not in done.stderr, done.stderr)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", path],
                          capture_output=True, text=True, env=dict(os.environ, SYSTEMD_PAGER="cat"))
    check(done.returncode == 0, done.stdout[-200:] + done.stderr)


def test_rights(ws, spin):
    """The unit's capabilities, without new privileges, and without a network."""
    spin.wait_line("rate")
    words = setting("ExecStart").split()
    check(words[:2] == ["ptbpf", "sample"] and words[-2:] == ["--config", "/etc/ptbpf.conf"], f"ExecStart: {words}")
    conf = ws + "/ptbpf.conf"
    with open(CONF, encoding="utf-8") as f, open(conf, "w", encoding="utf-8") as out:
        out.write(re.sub("^schedule=.*", "schedule=active=300ms,repeat=1",
                         re.sub("^dir=.*", f"dir={ws}/w", f.read(), flags=re.M), flags=re.M).replace("=0.5%", "=100%"))
    caps = "-all" + "".join(",+" + c.lower().removeprefix("cap_") for c in setting("CapabilityBoundingSet").split())
    # other tests' processes are not to be sampled
    argv = ["unshare", "--net", "setpriv", "--no-new-privs", "--bounding-set", caps, sys.executable, "-c", NO_WRITABLE_CODE, PTBPF,
            *words[1:-1], conf, "--pid", str(spin.pid)]
    with Process(argv) as p:
        code = p.finish()
    check(code == 0, f"exit {code}\n{p.text()}")
    with open(ws + "/w/windows.jsonl", encoding="utf-8") as f:
        w = json.loads(f.read())
    check(w["exit"] == 0 and w["slices"] > 50, f"window: {w}")
    run_ptbpf("report", w["capture"])


def test_commented_options(ws):
    """Those that the example has as comments are valid, too."""
    conf = ws + "/ptbpf.conf"
    with open(CONF, encoding="utf-8") as f, open(conf, "w", encoding="utf-8") as out:
        out.write(re.sub("^#([a-z-]+=)", r"\1", f.read(), flags=re.M).replace("dir=/var/lib/ptbpf", f"dir={ws}/no/such"))
    done = run_ptbpf("sample", "--config", conf, expect=1)
    check("/no/such' cannot be used" in done.text(), done.text())
