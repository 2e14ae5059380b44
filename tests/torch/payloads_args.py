# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The kinds of arguments: every form in which an operator takes or returns a value, in unboxed calls."""

import torch
from torch.nn import functional as F

from payloads import VERSION, need, payload, seed


def tries(*calls):
    """Results of calls; calls that this torch lacks or refuses are omitted, in every run alike."""
    out = []
    for call in calls:
        try:
            value = call()
        except (RuntimeError, TypeError, AttributeError, NotImplementedError, ValueError, IndexError):
            continue
        if isinstance(value, torch.Tensor) and (value.is_meta or value.is_quantized or value.is_mkldnn):
            continue
        out.append(value)
    return out


@payload()
def factory_args():
    """The arguments that torch's own test of event arguments checks, and similar ones."""
    def run():
        a = torch.ones((64, 32), dtype=torch.float32)
        c = torch.cat([a, a]).sin()
        out = [c, torch.zeros(3, 4, dtype=torch.int64), torch.full((2, 2), 7), torch.eye(3), torch.arange(2, 9, 3)]
        out += [torch.arange(0.5, 2.5, 0.5), torch.linspace(0, 1, 5), torch.logspace(0, 2, 3, base=2.0)]
        out += [torch.ones_like(a), torch.tensor([1.5, 2.5]), torch.tensor(3), torch.scalar_tensor(2.5)]
        torch.empty((2, 3), pin_memory=False, memory_format=torch.contiguous_format)
        torch.empty_strided((2, 3), (1, 2)), torch.empty(0), torch.empty(())
        return out

    return run


@payload()
def strided_views():
    """The strides of torch's own test, and more unusual ones."""
    x = torch.arange(1000.0)

    def run():
        a, b = x.as_strided((4, 16), (17, 1)), x.as_strided((5, 3), (25, 2))
        out = [a + 1, b * b, torch.mm(a, a.t()), x.as_strided((2, 2), (1, 0), 7).sum(), x[::7].neg(), x.flip(0).abs()]
        c = x[:120].view(2, 3, 4, 5)
        out += [c.permute(3, 1, 0, 2).add(1), c.transpose(1, 2)[..., 1:3].mul(2), c.expand(2, 3, 4, 5).sin()]
        out += [c[0, 0, 0, 0].cos(), c[:, :, ::2, 1].exp(), c.to(memory_format=torch.channels_last).neg(), c.mT.abs()]
        return out

    return run


@payload()
def flop_ops():
    """Operators whose floating-point operations torch counts, also with arguments that its formulas refuse."""
    seed()
    m, b, image = torch.randn(3, 4), torch.randn(2, 3, 4), torch.randn(2, 4, 9, 11)
    weight, grouped = torch.randn(6, 4, 3, 2), torch.randn(6, 2, 3, 3)

    def run():
        out = [torch.mm(m, m.t()), torch.addmm(torch.ones(3), m, m.t()), torch.bmm(b, b.mT), m * m, m + 1, m * 2.5]
        out += [torch.baddbmm(torch.ones(2, 3, 3), b, b.mT), torch.tensor(2.0) * torch.tensor(3.0), b + m]
        out += [F.conv2d(image, weight), F.conv2d(image, weight, stride=2, padding=1), F.conv2d(image[0], weight)]
        out += [F.conv2d(image, grouped, groups=2, dilation=(1, 2), stride=(2, 1)), F.conv1d(image[:, :, 0], weight[:, :, 0])]
        out += [F.conv2d(image, weight, padding="same"), torch.mm(m[:0], m.t()), torch.mv(m, m[0]), torch.matmul(b, m.t())]
        out += [torch.dot(m[0], m[1]), F.linear(b, m), F.conv_transpose2d(image, weight.transpose(0, 1))]
        return out

    return run


