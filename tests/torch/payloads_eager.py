# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Payloads of plain eager mode: autograd, annotations, exceptions, views, layouts, number types."""

import torch
from torch.autograd.profiler import record_function
from torch.utils.checkpoint import checkpoint

from payloads import VERSION, Skip, need, payload, seed


@payload()
def elementwise():
    x, y = torch.randn(4, 4), torch.randn(4, 4)

    def run():
        z = x
        for _ in range(50):
            z = (z + y) * 0.5 - x / 3 + z.neg().abs().sqrt()
        return [z, z.sum().item(), z.tolist()]

    return run


@payload()
def multi_exit():
    """Operators whose compiled form needs two exit sites in some builds."""
    x = torch.arange(36.0).reshape(6, 6)

    def run():
        a, b = x.clone(), x.clone()
        out, ints = torch.empty(0), torch.empty(0, dtype=torch.int64)
        for k in (-1, 0, 1):
            a.tril_(k)
            b.triu_(k)
        torch.eye(5, out=out)
        torch.eye(3, 4, out=out)
        torch.randint(0, 9, (7,), out=ints)
        torch.randint(4, (2, 2), out=ints)
        view = torch.empty(0)
        view.set_(x.storage(), 6, (2, 3), (6, 1))
        other = torch.empty(0)
        other.set_(x)
        torch.normal(0.0, 1.0, (3,))
        torch.max(x, dim=1, keepdim=True)
        return [a, b, out, ints, view, other]

    return run


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x + y, x - y

    @staticmethod
    def backward(ctx, ga, gb):
        return ga, gb


@payload()
def backward():
    w = torch.randn(8, 8, requires_grad=True)
    b = torch.randn(8, requires_grad=True)
    x = torch.randn(4, 8)

    def run():
        for _ in range(5):
            w.grad = b.grad = None
            h = torch.relu(torch.nn.functional.linear(x, w, b))
            (h * h.sigmoid()).mean().backward()
        for _ in range(2):  # accumulates into an existing gradient
            torch.nn.functional.linear(x, w, b).sum().backward()
        return [w.grad, b.grad]

    return run


@payload()
def custom_function():
    x = torch.randn(3, 3, requires_grad=True)

    def run():
        x.grad = None
        y = Cube.apply(x)
        a, b = TwoOutputs.apply(y, x)
        (a.sum() + Cube.apply(b).sum()).backward()
        with torch.no_grad():
            Cube.apply(x)
        return [x.grad]

    return run


@payload()
def hooks():
    layer = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4, requires_grad=True)
    layer.register_forward_hook(lambda m, i, o: o * 2)
    layer.register_full_backward_hook(lambda m, gi, go: None)

    def run():
        layer.zero_grad()
        x.grad = None
        y = layer(x)
        y.register_hook(lambda g: g * 0.5)
        seen = []
        y.grad_fn.register_hook(lambda gi, go: seen.append(len(go)))
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t + 0):
            z = (y * y).sum()
        z.backward()
        return [x.grad, layer.weight.grad, len(seen)]

    return run


