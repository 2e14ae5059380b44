# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Makes a wheel of what the static program installs: pip puts bin/ into the scripts of an environment and the rest below its root,
where ptbpf finds its agent.

  wheel.py VERSION ROOT LICENSES OUT
"""

import base64
import hashlib
import os
import sys
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAG = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"  # the agent needs glibc 2.17; the second name is for pip before 20.3
METADATA = """Metadata-Version: 2.1
Name: ptbpf
Version: {version}
Summary: System profiler for PyTorch on eBPF: attaches to a running job
License: GPL-2.0 OR BSD-2-Clause
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: ptbpf tools/package/wheel.py\nRoot-Is-Purelib: false\n"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def contents(version, root, licenses):
    """(name, mode, bytes) of each file."""
    data, info = f"ptbpf-{version}.data", f"ptbpf-{version}.dist-info"
    for folder, _, names in sorted(os.walk(root)):
        for path in sorted(os.path.join(folder, name) for name in names):
            where = os.path.relpath(path, root)
            name = f"scripts/{where[4:]}" if where.startswith("bin/") else f"data/{where}"
            yield f"{data}/{name}", os.stat(path).st_mode, read(path)
    for path in (TOP + "/LICENSE", licenses):
        yield f"{info}/licenses/{os.path.basename(path)}", 0o100644, read(path)
    readme = read(TOP + "/README.md").decode()
    yield f"{info}/METADATA", 0o100644, METADATA.format(version=version, readme=readme).encode()
    yield f"{info}/WHEEL", 0o100644, (WHEEL + "".join(f"Tag: py3-none-{p}\n" for p in TAG.split("-")[2].split("."))).encode()


def main():
    version, root, licenses, out = sys.argv[1:]
    path, record = f"{out}/ptbpf-{version}-{TAG}.whl", ""

    def add(name, mode, data):
        entry = zipfile.ZipInfo(name)  # of 1980: the same tree gives the same wheel
        entry.external_attr = mode << 16
        z.writestr(entry, data, zipfile.ZIP_DEFLATED)

    with zipfile.ZipFile(path, "w") as z:
        for name, mode, data in contents(version, root, licenses):
            add(name, mode, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
        info = f"ptbpf-{version}.dist-info/RECORD"
        add(info, 0o100644, (record + f"{info},,\n").encode())


main()