@payload()
def scalars():
    """Scalars of each kind, doubles in registers, optional ones, numbers beyond 32 bits, inf and nan."""
    seed()
    x, ints = torch.randn(3, 4), torch.arange(12).reshape(3, 4)

    def run():
        out = [x + 2, x + 2.5, x + True, x.add(x, alpha=3), x.add(x, alpha=0.125), x.sub(1, alpha=2), x * float("inf")]
        out += [torch.full((2,), v) for v in (1, 2.5, True, 1 + 2j, float("-inf"), 1e-8, 1e38, -(2 ** 62), 2 ** 31)]
        out += [x.clamp(0), x.clamp(max=0.5), x.clamp(-1, 1.5), x.pow(3), x.pow(0.5).isnan(), 2 ** ints, ints // 3]
        out += [F.leaky_relu(x, 0.125), F.elu(x, 0.5), F.hardtanh(x, -0.25, 0.75), F.softplus(x, 2, 10), F.threshold(x, 0.1, 9)]
        out += [F.celu(x, 0.3), F.layer_norm(x, (4,), eps=1e-6), x.lerp(x + 1, 0.25), x.addcmul(x, x, value=0.5)]
        out += [x.addcdiv(x, x.abs() + 1, value=2), F.dropout(x, 0.0), F.smooth_l1_loss(x, x + 1, beta=0.7), x.fmod(1.5)]
        out += [x.norm(2.5), x.std((0,), correction=2), x.quantile(0.3), F.normalize(x, p=1.5), x.renorm(2, 0, 0.9), x.nan_to_num(1.0)]
        out += [x.clone().fill_(2.5), x.clone().fill_(True), x.masked_fill(x > 0, -1e9), x.eq(1), x.ge(0.5), x.remainder(-2)]
        out += [torch.where(x > 0, 1.0, 2), torch.threshold(x, 0, 1), torch.complex(x, x) * (1 + 2j), torch.rsub(x, 1, alpha=2)]
        return [v.resolve_conj() for v in out]

    return run


@payload()
def lists_of_numbers():
    """Lists of int, SymInt and float, fixed ones, optional ones, empty ones."""
    seed()
    x, image = torch.randn(2, 3, 4), torch.randn(1, 2, 6, 6)

    def run():
        out = [x.sum((0, 2)), x.sum(()), x.mean((1,), keepdim=True), x.std((0, 1)), x.amax((1, 2)), x.flip((0, 2)), x.sum()]
        out += [x.roll((1, 2), (0, 2)), x.roll(3), x.permute(2, 0, 1), x.repeat(2, 1, 1), x.expand(5, 2, 3, 4), x.view(-1)]
        out += [F.pad(x, (1, 0, 2, 1)), F.pad(x, [1, 1], value=2.5), F.max_pool2d(image, 2), F.avg_pool2d(image, (2, 3), (1, 2))]
        out += [F.interpolate(image, size=(3, 4)), F.interpolate(image, scale_factor=2.0, mode="bilinear")]
        out += [F.interpolate(image, scale_factor=(1.5, 0.5), mode="nearest"), F.adaptive_avg_pool2d(image, (2, None))]
        out += [*x.split([1, 2], 1), *x.tensor_split((1, 3), 2), x.unflatten(2, (2, 2)), x.unfold(2, 2, 1), x.rot90(1, (1, 2))]
        out += [torch.fft.fftn(image, s=(4, 4)).abs(), torch.fft.fft2(image, norm="ortho").abs(), torch.fft.ifftn(image).abs()]
        out += [torch.tensordot(x, x, ((0, 1, 2), (0, 1, 2))), x.movedim((0, 1), (1, 0))]
        out += tries(lambda: torch.histogramdd(x.view(-1, 3), [2, 2, 2], range=[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]).hist,
                     lambda: torch.gradient(x, spacing=[2.0, 0.5, 1.0])[0], lambda: x.new_zeros((2, 3)), lambda: x.var([]), lambda: x.squeeze((0, 2)))
        return out

    return run


@payload()
def enumerations():
    """dtype, layout, memory format, device and their optionals; optional bool."""
    seed()
    x = torch.randn(2, 3, 4, 5)

    def run():
        out = [x.to(d) for d in (torch.float64, torch.int32, torch.bfloat16, torch.bool, torch.complex64)]
        out += [x.to("cpu", torch.float16), x.to(torch.device("cpu")), x.to(x), x.double(), x.half(), x.type(torch.int64)]
        out += [x.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last), x.clone()]
        out += [x.clone(memory_format=torch.preserve_format), torch.zeros_like(x, dtype=torch.int8, device="cpu")]
        out += [torch.zeros(2, layout=torch.strided), x.sum(dtype=torch.float64), x.softmax(1, dtype=torch.float64)]
        out += [x.cumsum(2, dtype=torch.float32), torch.empty_like(x, memory_format=torch.channels_last).fill_(1)]
        out += [torch.zeros((1, 2), dtype=torch.float64, device="cpu", pin_memory=False, requires_grad=True).detach(), x.mean(dtype=None)]
        out += tries(lambda: x.to_sparse(layout=torch.sparse_coo).to_dense(),
                     lambda: x.to(torch.float32, copy=True, non_blocking=True), lambda: x.view(torch.int32))
        return out

    return run


