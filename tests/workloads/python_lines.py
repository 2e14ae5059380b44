# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Line tables of this interpreter's own library, as tests/unit/python_tool.c reads them: for each code object a line
"FORM FIRST SIZE TABLE-IN-HEX", and one with the line of each instruction as the interpreter finds it."""

import glob
import os
import sys
import types

FORM = 1 if sys.version_info < (3, 10) else 2 if sys.version_info < (3, 11) else 3


def codes_in(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes_in(const)


def lines_of(code):
    size = len(code.co_code)
    if FORM == 1:
        import ctypes
        find = ctypes.pythonapi.PyCode_Addr2Line
        find.argtypes = [ctypes.py_object, ctypes.c_int]
        return [find(code, at) for at in range(0, size, 2)]
    lines = [-1] * (size // 2)
    for start, end, line in code.co_lines():
        for at in range(start, min(end, size), 2):
            lines[at // 2] = -1 if line is None else line
    return lines


for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "[a-m]*.py")))[:int(sys.argv[1])]:
    with open(path, "rb") as f:
        module = compile(f.read(), path, "exec")
    for code in codes_in(module):
        table = code.co_lnotab if FORM == 1 else code.co_linetable
        if table:
            print(FORM, code.co_firstlineno, len(code.co_code), table.hex())
            print(*lines_of(code))
