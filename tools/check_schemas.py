# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each schema is a compound document: it contains every schema to which it refers, under its $id (JSON Schema 2020-12, section
9.3).

  check_schemas.py            PASS, or FAIL and exit 1 where a file lacks what it refers to, or has an old copy of it
  check_schemas.py --write    writes schemas/formats/*.schema.json so

schemas/python/ is checked, too: each file names its sources and has every field of struct ptb_py_offsets once.

So a validator resolves every reference with one file and no registry. The original of schema urn:ptbpf:NAME is NAME.schema.json;
its copies in other files are the last entries of their $defs, with the $id as the key. Change the original, then run this.
"""

import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FORMATS = os.path.join(ROOT, "schemas", "formats")
PYTHON = os.path.join(ROOT, "schemas", "python")
COPY = re.compile(r',\n    "(urn:ptbpf:\w+)": \{\n(?:      .*\n)*?    \}(?=,?\n)')
REF = re.compile(r'"\$ref": "(urn:ptbpf:\w+)[#"]')


def needed(name, texts):
    """Ids of the schemas to which this one refers, directly or indirectly, in order; not its own."""
    found, todo = [], [name]
    while todo:
        for ref in sorted(set(REF.findall(texts[todo.pop()]))):
            if ref not in found and ref != name:
                found.append(ref)
                todo.append(ref)
    return sorted(found)


def bundle(name, texts):
    text, refs = texts[name], needed(name, texts)
    copies = "".join(f',\n    "{ref}": ' + texts[ref].rstrip().replace("\n", "\n    ") for ref in refs)
    if not refs:
        return text
    if not text.endswith("\n    }\n  }\n}\n"):  # $defs is the last key
        raise SystemExit(f"{name}: its last key is not $defs")
    return text[:-len("\n  }\n}\n")] + copies + "\n  }\n}\n"


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
    files, texts = {}, {}
    for file in sorted(os.listdir(FORMATS)):
        with open(os.path.join(FORMATS, file), encoding="utf-8") as f:
            files[file] = f.read()
        texts[json.loads(files[file])["$id"]] = COPY.sub("", files[file])
    stale = [file for file, text in files.items() if bundle(json.loads(text)["$id"], texts) != text]
    if "--write" not in sys.argv[1:]:
        wrong = [*(f"{file}: run tools/check_schemas.py --write" for file in stale), *python_problems()]
        for line in wrong:
            print("    " + line)
        print(f"FAIL check.schemas: {len(wrong)} problems" if wrong else f"PASS check.schemas: {len(files)} files")
        sys.exit(bool(wrong))
    for file in stale:
        with open(os.path.join(FORMATS, file), "w", encoding="utf-8") as f:
            f.write(bundle(json.loads(files[file])["$id"], texts))


if __name__ == "__main__":
    main()
