# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Windows of ptbpf and the runs in each: one of the program alone, one under torch's own tool as well. Both
processes of a leg do the same runs in the same order, so that their values can be compared."""

WINDOWS = {"names": ("bare", "profiled"), "shapes": ("plain", "shaped"), "full": ("whole", "traced")}