@payload()
def random_sources():
    """Optional generators: absent, and one of the payload's own."""
    def run():
        g = torch.Generator().manual_seed(7)
        p = torch.full((3, 3), 0.5)
        out = [torch.bernoulli(p, generator=g), torch.rand(3, generator=g), torch.randn((2, 2), generator=g, dtype=torch.float64)]
        out += [torch.randint(0, 9, (4,), generator=g), torch.randperm(5, generator=g), torch.normal(p, 0.1, generator=g)]
        out += [torch.multinomial(p, 2, generator=g), p.clone().normal_(0.5, 2.0, generator=g), p.clone().uniform_(1, 2)]
        out += [p.clone().random_(3, 7, generator=g), p.clone().exponential_(2.0, generator=g), p.clone().log_normal_(1, 0.25)]
        out += [p.clone().geometric_(0.3), p.clone().cauchy_(generator=g), p.clone().bernoulli_(0.25), p.clone().random_()]
        out += [torch.normal(1.0, p), torch.normal(p, p, generator=g), F.gumbel_softmax(p), F.rrelu(p, 0.1, 0.3, training=True)]
        return out

    return run


@payload()
def strings():
    """Operators that take text, optional text, and lists with text."""
    seed()
    x, y = torch.randn(4, 4), torch.randn(4, 4)

    def run():
        out = [torch.div(x, y, rounding_mode=m) for m in ("floor", "trunc", None)]
        out += [torch.div(x, 3, rounding_mode="floor"), torch.einsum("ij,jk->ik", x, y), torch.einsum("ij,ij->", x, y)]
        out += [*torch.meshgrid(x[0], y[0], indexing="xy"), F.gelu(x, approximate="tanh"), F.gelu(x)]
        out += [x.scatter(0, torch.zeros(1, 4, dtype=torch.int64), y, reduce="add"), torch.linalg.norm(x, "fro")]
        out += [torch.linalg.matrix_norm(x, "nuc"), torch.bucketize(x, x[0].sort()[0]), torch.searchsorted(x[0].sort()[0], y, side="right")]
        out += [x.scatter_reduce(0, torch.zeros(4, 4, dtype=torch.int64), y, "amax", include_self=False)]
        out += [F.pad(x[None], (1, 1), mode="reflect"), torch.linalg.qr(x, mode="r")[1], torch.linalg.svdvals(x, driver=None)]
        out += tries(lambda: torch.quantile(x, 0.5, interpolation="lower"), lambda: torch.stft(x[0], 4, return_complex=True).abs(),
                     lambda: torch.index_reduce(x, 0, torch.tensor([0, 1, 1, 2]), y, "prod"),
                     lambda: torch.segment_reduce(x[0].abs(), "sum", lengths=torch.tensor([1, 3])))
        return out

    return run


@payload()
def bool_lists():
    """array<bool, N> of backward operators, and lists of bool."""
    seed()
    image, weight = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    norm, group = torch.nn.LayerNorm(5), torch.nn.GroupNorm(1, 3)

    def run():
        image.grad = weight.grad = None
        norm.zero_grad(), group.zero_grad()
        y = norm(F.conv2d(image, weight, padding=1))
        group(y).square().sum().backward()
        z = torch.ops.aten.convolution_backward(torch.ones(1, 3, 3, 3), image.detach(), weight.detach(), [3], [1, 1], [0, 0],
                                                [1, 1], False, [0, 0], 1, [True, False, True])
        F.conv_transpose2d(image.detach(), weight.transpose(0, 1), output_padding=0).sum().backward()
        return [weight.grad, norm.weight.grad, z[0], z[2]]

    return run


