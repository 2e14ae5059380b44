# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes the captures of hostile.text, and one whose texts are hostile."""

import os
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cases"))
import run as texts  # noqa: E402

RING, END = 2, 4  # types of blocks (capture_format.h)


def read_cases():
    """{name: (letters of the commands that it attacks, how often the last block is there, text)}"""
    with open(os.path.join(HERE, "hostile.text"), encoding="utf-8") as f:
        head, *parts = f.read().split("\n== ")
    for part in parts:
        (name, letters, *more), text = part.partition("\n")[0].split(), part.partition("\n")[2]
        yield name, (letters, int((more or [0])[0]), head + "\n" + text)


CASES = dict(read_cases())


def repeat_last(path, times):
    """Repeats the last block of records before the end: it compresses so well that to write its records would take as long as to read them."""
    with open(path, "rb") as f:
        data = f.read()
    at, last = struct.unpack_from("<I", data, 12)[0], None
    while (kind := struct.unpack_from("<H", data, at + 4)[0]) != END:
        size = 40 + struct.unpack_from("<I", data, at + 12)[0]
        last = data[at:at + size] if kind == RING else last
        at += size
    with open(path, "r+b") as f:
        f.seek(at)
        for _ in range(times):
            f.write(last)
        f.write(data[at:])


def make(name, path, percent):
    """percent: of the numbers of records that the text says."""
    _, times, text = CASES[name]
    lines = texts.Text().expand(text.splitlines())
    subprocess.run([texts.CAPTURE_TEXT, path, str(percent)], input="\n".join(lines) + "\n", text=True, check=True)
    if times:
        repeat_last(path, times * percent // 100)


# Each text of the capture ends with it: it steers terminals, ends lines and quotes, is markup and is no UTF-8.
EVIL = (r"\n\x0dINJECTED\x1b[2J\x1b]0;t\x07\x7f\x9b31m\xc2\x9b1m\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b\xe2\x80\xa8"
        r"\xff\xfe\xed\xa0\x80</script><b>\"'\\{}")
# What a lenient parser takes for JSON.
METADATA = {
    "host": r'\"h\xff\x1b\\u0007\"',
    "version": rf'\"{EVIL}\"',
    "activities": "[" * 900 + "]" * 900,
    "row_limit": "1e999",
    "sort_by": r'\"x\xff\n\x1b[31mINJECTED\"',
    "step_on": r'\"aten::linear\xff\x1b\"',
    "torch": r'{\"a\": 1, \"a\": 2, \"n\": 1e999, \"i\": -1e400, \"z\": 007, \"s\": \"\xff\n\", \"\x01\xff\": []}',
    "kernel": r'full\", \"totals\": {}, \"x\": \"',
    "agent": r'[{\"pid\": 1e999, \"gpu\": true, \"gpu_why\": \"w\xff\x1b[31m\nINJECTED\", \"source\": \"a\xc2\x9b\"}, {\"pid\": 1, \"gpu_why\": \"\x1b[31m\nINJECTED\"}]',
    "distributedInfo": r'{\"backend\": \"\xff\n\x1b\", \"rank\": 1e999, \"world_size\": 1e999}',
}
JOB = (r'{\"ns_pid\": 1e999, \"cgroup\": \"/\xff\x1b[31m\nINJECTED\", \"container_id\": [1], \"pod_uid\": \"\xc2\x9b\", \"x\x1b\": 1, '
       r'\"environment\": {\"RANK\": -1, \"WORLD_SIZE\": 1e400, \"LOCAL_RANK\": 0.5, \"SECRET\": 1, '
       r'\"MASTER_ADDR\": \"\x1b[31m\nINJECTED\", \"PT_PROFILER_JOB_NAME\": \"\xff\x1b\n\"}, '
       r'\"distributed\": {\"backend\": \"\x1b[31m\nINJECTED\", \"rank\": 0, \"world_size\": 1, \"pg_count\": 1e999, '
       r'\"pg_config\": [1, {\"pg_name\": \"\xff\x1b[31m\nINJECTED\", \"pg_size\": -1, \"ranks\": {\"x\x1b\": 1e999}}]}}')


def make_texts(path):
    """The capture of validators/trace with what validators/execution_trace and report/gpu_training have, and hostile texts."""
    lines, text = [], texts.Text()
    for case in ("validators/trace", "validators/execution_trace", "report/gpu_training"):
        captured = texts.read(os.path.join(texts.HERE, case + ".case"))[1]["a"]
        for line in text.expand(captured):
            if not re.match(r"window|clock|meta|process|#", line) or not lines:
                lines.append(line if line.startswith("meta") else re.sub(r'"((?:[^"\\]|\\.)*)"', lambda m: f'"{m[1]}{EVIL}"', line))
    lines += (f'meta "{key}\\0{value}"' for key, value in METADATA.items())
    lines += ('meta "args\\0\\"full\\""', 'meta "gpu\\0true"', 'meta "profile_memory\\0true"', 'meta "kernel_memory\\0true"', f'p100 job "{JOB}"')
    lines += ("counter id=0 value=18446744073709551615", "counter id=18 value=18446744073709551615", "window reason=1 @6000000000")
    subprocess.run([texts.CAPTURE_TEXT, path], input="\n".join(lines) + "\n", text=True, check=True)
