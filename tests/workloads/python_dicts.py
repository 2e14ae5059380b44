# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Prints addresses of dicts as JSON, and what is to be read of each: a list of pairs, or 3 where nothing is. Ends at the end of stdin."""

import json
import os
import sys

NO_DICT = 3


class Thing:
    def __init__(self):
        self.attribute = 1


class Named(str):
    pass


def readable(v):
    if type(v) is tuple and v and type(v[0]) is str:
        v = v[0]
    if type(v) is int and 0 <= v < 1 << 30 or type(v) is str and v.isascii() and len(v) < 256:
        return v
    return None


def changed():
    d = {str(i): i for i in range(20)}
    for i in range(0, 20, 3):
        del d[str(i)]
    d["0"] = "again"
    return d


def shrunk():
    """With indices for many more entries than there are."""
    d = {i: i for i in range(50000)}
    for i in range(100, 50000):
        del d[i]
    return d


def emptied():
    d = dict.fromkeys(range(9))
    d.clear()
    return d


things = [Thing() for _ in range(3)]
dicts = {
    "numbers": {"zero": 0, "one": 1, "two": 2, "large": (1 << 30) - 1, "larger": 1 << 30, "huge": 1 << 300, "negative": -1, "bool": True},
    "texts": {"": "", "a": "b", "eight890": "seven89", "x" * 255: "y" * 255, "z" * 256: "z" * 256, "other": "caf\u00e9", "named": Named("x")},
    "tuples": {"one": ("first",), "more": ("first", 1, 2.5), "none": (), "number": (1, "second"), "list": ["first"]},
    "keys": {1: "int", "text": 2, (1,): 3, None: 4, things[0]: "thing", things[1]: {}},
    "deleted": changed(),
    "attributes": things[2].__dict__,
    "emptied": emptied(),
    "new": {},
    "two bytes": {i: str(i) for i in range(300)},
    "four bytes": shrunk(),
    "too many": {i: i for i in range(100000)},
    "module": os.__dict__,
}
none = {"list": [1, 2], "text": "text", "number": 5}
rows = [{"name": name, "id": id(d), "want": NO_DICT if name == "too many" else [[readable(k), readable(v)] for k, v in d.items()]}
        for name, d in dicts.items()]
rows += [{"name": name, "id": id(d), "want": NO_DICT} for name, d in none.items()]
print(json.dumps(rows), flush=True)
sys.stdin.read()
