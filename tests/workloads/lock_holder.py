# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""lock_holder.py FILE: holds the lock of its own address space: it reads a page of FILE, which a silent server serves, through /proc/self/mem, while
another thread waits for the lock to write. Whoever reads its environ then waits, too."""

import ctypes
import mmap
import os
import sys
import threading
import time

with open("/proc/self/comm", "w", encoding="utf-8") as f:
    f.write("pt_lock")
held = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
libc = ctypes.CDLL(None)
libc.pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


class View(ctypes.Structure):  # Py_buffer, as far as its address
    _fields_ = [("buf", ctypes.c_void_p), ("rest", ctypes.c_byte * 128)]


view = View()
ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(held), ctypes.byref(view), 0)
buf = ctypes.create_string_buffer(1)
mem = os.open("/proc/self/mem", os.O_RDONLY)
print("mapped", flush=True)
sys.stdin.readline()
threading.Thread(target=lambda: libc.pread(mem, buf, 1, view.buf), daemon=True).start()
time.sleep(0.5)
print("holds", flush=True)
libc.mmap(None, 4096, 1, 0x22, -1, 0)