@payload()
def double_backward():
    x = torch.randn(5, requires_grad=True)

    def run():
        x.grad = None
        (g,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
        (g.sum() + h.sum()).backward()
        return [x.grad, torch.autograd.functional.jacobian(lambda v: v.exp(), x.detach())]

    return run


@payload()
def reentrant_backward():
    """backward() inside backward(): checkpointing, and by hand."""
    layer = torch.nn.Linear(6, 6)
    x = torch.randn(3, 6, requires_grad=True)

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            ctx.save_for_backward(v)
            return v * 2

        @staticmethod
        def backward(ctx, g):
            (v,) = ctx.saved_tensors
            with torch.enable_grad():
                leaf = v.detach().requires_grad_()
                leaf.pow(2).sum().backward()
            return g * leaf.grad

    def run():
        layer.zero_grad()
        x.grad = None
        y = checkpoint(lambda v: torch.tanh(layer(v)), x, use_reentrant=True)
        z = checkpoint(lambda v: torch.tanh(layer(v)), y, use_reentrant=False)
        Inner.apply(z).sum().backward()
        return [x.grad, layer.weight.grad]

    return run


def bad_mm():
    torch.mm(torch.ones(2, 3), torch.ones(2, 3))


@payload()
def exceptions():
    """Operators that raise, alone, below annotations, inside other operators and in backward."""

    def nested(depth):
        with record_function(f"level {depth}"):
            torch.ones(2)
            if depth:
                nested(depth - 1)
            bad_mm()

    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v + 1

        @staticmethod
        def backward(ctx, g):
            g.neg()
            bad_mm()

    def attempt(fn, *args):
        try:
            fn(*args)
        except (RuntimeError, IndexError, TypeError, ValueError) as err:
            return type(err).__name__
        return "none"

    def run():
        kinds = []
        for _ in range(10):
            kinds.append(attempt(bad_mm))
            torch.ones(3).add(1)
        kinds.append(attempt(nested, 4))
        with record_function("after"):
            torch.zeros(2).exp()
        kinds.append(attempt(torch.nn.functional.conv2d, torch.ones(1, 3, 8, 8), torch.ones(4, 5, 3, 3)))
        kinds.append(attempt(torch.linalg.cholesky, -torch.eye(3)))
        kinds.append(attempt(torch.ones(2, 2).view, 5))
        kinds.append(attempt(torch.cat, [torch.ones(2, 2), torch.ones(3, 3)], 0))
        kinds.append(attempt(torch.ones(3).index_select, 0, torch.tensor([7])))
        kinds.append(attempt(torch.tensor(3).item().missing if False else torch.ones(2).item))
        v = torch.ones(2, requires_grad=True)
        out = Raises.apply(v * 2).sum()
        kinds.append(attempt(out.backward))
        kinds.append(attempt(torch.nn.functional.linear, torch.ones(2, 3), torch.ones(2, 2)))
        (v * 3).sum().backward()
        return kinds

    return run


@payload()
def annotations():
    x = torch.randn(3)

    def run():
        with record_function("outer"):
            with record_function("inner"):
                x.neg()
            with record_function("inner"):
                with record_function("innermost", "some args"):
                    x.abs()
            x.exp()
        with record_function("empty"):
            pass
        with record_function("with \"quotes\", back\\slash, a: colon"):
            x.sin()
        with record_function("ünïcode"):
            x.sin()
        with record_function(""):
            x.cos()
        with record_function("x" * 200):
            x.tan()

        @record_function("as decorator")
        def decorated():
            return x.sum()

        return [decorated(), decorated()]

    return run


@payload()
def generators():
    """Annotations that stay open while a generator is suspended, so that they cross each other."""
    x = torch.randn(3)

    def produce(name):
        with record_function(name):
            for _ in range(3):
                yield x.neg()

    def run():
        for v in produce("one"):
            v.abs()
        for a, b in zip(produce("left"), produce("right")):
            (a + b).exp()
        unfinished = produce("never finished")
        next(unfinished)
        x.sin()
        unfinished.close()
        return [x.cos()]

    return run


@payload()
def grad_modes():
    w = torch.randn(4, 4, requires_grad=True)

    def run():
        with torch.no_grad():
            a = w.mm(w)
        with torch.inference_mode():
            b = w.mm(w) + 1
            b.add_(2)
        with torch.no_grad(), torch.enable_grad():
            c = w.mm(w)
        c.sum().backward()
        g, w.grad = w.grad, None
        return [a, c, g]

    return run


@payload()
def views_inplace():
    x = torch.arange(24.0)

    def run():
        a = x.clone().view(2, 3, 4)
        a[0, 1] += 5
        a[:, ::2, 1].mul_(2)
        a.transpose(0, 2).permute(1, 0, 2).contiguous().unsqueeze(0).squeeze()
        a.narrow(1, 0, 2).fill_(1)
        b = a.as_strided((2, 2), (1, 5), 3).clone()
        a.masked_fill_(a > 3, 0)
        a.index_put_((torch.tensor([0, 1]), torch.tensor([1, 2])), torch.tensor(9.0))
        c = torch.randn(3, requires_grad=True)
        d = c * 1
        d[1:].mul_(2)
        d.unbind()[0].sum()
        d.sum().backward()
        p, q = torch.split(a, 1)
        e = torch.stack([p, q]).chunk(2, dim=1)
        a.detach().resize_(4, 6)
        return [a, b, c.grad, *e]

    return run


@payload()
def complex_and_types():
    z = torch.complex(torch.arange(6.0), torch.ones(6)).reshape(2, 3)

    def run():
        out = [z * z.conj(), z.abs(), z.angle(), torch.view_as_real(z), z.real, z.mH if hasattr(z, "mH") else z]
        out += [torch.fft.rfft(torch.arange(8.0)), torch.fft.ifft(z)]
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool):
            v = torch.ones(4).to(dtype)
            out += [v + v, v.to(torch.float32).sum(), torch.promote_types(dtype, torch.int64) is not None]
        return [o.resolve_conj() if isinstance(o, torch.Tensor) and o.is_conj() else o for o in out]

    return run


