# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Windows of ptbpf and the runs in each: one of the program alone, one under torch's own tool as well. Both
processes of a leg do the same runs in the same order, so that their values can be compared. Memory has a window for
each of the two, because tables are compared too."""

WINDOWS = {"names": ("bare", "profiled"), "shapes": ("plain", "shaped"), "full": ("whole", "traced"),
           "memory": ("counted", None), "held": (None, "held")}
MEMORY = ("memory", "held")


def runs_of(windows=WINDOWS):
    return [run for window in windows for run in WINDOWS[window] if run]
