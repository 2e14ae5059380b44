# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/deploy: sample works with its configuration file and the rights that the unit leaves, and the unit is well-formed and tight."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from support import PTBPF, ROOT, Process, bounding_set, check, run_ptbpf

UNIT = os.path.join(ROOT, "tools", "deploy", "ptbpf.service")
CONF = os.path.join(ROOT, "tools", "deploy", "ptbpf.conf")
MANIFEST = os.path.join(ROOT, "tools", "deploy", "daemonset.yaml")
IMAGE = os.path.join(ROOT, "tools", "deploy", "Dockerfile")
# As MemoryDenyWriteExecute= does: PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN (linux include/uapi/linux/prctl.h).
NO_WRITABLE_CODE = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    sys.exit("PR_SET_MDWE is refused")
os.execvp(sys.argv[1], sys.argv[1:])
"""
EXPOSURE_MAX = 35  # tenths, as systemd-analyze security counts


def setting(name):
    with open(UNIT, encoding="utf-8") as f:
        text = f.read().replace("\\\n", "")
    return next(line.split("=", 1)[1] for line in text.splitlines() if line.startswith(name + "="))


def settings(text):
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


def objects():
    with open(MANIFEST, encoding="utf-8") as f:
        return {doc["kind"]: doc for doc in yaml.safe_load_all(f)}


def capabilities():
    """Of the unit, as setpriv wants them."""
    return bounding_set(setting("CapabilityBoundingSet").split())


@pytest.mark.parametrize("drop_in", [None, "ptbpf-metrics.conf"])
def test_unit(ws, drop_in):
    """Under another name of the program, since it may not be installed."""
    path = ws + "/ptbpf.service"
    with open(UNIT, encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        out.write("".join(line for line in f if not line.startswith("Documentation")).replace("=ptbpf sample", f"={PTBPF} sample"))
        if drop_in:
            with open(os.path.join(os.path.dirname(UNIT), drop_in), encoding="utf-8") as more:
                out.write(more.read())
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    check(done.returncode == 0 and "ptbpf.service" not in done.stderr, done.stderr)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", path],
                          capture_output=True, text=True, env=dict(os.environ, SYSTEMD_PAGER="cat"))
    check(done.returncode == 0, done.stdout[-200:] + done.stderr)


def record(ws, argv):
    """Its one window, and what it printed."""
    with Process(argv) as p:
        code = p.finish()
    check(code == 0, f"exit {code}\n{p.text()}")
    with open(ws + "/w/windows.jsonl", encoding="utf-8") as f:
        w = json.loads(f.read())
    check(w["exit"] == 0 and w["slices"] > 50, f"window: {w}")
    return w, p.text()


def test_rights(ws, spin):
    """The unit's capabilities, without new privileges, and without a network."""
    spin.wait_line("rate")
    words = setting("ExecStart").split()
    check(words[:2] == ["ptbpf", "sample"] and words[-2:] == ["--config", "/etc/ptbpf.conf"], f"ExecStart: {words}")
    conf = ws + "/ptbpf.conf"
    with open(CONF, encoding="utf-8") as f, open(conf, "w", encoding="utf-8") as out:
        out.write(re.sub("^schedule=.*", "schedule=active=300ms,repeat=1",
                         re.sub("^dir=.*", f"dir={ws}/w", f.read(), flags=re.M), flags=re.M).replace("=0.5%", "=100000%"))
    # other tests' processes are not to be sampled
    argv = ["unshare", "--net", "setpriv", "--no-new-privs", "--bounding-set", capabilities(), sys.executable, "-c", NO_WRITABLE_CODE, PTBPF,
            *words[1:-1], conf, "--pid", str(spin.pid)]
    w, _ = record(ws, argv)
    run_ptbpf("report", w["capture"])


def test_commented_options(ws):
    """Those that the example has as comments are valid, too."""
    conf = ws + "/ptbpf.conf"
    with open(CONF, encoding="utf-8") as f, open(conf, "w", encoding="utf-8") as out:
        out.write(re.sub("^#([a-z-]+=)", r"\1", f.read(), flags=re.M).replace("dir=/var/lib/ptbpf", f"dir={ws}/no/such"))
    done = run_ptbpf("sample", "--config", conf, expect=1)
    check("/no/such' cannot be used" in done.text(), done.text())


