# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Arguments in other than plain operator calls: annotations, boxed calls, operators defined in Python, TorchScript, autograd
functions, operators that raise, fake and symbolic tensors."""

import torch
from torch.autograd.profiler import record_function

from payloads import VERSION, need, payload, seed

EVERYTHING = ("Tensor a, Tensor? b, Tensor[] c, Tensor?[] d, int e, int? f, int[] g, int[2] h, int[]? i, SymInt j, SymInt[] k, "
              "float l, float? m, float[] n, float[]? o, bool p, bool? q, bool[] r, bool[2] s, str t, str? u, str[] v, "
              "Scalar w, Scalar? x, ScalarType y, ScalarType? z, Layout? la, Device? de, MemoryFormat? me, Generator? ge")
RETURNS = "(Tensor, Tensor[], int, float, bool, str, int[], Scalar)"


@payload()
def annotation_args():
    """The arguments of the annotation in torch's own test of the Execution Trace, and more."""
    enter = getattr(torch.autograd, "_record_function_with_args_enter", None)
    need(enter, "no annotations with arguments")
    u = torch.ones(3, 4, 5, requires_grad=True)
    empty = torch.empty(0)
    # the oldest Execution Trace does not escape texts
    odd = "quotes \" and ' and back\\slash\n\ttab ünïcode 中文 \x01" if VERSION >= (2, 0) else "plain"

    def run():
        for args in ((1, False, 2.5, [u, u], (u, u), "hello", u, float("inf"), -float("inf"), float("nan")),
                     (None, torch.Size([2, 1]), [1, 2], [1.5, 2.5], [True, False], ["a", "b"], (1, "two", (3.0, [u])), 1 + 2j, 2 ** 62, -1),
                     (torch.float32, torch.device("cpu"), torch.strided, empty, 0.1, 1e-8, 1e20),
                     ({"a": 1}, {"t": u}, [[1, 2], [3]], [[u], [u, u]], odd, ""), ([u] * 40, list(range(100)), tuple(range(12))), ()):
            handle = enter("## TEST 2 ##", *args)
            u.neg()
            torch.autograd._record_function_with_args_exit(handle)
        for text in ("an argument", odd, "x" * 1000, "{[json, 1]}", ""):
            with record_function("with text", text):
                u.abs()
        return [u.sum()]

    return run