@payload()
def tensor_lists():
    """Lists of tensors, short ones, ones longer than torch prints, ones longer than any buffer; with gaps."""
    seed()
    parts = [torch.randn(2, 2) for _ in range(600)]
    x, i = torch.randn(4, 5, 6), torch.tensor([0, 2, 1])

    def run():
        out = [torch.cat(parts[:n]) for n in (1, 2, 30, 31, 40)] + [torch.stack(parts[:3], 1), torch.cat(parts)]
        for n in (5, 40, 600):
            out += [torch._foreach_add(parts[:n], 2)[-1], torch._foreach_mul(parts[:n], parts[:n])[0]]
            out += torch._foreach_sqrt([p.abs() for p in parts[:2]])
        copies = [p.clone() for p in parts[:40]]
        torch._foreach_add_(copies, parts[:40], alpha=0.5)
        torch._foreach_addcmul_(copies[:3], parts[:3], parts[:3], [1.0, 2, 0.5])
        torch._foreach_zero_(copies[5:7])
        out += copies[:8] + [x[i], x[None, i], x[:, i], x[i, :, i], x[..., i], x[x > 0], x[i, 1:3, None]]
        y = x.clone()
        y[i] = 1.0
        y[:, i, 2] = x[:, i, 3]
        out += [y, torch.block_diag(*parts[:3]), *torch.broadcast_tensors(x[0], x), *torch.atleast_2d(x[0, 0], x[0])]
        out += [torch.hstack(parts[:2]), torch.dstack(parts[:2]), torch.cartesian_prod(i, i), torch.einsum("ij,jk,kl->il", *parts[:3])]
        out += [torch.linalg.multi_dot(parts[:4]), torch.nn.utils.parameters_to_vector(parts[:3]), i]
        return out

    return run


@payload()
def dimensions():
    """From no dimensions to more than any layout stores inline; empty ones; one element."""
    seed()

    def run():
        out = []
        for n in (0, 1, 2, 4, 5, 6, 7, 8, 16, 17, 24):
            x = torch.ones([2] * min(n, 3) + [1] * max(n - 3, 0))
            out += [x + x, x.neg().sum(), x.clone().mul_(2), torch.stack([x, x]).mean()]
        seven = torch.arange(2.0 * 3 * 2 * 2 * 2 * 2 * 2).reshape(2, 3, 2, 2, 2, 2, 2).permute(6, 0, 5, 1, 4, 2, 3)
        out += [seven.exp(), seven[0, 1].log1p(), seven.reshape(-1), seven.sum((0, 6))]
        for shape in ((0,), (0, 3), (3, 0, 2), (1,), (1, 1)):
            e = torch.zeros(shape)
            out += [e + 1, e.sum(), torch.cat([e, e]), e.t() if len(shape) == 2 else e, e.view(-1)]
        return out

    return run


@payload()
def number_types():
    """Every dtype that can be had."""
    names = ("uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 bool complex32 complex64 complex128 uint16 uint32 "
             "uint64 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu").split()
    dtypes = [getattr(torch, n) for n in names if hasattr(torch, n)]

    def run():
        for d in dtypes:
            x = torch.zeros(2, 3, dtype=d)
            tries(lambda: x.clone(), lambda: x.t().contiguous(), lambda: x + x, lambda: torch.cat([x, x]), lambda: x.to(torch.float32),
                  lambda: x.neg(), lambda: x.fill_(1), lambda: x.sum(), lambda: x == x, lambda: torch.ones(2, 3).to(d), lambda: x[0, 0].item())
        q = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 3, torch.quint8)
        c = torch.quantize_per_channel(torch.ones(2, 3), torch.full((2,), 0.1), torch.zeros(2, dtype=torch.int64), 0, torch.qint8)
        tries(lambda: q + 1, lambda: q.clone(), lambda: q.dequantize(), lambda: c.dequantize(), lambda: q.q_scale(), lambda: q.q_zero_point(),
              lambda: c.q_per_channel_scales(), lambda: q.int_repr(), lambda: torch.cat([q, q]), lambda: F.relu(q), lambda: q.view(3, 2),
              lambda: torch.quantize_per_tensor([torch.ones(2), torch.ones(3)], torch.ones(2), torch.zeros(2), torch.qint32))

    return run


@payload()
def layouts():
    """Sparse, mkldnn and meta tensors, which have no storage or another kind of it."""
    seed()
    dense = torch.tensor([[0.0, 1, 0], [2, 0, 3]])

    def run():
        coo, out = dense.to_sparse(), []
        out += tries(lambda: (coo + coo).to_dense(), lambda: coo.coalesce().values(), lambda: coo.indices(), lambda: coo.neg().to_dense(),
                     lambda: torch.sparse.sum(coo), lambda: torch.sparse.mm(coo, dense.t()), lambda: coo.transpose(0, 1).to_dense(),
                     lambda: torch.sparse.softmax(coo, 1).to_dense(), lambda: coo.sparse_mask(coo).to_dense())
        if torch.backends.mkldnn.is_available():
            m = dense.to_mkldnn()
            out += tries(lambda: (m + m).to_dense(), lambda: F.relu(m).to_dense(), lambda: m.reshape(3, 2).to_dense(), lambda: m.clone().to_dense())
        meta = torch.empty(3, 4, device="meta")
        tries(lambda: meta + meta, lambda: meta.t() @ meta, lambda: torch.cat([meta, meta]), lambda: meta.sum(0), lambda: meta[1:, ::2],
              lambda: torch.zeros_like(meta, device="cpu").sum(), lambda: F.linear(meta, torch.empty(2, 4, device="meta")))
        return out

    return run