@pytest.mark.unprivileged
def test_manifest():
    """The DaemonSet has what the unit has: capabilities, limits, settings, directories."""
    docs = objects()
    check(set(docs) == {"ConfigMap", "DaemonSet"}, f"objects: {list(docs)}")
    pod = docs["DaemonSet"]["spec"]["template"]["spec"]
    container, = pod["containers"]
    rights = container["securityContext"]
    caps = rights["capabilities"]
    check(caps["drop"] == ["ALL"] and ["CAP_" + c for c in caps["add"]] == setting("CapabilityBoundingSet").split(),
          f"capabilities: {caps}")
    check("privileged" not in rights and not rights["allowPrivilegeEscalation"] and rights["readOnlyRootFilesystem"], f"{rights}")
    check(pod["hostPID"] and rights["runAsUser"] == 0, "it would see no processes, or not be allowed to read them")
    check(container["resources"]["limits"]["memory"] == setting("MemoryMax") + "i", "the limit on memory")
    check(str(pod["terminationGracePeriodSeconds"]) == setting("TimeoutStopSec"), "the time to end")
    with open(CONF, encoding="utf-8") as f:
        conf = settings(f.read())
    name, text = next(iter(docs["ConfigMap"]["data"].items()))
    check(settings(text) == conf, f"settings: {text}")
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["volumes"]}
    check(set(mounts.values()) == set(volumes), f"volumes: {mounts}")
    check(volumes[mounts[conf["dir"]]]["hostPath"]["path"] == conf["dir"], "the directory of windows")
    config = volumes[mounts[os.path.dirname(container["args"][-1])]]
    check(config["configMap"]["name"] == docs["ConfigMap"]["metadata"]["name"] and os.path.basename(container["args"][-1]) == name,
          "the configuration file")
    labels = docs["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    check(docs["DaemonSet"]["spec"]["selector"]["matchLabels"] == labels, "the selector")


@pytest.mark.unprivileged
def test_image():
    """The recipe has the name and version of the manifest's image, and installs what tools/package.sh builds."""
    with open(IMAGE, encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
        version = re.search(r"project\(ptbpf VERSION (\S+)", f.read())[1]
    image = objects()["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["image"]
    check(image == f"ptbpf:{version}" and f"-t {image} " in text, f"image: {image}")
    words = [line.split()[0] for line in text.replace("\\\n", "").splitlines() if line and line[0] not in "# "]
    check(words == ["FROM", "COPY", "RUN", "ENTRYPOINT", "CMD"], f"instructions: {words}")
    check(json.loads(re.search("^ENTRYPOINT (.*)", text, re.M)[1]) == ["ptbpf"], "the program")
    check(json.loads(re.search("^CMD (.*)", text, re.M)[1]) == ["sample", "--config", "/etc/ptbpf.conf"], "its arguments")


# As a runtime makes it of the manifest: the node's pids and network, a root that is read-only, another /sys, other control groups.
CONTAINER = """
mount --make-rprivate /
mkdir -p /var/cache/ptbpf /run/ptbpf && mount -t tmpfs -o mode=700 tmpfs /var/cache/ptbpf && mount -t tmpfs -o mode=755 tmpfs /run/ptbpf
mount --bind "$0" "$0"
mount -o remount,bind,ro /
umount -l /sys && mount -t sysfs -o ro sysfs /sys
exec "$@"
"""


def test_container(ws, spin):
    spin.wait_line("rate")
    conf = ws + "/ptbpf.conf"
    text = objects()["ConfigMap"]["data"]["ptbpf.conf"]
    with open(conf, "w", encoding="utf-8") as out:
        out.write(text.replace(settings(text)["schedule"], "active=300ms,repeat=1").replace("=/var/lib/ptbpf", f"={ws}/w")
                  .replace("=0.5%", "=100000%"))
    argv = ["unshare", "--mount", "--cgroup", "--ipc", "sh", "-ec", CONTAINER, ws, "setpriv", "--no-new-privs", "--inh-caps=-all",
            "--bounding-set", capabilities(), PTBPF, "sample", "--config", conf, "--pid", str(spin.pid)]
    w, text = record(ws, argv)
    check("cannot" not in text and "no control socket" not in text, text)