@payload()
def long_texts():
    """Texts around the limits of old traces and of ptbpf's buffers."""
    def run():
        for n in (2047, 2048, 2049, 8192, 8193, 20000):
            with record_function("long text", "0123456789" * (n // 10) + "x" * (n % 10)):
                torch.ones(1)
        with record_function("n" * 3000):
            torch.ones(2)
        torch.einsum(",".join(["ij"] * 3) + "->ij", *[torch.ones(2, 2)] * 3)

    return run


@payload()
def boxed_args():
    """The same kinds of arguments through torch.ops."""
    seed()
    x, i = torch.randn(2, 3, 4), torch.tensor([1, 0])
    a = torch.ops.aten

    def run():
        out = [a.add.Tensor(x, x, alpha=2.5), a.add.Scalar(x, 1 + 0j).real, a.sum.dim_IntList(x, [0, 2], True), a.sum.default(x)]
        out += [a.div.Tensor_mode(x, x.abs() + 1, rounding_mode="trunc"), a.clamp.default(x, None, 0.5), a.cat.default([x, x], 1)]
        out += [a.zeros.default([2, 3], dtype=torch.int16, device=torch.device("cpu")), a.index.Tensor(x, [None, i]), a.index.Tensor(x, [i])]
        out += [*a.max.dim(x, 1), *a.split.Tensor(x, 1, 1), *a.unbind.int(x), a.to.dtype(x, torch.float64), a.clone.default(x)]
        out += [a.full.default([2], True), a.full.default([2], 2.5), a.arange.start_step(0, 9, 2), a.bernoulli.default(x.abs().clamp(0, 1))]
        out += [a.layer_norm.default(x, [4], None, None, 1e-5), a.native_layer_norm.default(x, [4], None, None, 1e-5)[0]]
        out += [a.empty_like.default(x, memory_format=torch.contiguous_format).fill_(0), a.upsample_nearest2d.vec(x[None], None, [2.0, 2.0])]
        out += [a.add_.Tensor(x.clone(), x), a.add.out(x, x, out=torch.empty(0)), a.equal.default(x, x), a._local_scalar_dense.default(x[0, 0, 0])]
        out += [*a._foreach_add.Scalar([x, x], 2), *a._foreach_mul.List([x] * 35, [x] * 35)[:2], a.constant_pad_nd.default(x, [1, 1], 2.5)]
        return out

    return run


@payload()
def library_ops():
    """Operators defined in Python, with every type that a schema may have."""
    lib = torch.library.Library("ptbpf_args", "DEF")
    lib.define(f"everything({EVERYTHING}) -> {RETURNS}")
    lib.define("inplace(Tensor(a!) x, float f=0.5, *, str how='plain') -> Tensor(a!)")
    lib.define("nothing(Tensor x, int n=3) -> ()")
    lib.define("lists(Tensor[] xs) -> Tensor[]")
    lib.impl("everything", lambda a, *rest: (a * 2, [a, a + 1], 7, 2.5, True, "text", [1, 2, 3], 4.5), "CPU")
    lib.impl("inplace", lambda x, f=0.5, how="plain": x.mul_(f), "CPU")
    lib.impl("nothing", lambda x, n=3: None, "CPU")
    lib.impl("lists", lambda xs: [v.neg() for v in xs], "CPU")
    seed()
    x, ops = torch.randn(2, 3), torch.ops.ptbpf_args

    def run():
        assert lib is not None  # the operators live as long as their library
        g = torch.Generator()
        out = list(ops.everything(x, x, [x, x], [x, None], 1, 2, [3, 4], [5, 6], [7], 8, [9, 10], 1.5, 2.5, [3.5], [4.5, 5.5], True,
                                  False, [True, False], [True, True], "text", "more", ["a", "b"], 2.5, 3, torch.float32, torch.int64,
                                  torch.strided, torch.device("cpu"), torch.contiguous_format, g))
        out += list(ops.everything(x, None, [], [], -1, None, [], [5, 6], None, 0, [], float("inf"), None, [], None, False, None, [],
                                   [False, True], "", None, [], 1 + 2j, None, torch.bool, None, None, None, None, None))
        ops.inplace(x.clone()), ops.inplace(x.clone(), 2.0, how="other"), ops.nothing(x), ops.nothing(x, n=-5)
        out += ops.lists([x, x.t()])
        return out

    return run


def scripted_kinds(x: torch.Tensor, n: int, f: float, name: str):
    y = torch.div(x, f, rounding_mode="floor") + n
    parts = torch.split(y, [1, x.size(0) - 1])
    z = torch.cat([parts[1], parts[0]]).sum([1])
    if name == "long":
        z = torch.clamp(z, min=0.5)
    return z, torch.zeros([2, 3], dtype=torch.int64), torch.max(y, 1)


@payload()
def script_args():
    """Arguments that reach operators by TorchScript's interpreter."""
    fn = torch.jit.script(scripted_kinds)
    x = torch.arange(12.0).reshape(4, 3)
    for _ in range(4):
        fn(x, 2, 1.5, "long")

    def run():
        a, b, (c, d) = fn(x, 2, 1.5, "long")
        return [a, b, c, d, *fn(x, 3, 0.5, "short")[:2]]

    return run


@payload()
def function_args():
    """autograd.Function with arguments that are not tensors."""
    class Mixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n, name, pair, flag=None):
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(False)
            return x * n, pair[0] + x, x.detach()

        @staticmethod
        def backward(ctx, a, b, c):
            return a * 2 if b is None else a + b, None, None, None, None

    x = torch.ones(2, 3, requires_grad=True)

    def run():
        x.grad = None
        a, b, _ = Mixed.apply(x, 3, "name", (torch.ones(2, 3), 1))
        a.sum().backward(retain_graph=True)
        (a + b).sum().backward()
        a, _, _ = Mixed.apply(x.double(), 2.5, None, [torch.zeros(2, 3), {}], True)
        (g,) = torch.autograd.grad(a, x, torch.ones(2, 3, dtype=torch.float64))
        return [x.grad, g]

    return run


@payload()
def raising_args():
    """Operators with many arguments that raise, alone and nested, between others that do not."""
    x, image = torch.ones(2, 3), torch.ones(1, 2, 5, 5)
    calls = (lambda: torch.mm(x, x), lambda: torch.cat([x, x.t()], 1), lambda: torch.nn.functional.conv2d(image, torch.ones(1, 3, 2, 2)),
             lambda: torch.einsum("ij,kj->il", x, x), lambda: x.sum(5), lambda: x.view(7), lambda: torch.div(x, x, rounding_mode="up"),
             lambda: x[torch.tensor([9])], lambda: torch.full((-1,), 2.5), lambda: x.to_sparse().view(6), lambda: x.expand(3, 3),
             lambda: torch.ops.aten.add.Tensor(x, torch.ones(5), alpha=2.5), lambda: torch._foreach_add([x, x], [x]), lambda: x.clamp())

    def run():
        kinds = []
        for call in calls:
            x.add(1)
            try:
                call()
            except (RuntimeError, IndexError) as err:
                kinds.append(type(err).__name__)
            torch.max(x, 1)
        return kinds

    return run


@payload()
def fake_tensors():
    need(hasattr(torch, "compile"), "no fake tensors")
    from torch._subclasses.fake_tensor import FakeTensorMode
    real = torch.ones(3, 4)

    def run():
        with FakeTensorMode() as mode:
            x = mode.from_tensor(real)
            torch.cat([x + x, x.t().t()]).sum(0)
        return [real.sum()]

    return run


@payload(steady=False)
def symbolic_sizes():
    """The profiler asks the symbols for values, which adds guards on them."""
    need(hasattr(torch, "compile"), "no fake tensors")
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    real = torch.ones(3, 4)

    def run():
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            x = mode.from_tensor(real)
            (x + x).view(-1)[1:].sum()
        return [real.sum()]

    return run
