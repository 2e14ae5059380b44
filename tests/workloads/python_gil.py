# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that compete for the GIL; after a line on stdin a thread keeps it for good.

Prints "lock " and a JSON list, the address of struct _gil_runtime_state and the numbers of the threads that compete; then "holder " and a JSON list of the thread that keeps it: the address of its
thread state, its pthread_t, its number.
"""

import ctypes
import json
import struct
import sys
import threading

api = ctypes.pythonapi
api.PyThreadState_Get.restype = api.PyInterpreterState_Main.restype = ctypes.c_void_p
INTERVAL = 12300


def lock():
    """Where the interval that was set and this thread's state, which has the lock, stand one behind the other."""
    state = api.PyInterpreterState_Main() if sys.version_info >= (3, 12) else ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
    size = 16384 if sys.version_info >= (3, 12) else 512
    found = ctypes.string_at(state, size).find(struct.pack("QQ", INTERVAL, api.PyThreadState_Get()))
    assert found >= 0
    return state + found


def spin():
    while True:
        pass


def hold():
    print("holder", json.dumps([api.PyThreadState_Get(), threading.get_ident()]), flush=True)
    ctypes.PyDLL(None).sleep(1000)


sys.setswitchinterval(INTERVAL / 1e6)
spinners = [threading.Thread(target=spin, daemon=True) for _ in range(3)]
for spinner in spinners:
    spinner.start()
print("lock", json.dumps([lock(), [spinner.native_id for spinner in spinners]]), flush=True)
sys.stdin.readline()
threading.Thread(target=hold).start()