@payload(readable="profiler" if VERSION >= (2, 6) else False)
def sparse():
    i, v = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])

    def run():
        s = torch.sparse_coo_tensor(i, v, (2, 3))
        out = [s.coalesce().to_dense(), torch.sparse.mm(s, torch.ones(3, 2)), (s + s).to_dense()]
        csr = s.coalesce().to_dense().to_sparse_csr()
        out += [csr @ torch.ones(3)] if torch.backends.mkl.is_available() else []
        return out + [csr.crow_indices(), csr.values(), csr.to_dense()]

    return run


@payload(readable="profiler" if VERSION >= (2, 0) else False)
def nested():
    need(hasattr(torch, "nested"), "no nested tensors")

    def run():
        n = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        return [*(n * 2).unbind(), torch.nested.to_padded_tensor(n, 0.0)]

    return run


@payload()
def jagged():
    need(hasattr(torch, "nested") and hasattr(torch, "jagged"), "no jagged layout")

    def run():
        n = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        return [torch.cos(n).values(), (n + 1).sin().values()]

    return run


@payload()
def quantized():
    need("fbgemm" in torch.backends.quantized.supported_engines
         or "x86" in torch.backends.quantized.supported_engines, "no quantized engine")
    x = torch.linspace(-1, 1, 16).reshape(4, 4)

    def run():
        q = torch.quantize_per_tensor(x, 0.05, 10, torch.quint8)
        c = torch.quantize_per_channel(x, torch.full((4,), 0.1), torch.zeros(4), 0, torch.qint8)
        return [q.dequantize(), q.int_repr(), c.dequantize(), torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)]

    return run


@payload()
def torch_ops():
    """Boxed calls: torch.ops and operators defined in Python."""
    lib = torch.library.Library("ptbpf_test", "DEF")
    lib.define("scale(Tensor x, float f) -> Tensor")
    lib.define("pair(Tensor x) -> (Tensor, Tensor)")
    lib.impl("scale", lambda x, f: x * f, "CompositeExplicitAutograd")
    lib.impl("pair", lambda x: (x + 1, torch.ops.ptbpf_test.scale(x, 2.0)), "CPU")
    x = torch.randn(4)

    def run():
        assert lib is not None  # the operators live as long as their library
        out = [torch.ops.aten.add(x, x), torch.ops.aten.add.Tensor(x, x, alpha=2), torch.ops.aten.relu.default(x)]
        out += [torch.ops.ptbpf_test.scale(x, 3.0), *torch.ops.ptbpf_test.pair(x)]
        out += list(torch.ops.aten.max.dim(x.view(2, 2), 0))
        out.append(torch.ops.prims.sin(x) if hasattr(torch.ops.prims, "sin") else x)
        try:
            torch.ops.aten.mm(torch.ones(2, 3), torch.ones(2, 3))
        except RuntimeError:
            out.append("raised")
        try:
            torch.ops.ptbpf_test.scale(x, "no number")
        except RuntimeError:
            out.append("refused")
        return out

    return run


@payload()
def custom_op():
    if not hasattr(torch.library, "custom_op"):
        raise Skip("no torch.library.custom_op")

    @torch.library.custom_op("ptbpf_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    twice.register_autograd(lambda ctx, g: g * 2)
    x = torch.randn(4, requires_grad=True)

    def run():
        x.grad = None
        twice(twice(x)).sum().backward()
        return [x.grad]

    return run


@payload()
def functorch_transforms():
    need(hasattr(torch, "func"), "no torch.func")
    x = torch.randn(3, 4)
    w = torch.randn(4)

    def loss(v):
        return torch.sin(v * w).sum()

    def run():
        out = [torch.func.vmap(lambda v: torch.dot(v, w))(x), torch.func.grad(loss)(w)]
        out += [torch.func.vmap(torch.func.grad(loss))(x), torch.func.jacrev(lambda v: v * v)(w)]
        return out

    return run


@payload()
def forward_mode():
    x, t = torch.randn(3), torch.ones(3)

    def run():
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, t)
            out = torch.autograd.forward_ad.unpack_dual(dual.sin() * dual)
        return [out.primal, out.tangent]

    return run


@payload()
def autocast():
    a, b = torch.randn(8, 8), torch.randn(8, 8)

    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return [torch.mm(a, b), torch.mm(a, b).exp(), torch.nn.functional.linear(a, b)]

    return run


@payload()
def random_ops():
    def run():
        seed()
        out = [torch.rand(4), torch.randn(3), torch.randperm(9), torch.randint(0, 9, (4,)), torch.bernoulli(torch.full((4,), 0.5))]
        out += [torch.multinomial(torch.ones(5), 3), torch.nn.functional.dropout(torch.ones(16), 0.5)]
        out += [torch.empty(4).uniform_(), torch.empty(4).normal_(), torch.empty(4).exponential_()]
        return out

    return run
