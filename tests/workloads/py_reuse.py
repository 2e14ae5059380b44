# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions that are made, called and freed, so that the next one has its memory: each differs from the one before in one thing only.
py_reuse.py LIBRARY COUNT: COUNT functions of each kind call py_point() of the library with their number. Waits for a line before it begins,
and before it ends. Prints where each call was: [file, name, line]."""

import ctypes
import itertools
import json
import sys
import types

point = ctypes.CDLL(sys.argv[1]).py_point
point.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
point.restype = None
count = int(sys.argv[2])
scope = {"point": point}
kept, numbers = [], itertools.count()


def run(fn, i, line):
    code = fn.__code__
    fn(next(numbers))
    if i == count - 1:
        kept.append(fn)
    return code.co_filename, getattr(code, "co_qualname", code.co_name), line


def by_name(i):
    exec(f"def f{i:05}(n): point(None, n, 1)", scope)
    return run(scope.pop(f"f{i:05}"), i, 1)


def by_class(i):
    exec(f"class C{i:05}:\n def f(n): point(None, n, 1)", scope)
    return run(scope.pop(f"C{i:05}").f, i, 2)


def by_file(i):
    exec(compile("def f(n): point(None, n, 1)", f"<file {i:05}>", "exec"), scope)
    return run(scope.pop("f"), i, 1)


def by_lines(i):
    exec("def f(n):\n" + "\n" * (i % 50) + " point(None, n, 1)", scope)
    return run(scope.pop("f"), i, 2 + i % 50)


def by_replace(i):
    code = (lambda n: point(None, n, 1)).__code__
    return run(types.FunctionType(code.replace(co_firstlineno=1000 + i), scope), i, 1000 + i)


print("begin", flush=True)
sys.stdin.readline()
print(json.dumps([make(i) for make in (by_name, by_class, by_file, by_lines, by_replace) for i in range(count)]), flush=True)
sys.stdin.readline()
