# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Self-contained schemas. The files of schemas/formats refer to each other by $id; a bundled one contains in its $defs, under their
$id, all those to which it refers (JSON Schema 2020-12, section 9.3), so that a validator needs one file and no registry.

  bundle_schemas.py DIR        writes the bundled schemas into DIR (what `make install` does)

References in a copy name their $id: jsonschema before 4.18 takes "#/..." in it for the whole file.
"""

import json
import os
import sys

FORMATS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "schemas", "formats")


def read_schema(name):
    with open(os.path.join(FORMATS, name + ".schema.json"), encoding="utf-8") as f:
        return json.load(f)


def references(part):
    """Every {"$ref": ...} in it, to be read or changed."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from references(inner)


def bundled(name):
    schema, todo = read_schema(name), [name]
    copies = {}
    while todo:
        for ref in references(copies.get(todo[0]) or schema):
            other, _, _ = ref["$ref"].removeprefix("urn:ptbpf:").partition("#")
            if other and other != name and other not in copies:
                copies[other] = read_schema(other)
                todo.append(other)
        del todo[0]
    for other, copy in copies.items():
        for ref in references(copy):
            if ref["$ref"].startswith("#"):
                ref["$ref"] = f"urn:ptbpf:{other}" + ref["$ref"]
    if copies:
        schema.setdefault("$defs", {}).update({copies[other]["$id"]: copies[other] for other in sorted(copies)})
    return schema


def names():
    return sorted(file.removesuffix(".schema.json") for file in os.listdir(FORMATS))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bundle_schemas.py DIR")
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in names():
        with open(os.path.join(sys.argv[1], name + ".schema.json"), "w", encoding="utf-8") as f:
            json.dump(bundled(name), f, indent=2, ensure_ascii=False)
            f.write("\n")


if __name__ == "__main__":
    main()