@payload(readable="profiler" if VERSION >= (2, 6) else False)
def compressed_layouts():
    dense = torch.tensor([[0.0, 1, 0], [2, 0, 3]])

    def run():
        out = []
        for make in ("to_sparse_csr", "to_sparse_csc"):
            out += tries(lambda make=make: (getattr(dense, make)() * 2).to_dense(), lambda make=make: getattr(dense, make)().values())
        return out + tries(lambda: dense.repeat(2, 2).to_sparse_bsr((2, 2)).to_dense())

    return run


@payload()
def undefined_tensors():
    """Optional tensors that are absent, and undefined gradients."""
    seed()
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    image = torch.randn(1, 3, 5, 5)

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 1, b * 1

        @staticmethod
        def backward(ctx, ga, gb):
            return ga, None

    def run():
        x.grad = w.grad = None
        out = [F.linear(x, w), F.conv2d(image, torch.ones(2, 3, 3, 3)), F.layer_norm(x, (3,)), F.batch_norm(image, None, None, training=True)]
        out += [F.group_norm(image, 3), F.instance_norm(image), torch.bucketize(x, torch.tensor([0.0, 1.0])), x.sum()]
        a, b = Half.apply(x, w)
        (a.sum() + b.sum()).backward()
        out[0].sum().backward()
        out += [F.cross_entropy(x.detach(), torch.tensor([0, 2])), F.nll_loss(x.detach(), torch.tensor([1, 1])), F.embedding(torch.tensor([1]), w.detach())]
        out += [F.binary_cross_entropy_with_logits(x.detach(), x.detach().sigmoid()), torch.histc(x.detach(), 3), torch.clamp(x.detach(), None, torch.ones(3))]
        out += [F.scaled_dot_product_attention(image, image, image)] if hasattr(F, "scaled_dot_product_attention") else []
        return [o.detach() for o in out] + [x.grad, w.grad]

    return run


@payload()
def results():
    """Results: tuples, lists, out= and in-place results, numbers, booleans, nothing."""
    seed()
    x = torch.randn(4, 6)

    def run():
        y, out = torch.empty(0), [*torch.max(x, 1), *x.sort(1), *x.topk(2), *torch.aminmax(x), *x.mode(1), *torch.std_mean(x)]
        out += [*x.split(2), *x.unbind(1), *x.chunk(3, 1), *torch.unique(x > 0, return_counts=True), *torch.frexp(x), *x.kthvalue(2)]
        torch.add(x, x, out=y), torch.cat([x, x], out=y), torch.mm(x, x.t(), out=y)
        value, index = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(x, 0, out=(value, index)), torch.sort(x, out=(value, index)), torch.sum(x, 0, out=y)
        z = x.clone().add_(1).mul_(2).clamp_(0).t_().squeeze_().sub_(x.t())
        out += [y, value, index, z, x[0, 0].item(), torch.equal(x, x), torch.allclose(x, x), torch.is_nonzero(x[0, 0]), bool(x[0, 1] > 0)]
        out += [torch.result_type(x, 1), torch.can_cast(torch.int32, torch.int8), x.is_same_size(x), x.isnan().any(), int(x.argmax())]
        out += [*torch.linalg.slogdet(x[:, :4]), *torch.linalg.lu_factor(x[:, :4]), *torch.linalg.eigh(x @ x.t())[:1], *torch.var_mean(x, 0)]
        out += [*torch.nonzero(x > 0, as_tuple=True), *torch.cummax(x, 0), *F.max_pool2d(x[None], 2, return_indices=True), *torch.meshgrid(x[0], x[0], indexing="ij")]
        torch._assert_async(torch.tensor(True))
        return [str(o) if isinstance(o, torch.dtype) else o for o in out]

    need(hasattr(torch, "_assert_async"), "no torch._assert_async")
    return run
