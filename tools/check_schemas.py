# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The files of schemas/: in formats/ what a "$ref" names exists, each definition is named by one, and urn:ptbpf:NAME is
NAME.schema.json; in python/ each file names its sources and has every field of struct ptb_py_offsets once.

  check_schemas.py            PASS, or FAIL and exit 1
"""

import json
import os
import re
import sys

from bundle_schemas import names, read_schema, references

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, "schemas", "python")


def format_problems():
    schemas = {name: read_schema(name) for name in names()}
    unused = {(name, definition) for name, schema in schemas.items() for definition in schema.get("$defs", ())}
    for name, schema in schemas.items():
        if schema["$id"] != f"urn:ptbpf:{name}":
            yield f"{name}: its $id is {schema['$id']}"
        for ref in references(schema):
            other, _, pointer = ref["$ref"].removeprefix("urn:ptbpf:").partition("#")
            key = other or name, pointer.removeprefix("/$defs/")
            if key[1] not in ("", *schemas.get(key[0], {}).get("$defs", ())) or key[0] not in schemas:
                yield f"{name}: {ref['$ref']} is nowhere"
            unused.discard(key)
    yield from (f"{name}: nothing names its definition {definition}" for name, definition in sorted(unused))


def python_problems():
    with open(os.path.join(ROOT, "bpf", "ptb_python.h"), encoding="utf-8") as f:
        struct = re.search(r"struct ptb_py_offsets \{(.*?)\};", f.read(), re.S)[1]
    struct = re.sub(r"/\*.*?\*/", "", struct, flags=re.S)
    fields = sorted(name.strip() for names in re.findall(r"__u16 ([^;]+);", struct) for name in names.split(","))
    for file in sorted(os.listdir(PYTHON)):
        with open(os.path.join(PYTHON, file), encoding="utf-8") as f:
            row = json.load(f)
        if sorted([*row["layout"], *row["debug_offsets"]]) != fields:
            yield f"{file}: {sorted({*row['layout'], *row['debug_offsets']} ^ {*fields})}"
        if not row["sources"] or file != f"cpython-{row['version']}.json":
            yield f"{file}: no sources, or another name than its version"


def main():
    wrong = [*format_problems(), *python_problems()]
    for line in wrong:
        print("    " + line)
    print(f"FAIL check.schemas: {len(wrong)} problems" if wrong else f"PASS check.schemas: {len(names())} formats")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
