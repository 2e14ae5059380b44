# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""No part includes a part above or beside it; outside headers are included only where permitted; HACKING.md lists the parts. Only PROC_HOME reads
what a process may keep its reader waiting for."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIRE = {"ptb_agent.h", "ptb_args.h", "ptb_event.h", "ptb_gpu.h", "ptb_probe.h", "ptb_python.h", "py_check.h"}
# part: (parts it may include, outside headers beyond libc that it may include, by prefix)
PARTS = {
    "base": (set(), ()),
    "target": ({"base"}, ("libelf.h", "gelf.h", "elf.h")),
    "inject": ({"base", "target"}, ()),
    "code": ({"base", "target"}, ("capstone/", "elfutils/", "elf.h")),
    "python": ({"base", "target", "code"}, ("elf.h",)),
    "plan": ({"base", "args", "target", "code"}, ("elf.h", "zlib.h")),
    "probe": ({"base"}, ("bpf/", "linux/", "ptbpf.skel.h")),
    "cupti": ({"base"}, ()),
    "capture": ({"base"}, ("zstd.h", "zlib.h")),
    "args": ({"base"}, ()),
    "steps": ({"base", "capture"}, ()),
    "model": ({"base", "args", "capture", "steps"}, ("cjson/",)),
    "export": ({"base", "args", "capture", "model"}, ("zlib.h", "cjson/")),
    "ranks": ({"base", "capture", "model", "export"}, ("cjson/",)),
    "report": ({"base", "args", "capture", "model", "export", "ranks"}, ("cjson/",)),
    "why": ({"base", "model", "export", "ranks", "report"}, ()),
    "page": ({"base", "model", "export", "report", "why"}, ("cjson/",)),
    "diff": ({"base", "model", "export", "report"}, ("cjson/",)),
    "sample": ({"base", "target", "model", "report"}, ("microhttpd.h", "cjson/")),
    "record": ({"base", "args", "target", "inject", "code", "python", "plan", "probe", "cupti", "capture", "steps"}, ()),
    "cli": ({"base", "target", "inject", "code", "python", "plan", "probe", "cupti", "capture", "steps", "model", "export", "ranks", "report", "why", "page", "diff", "record", "sample"},
            ("capstone/", "bpf/", "cjson/")),
}
OUTSIDE = re.compile(r"(bpf/|capstone/|elfutils/|cjson/|libelf\.h|gelf\.h|zlib\.h|zstd\.h|microhttpd\.h|ptbpf\.skel\.h)")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)

PROC_HOME = "user/base/proc_read.c"
# what is below /proc/PID and takes no lock of the process's memory: directories, links, and status files
PROC_PATH = re.compile(r'"/proc/(?:%[^/"]*|self|thread-self)/[^"]*"')
PROC_FREE = re.compile(r'"/proc/(%\w+/(task"|ns/|exe"|root"|fd/|stat(us)?")|self/(fd/|ns/|exe"|status"|statm"))')
PROC_READ = re.compile(r"\b(process_vm_(?:read|write)v\(\s*[^)\s]|SYS_process_vm_\w+|PTRACE_(?:PEEK|POKE)\w+)")


def process_reads(path, text):
    if path == PROC_HOME:
        return
    for found in PROC_PATH.findall(text):
        if not PROC_FREE.match(found):
            yield f"{path}: {found} is read beside {PROC_HOME}"
    for found in PROC_READ.findall(text):
        yield f"{path}: {found} beside {PROC_HOME}"


def problems(part, path, text):
    allowed, outside = PARTS[part]
    for quote, name in INCLUDE.findall(text):
        if quote == '"':
            head = name.split("/")[0]
            if name in WIRE or name in outside:
                continue
            if "/" not in name:
                yield f'{path}: "{name}" lacks its part'
            elif head != part and head not in allowed:
                yield f'{path}: "{name}": {part} may not include {head}'
        elif OUTSIDE.match(name) and not any(name.startswith(o) for o in outside):
            yield f"{path}: <{name}> does not belong into {part}"


def table_problems():
    """HACKING.md has exactly one row for each part."""
    with open(os.path.join(ROOT, "HACKING.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `user/(\w+)` \|", f.read(), re.M)
    folders = os.listdir(os.path.join(ROOT, "user"))
    return ([f"user/{p}: {rows.count(p)} rows in HACKING.md" for p in sorted(PARTS) if rows.count(p) != 1] +
            [f"user/{p}: a row in HACKING.md, but no part" for p in sorted(set(rows) - set(PARTS))] +
            [f"user/{p}: a part without a folder" for p in sorted(set(PARTS) - set(folders))])


def main():
    found, files = table_problems(), 0
    for part in sorted(os.listdir(os.path.join(ROOT, "user"))):
        if part not in PARTS:
            found.append(f"user/{part}: not in the list of parts")
            continue
        for name in sorted(os.listdir(os.path.join(ROOT, "user", part))):
            path = os.path.join("user", part, name)
            if name.endswith((".c", ".h")):
                files += 1
                with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                    text = f.read()
                found += [*problems(part, path, text), *process_reads(path, text)]
    for line in found:
        print("    " + line)
    print(f"FAIL check.layers: {len(found)} problems" if found else f"PASS check.layers: {files} files")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
