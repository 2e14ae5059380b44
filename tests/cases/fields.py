# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes the fields of all record kinds as rows FIELD(kind, struct, field, its first element, is a text), for capture_text.c.

  fields.py HEADER... >OUT     bpf/ptb_event.h and ptb_gpu.h: structs by name, PTB_REC_KINDS
"""

import re
import sys

MEMBER = re.compile(r"(__[us]\d+|char|struct \w+) ([^;]+);")


def structs(text):
    for name, body in re.findall(r"^struct (ptb_\w+) \{(.*?)^\};", text, re.M | re.S):
        yield name, [(kind, *re.fullmatch(r"(\w+)(\[\w+\])?", member.strip()).groups())
                     for kind, members in MEMBER.findall(body) for member in members.split(",")]


def main():
    text = re.sub(r"/\*.*?\*/", "", "".join(open(path, encoding="utf-8").read() for path in sys.argv[1:]), flags=re.S)
    known = dict(structs(text))
    for kind, struct in re.findall(r"X\((\w+), *\d+, *(ptb_\w+), *\d\b", text):
        for of, field, array in known[struct]:
            if of == "struct ptb_rec_hdr" or field == "pad":
                continue
            inner = [(t, f"{field}.{f}", a) for t, f, a in known[of.split()[1]]] if of.startswith("struct") else [(of, field, array)]
            for t, f, a in inner:
                print(f"FIELD({kind}, {struct}, {f}, {f}{'[0]' if a else ''}, {int(t == 'char')})")


if __name__ == "__main__":
    main()
