# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The broad payload: as many operators as can be called without knowing them. Their values are not kept:
some read memory that nobody wrote.

Every built-in function of torch's namespaces and every built-in method of Tensor is tried with a few
argument patterns; what raises, raises. The list is a function of the torch version alone.
"""

import types

import torch

from payloads import payload, seed

# Not operators on small tensors: global state, files, compilation, waiting; and those that read or write
# outside their buffers when their arguments make no sense (pivots of a factorisation).
UNWANTED = ("set_", "_", "init", "import", "parse", "from_file", "fork", "wait", "read_", "clear_", "autocast",
            "vitals", "merge_type", "unify", "fbgemm", "mkldnn", "cudnn", "miopen", "seed", "manual", "is_", "get_",
            "are_", "can_cast", "from_dlpack", "to_dlpack", "frombuffer", "asarray", "from_numpy", "share_memory",
            "pin_memory", "storage", "data_ptr", "record_stream", "module_load", "cuda", "xpu", "ipu", "mtia", "hpu",
            "quantized_", "empty", "resize", "new_empty", "rename", "align", "refine", "names", "sym_", "cond",
            "untyped", "numpy", "tolist", "map_", "map2_", "apply_", "requires_grad", "retain_grad", "backward",
            "register", "reinforce", "type", "element_size", "set", "stride", "size", "dim", "ndimension", "nelement",
            "segment_reduce", "compiled_with", "pinverse_", "hspmm", "sspaddmm", "smm", "stack_trace", "swap", "slice_",
            "binomial", "poisson", "ldl_solve", "linalg_ldl_solve", "lu_solve", "linalg_lu_solve", "lu_unpack", "crow", "ccol", "row_", "col_", "batch_norm_", "native_batch", "cdist_", "to_mkldnn",
            # torch's own observers cannot read compressed tensors, write wrong parents and may crash
            "sparse_cs", "sparse_bs", "sparse_comp", "to_sparse_cs", "to_sparse_bs")


def wanted(name):
    return not name.startswith(UNWANTED)


def built_in(fn):
    return isinstance(fn, (types.BuiltinFunctionType, types.MethodDescriptorType))


def candidates():
    """(label, callable) in a fixed order."""
    out = []
    for space in (torch, torch.special, torch.linalg, torch.fft, torch._C._nn):
        for name in sorted(vars(space)):
            fn = getattr(space, name)
            if wanted(name) and built_in(fn):
                out.append((f"{space.__name__}.{name}", fn))
    for name in sorted(dir(torch.Tensor)):
        fn = getattr(torch.Tensor, name)
        if wanted(name) and built_in(fn):
            out.append((f"Tensor.{name}", fn))
    return out


def patterns():
    """Argument lists, made anew for each callable, because some write into their arguments."""
    m = torch.arange(1.0, 10.0).reshape(3, 3) / 4
    spd = torch.eye(3) * 4 + 0.5
    ints = torch.tensor([2, 0, 1])
    image = torch.arange(32.0).reshape(1, 2, 4, 4)
    return (
        (m,), (m, spd), (m, 1), (m, ints), (ints,), (spd, ints, m), (m, 0, ints), (m, spd, m),
        ([m, spd],), (image,), (image, 2), (image, image), (image, [2, 2]), (m, 0, ints, m), (m, [0]), (m, 0.5),
        (m > 1,), (m > 1, m, spd), (m.reshape(-1),), (m[0], m[1]), (m, "sum"),
    )


# Two thirds of all slices of a leg; "full" includes "shapes".
@payload(windows=("names", "full", "memory", "held"), brief=("full",))
def broad_ops():
    calls = candidates()

    def run():
        seed()
        for _, fn in calls:
            good = 0
            for args in patterns():
                try:
                    fn(*args)
                    good += 1
                except Exception:  # any exception is accepted
                    pass
                if good == 2:
                    break

    return run
