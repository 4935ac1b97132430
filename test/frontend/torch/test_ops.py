"""Single ops in all their forms: compiled ones compute what torch computes, in the same type.

The ops of a family are the results of one module, so that they are compiled together.
"""

import numpy as np
import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional as nnf  # noqa: E402

PLAIN = stepwell.Options(cache=False)
SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-8, -1e-8, 88.0, -88.0, 0.5]


class Family(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        return {name: function(*tensors) for name, function in self.functions.items()}


def check(functions, *tensors, rtol=1e-5, atol=1e-5):
    module = Family(functions)
    run = stepwell.compile(module, tensors, options=PLAIN)
    with np.errstate(all="ignore"):
        made, wanted = run(*tensors), module(*tensors)
    for name in functions:
        torch.testing.assert_close(
            made[name],
            wanted[name],
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def numbers(dtype, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-9, 10, shape, generator=generator).to(dtype)


def named(module, *names):
    return {name: getattr(module, name) for name in names}


FUNCTIONS = named(
    torch,
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor"),
    *("isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "relu", "round", "rsqrt"),
    *("sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "signbit", "square", "frac", "nan_to_num"),
)
ACTIVATIONS = named(
    nnf,
    *("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish"),
    *("relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink", "threshold"),
)


def test_functions_of_special_numbers():
    accurate = {name: function for name, function in FUNCTIONS.items() if name not in ("sin", "cos", "tan")}
    check(accurate, torch.tensor(SPECIAL))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool], ids=str)
def test_functions(dtype):
    left_out = {torch.bool: ("neg", "abs", "ceil", "floor", "round", "trunc", "frac", "relu", "sign", "square")}
    left_out |= dict.fromkeys((torch.int64, torch.int32), ("frac",))
    functions = {name: item for name, item in FUNCTIONS.items() if name not in left_out.get(dtype, ())}
    check(functions, numbers(dtype, 3, 5))


def test_activations():
    functions = {**ACTIVATIONS, "threshold": lambda x: nnf.threshold(x, 0.1, 20.0)}
    functions["gelu by tanh"] = lambda x: nnf.gelu(x, approximate="tanh")
    functions["softplus with beta"] = lambda x: nnf.softplus(x, beta=2.0, threshold=1.0)
    functions["glu"] = lambda x: nnf.glu(x, dim=0)
    functions["prelu"] = lambda x: nnf.prelu(x, torch.tensor([0.2]))
    check(functions, numbers(torch.float32, 4, 6))


ARITHMETIC = {
    "add": lambda x, y: torch.add(x, y, alpha=2),
    "sub": lambda x, y: torch.sub(x, y),
    "mul": torch.mul,
    "div": torch.div,
    "div down": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div to zero": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "atan2": torch.atan2,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical and": torch.logical_and,
    "logical or": torch.logical_or,
    "logical xor": torch.logical_xor,
    "number": lambda x, y: x + 2,
    "fraction": lambda x, y: x * 0.5 - y,
    "from number": lambda x, y: 3 - x,
    "number by": lambda x, y: 2 / y,
    "greater than": lambda x, y: x > 0.5,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: torch.clamp(x, -1, 2),
    "clamp below": lambda x, y: torch.clamp(x, min=0.5),
    "square": lambda x, y: x**2,
    "cube": lambda x, y: x**3,
    "base": lambda x, y: 2.0**x,
}


def test_arithmetic_of_floats():
    x, y = numbers(torch.float32, 4, 5), numbers(torch.float32, 5, seed=1)
    more = {
        "pow": lambda x, y: torch.pow(x.abs(), y),
        "root": lambda x, y: x.abs() ** 0.5,
        "inverse root": lambda x, y: (x * x + 1) ** -0.5,
        "inverse": lambda x, y: (x * x + 1) ** -1.0,
        "fmax": lambda x, y: torch.fmax(torch.log(x), y),
        "clamp by tensors": lambda x, y: torch.clamp(x, y - 1, y),
        "copysign": torch.copysign,
        "lerp": lambda x, y: torch.lerp(x, y, 0.3),
        "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
        "hypot": torch.hypot,
    }
    check({**ARITHMETIC, **more}, x, y)


@pytest.mark.parametrize(
    "kinds", [(torch.int64, torch.int64), (torch.int32, torch.float32), (torch.uint8, torch.int64)]
)
def test_arithmetic_of_integers(kinds):
    x, y = (numbers(kind, 4, 5, seed=seed) for seed, kind in enumerate(kinds))
    more = named(torch, "bitwise_and", "bitwise_or", "bitwise_xor") if not kinds[1].is_floating_point else {}
    check({**ARITHMETIC, **more}, x, torch.where(y == 0, 1, y).to(kinds[1]))


def test_arithmetic_of_bools():
    names = ("add", "mul", "eq", "ne", "lt", "maximum", "minimum", "logical and", "number", "where")
    x, y = numbers(torch.bool, 4, 5), numbers(torch.bool, 4, 5, seed=1)
    bits = named(torch, "bitwise_and", "bitwise_or", "bitwise_xor")
    functions = {name: ARITHMETIC[name] for name in names} | bits | {"not": lambda x, y: ~x}
    check(functions, x, y)


def test_special_numbers_of_divisions():
    x = torch.tensor(SPECIAL)
    names = ("div", "remainder", "fmod", "atan2", "maximum", "minimum", "eq", "lt")
    check({name: ARITHMETIC[name] for name in names}, x[:, None], x[None])


def test_numbers_of_other_types_are_promoted():
    functions = {
        "scalar tensor": lambda x, n: n + torch.tensor(2.5),
        "integer and scalar": lambda x, n: n * 1.5,
        "float and integer": lambda x, n: x + n,
        "narrow": lambda x, n: n.to(torch.int8) + 100,
        "compared": lambda x, n: n.to(torch.uint8) == -1,
        "half": lambda x, n: (x.half() + n).float(),
        "cast": lambda x, n: x.to(torch.int32),
        "to bool": lambda x, n: x.bool(),
    }
    check(functions, numbers(torch.float32, 6) * 3, numbers(torch.int64, 6))


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum along": lambda x: x.sum(1),
    "sum kept": lambda x: x.sum((0, -1), keepdim=True),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax((0, 2)),
    "amin": lambda x: x.amin(1, keepdim=True),
    "any": lambda x: x.any(),
    "any along": lambda x: x.any(1),
    "all along": lambda x: x.all(2, keepdim=True),
    "argmax": lambda x: x.argmax(),
    "argmax along": lambda x: x.argmax(1),
    "argmin along": lambda x: x.argmin(-1, keepdim=True),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(2, keepdim=True),
    "greatest": lambda x: x.max(),
    "cumsum": lambda x: x.cumsum(1),
    "count": lambda x: torch.count_nonzero(x, 1),
}
STATISTICS = {
    "mean": lambda x: x.mean(),
    "mean along": lambda x: x.mean((0, 2), keepdim=True),
    "var": lambda x: x.var(),
    "var along": lambda x: x.var(1, correction=0),
    "std": lambda x: x.std((0, 1), keepdim=True),
    "var and mean": lambda x: torch.var_mean(x, 1),
    "norm": lambda x: torch.linalg.vector_norm(x, 2, 1),
    "norm of 3": lambda x: torch.linalg.vector_norm(x, 3, (0, 1)),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "log softmax": lambda x: x.log_softmax(-1),
    "softmax of the first": lambda x: nnf.softmax(x, 0, dtype=torch.float64),
    "cumprod": lambda x: x.cumprod(2),
    "normalize": lambda x: nnf.normalize(x, dim=1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.bool], ids=str)
def test_reductions(dtype):
    left_out = ("argmax", "argmax along", "argmin along", "prod") if dtype is torch.bool else ()
    functions = {name: item for name, item in REDUCTIONS.items() if name not in left_out}
    check(functions | (STATISTICS if dtype.is_floating_point else {}), numbers(dtype, 3, 4, 5))


def test_reductions_with_nan():
    x = numbers(torch.float32, 3, 4, 5)
    x[1, 2, 3] = x[0, 0, 1] = float("nan")
    names = ("amax", "amin", "argmax", "argmax along", "argmin along", "max", "min")
    check({name: REDUCTIONS[name] for name in names}, x)


def test_scalars():
    functions = {
        **{name: REDUCTIONS[name] for name in ("sum", "greatest", "any", "argmax")},
        "softmax": lambda x: x.softmax(0),
        "cumsum": lambda x: x.cumsum(0),
        "topk": lambda x: x.sort(0),
        "squeeze": lambda x: x.squeeze(0),
        "expand": lambda x: x.expand(2, 3),
        "unsqueeze": lambda x: x.unsqueeze(-1),
    }
    check(functions, torch.tensor(1.5))


MOVEMENTS = {
    "view": lambda x: x.view(6, -1),
    "flatten": lambda x: x.flatten(1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "squeeze nothing": lambda x: x.squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(-2),
    "expand": lambda x: x[:, :1].expand(-1, 7, -1),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "flip": lambda x: x.flip((0, 2)),
    "slice": lambda x: x[1:, ::2, -3:-1],
    "select": lambda x: x[:, -1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "split": lambda x: x.split([1, 2, 1], 1),
    "chunk": lambda x: x.chunk(3, 2),
    "unbind": lambda x: x.unbind(0),
    "cat": lambda x: torch.cat([x, x[:1], torch.empty(0, dtype=x.dtype)], 0),
    "stack": lambda x: torch.stack([x, x + x], 1),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "triu": lambda x: x.triu(1),
    "tril": lambda x: x.tril(-1),
    "pad": lambda x: nnf.pad(x, (1, 2, 0, 1)),
    "crop": lambda x: nnf.pad(x, (-1, 1, 1, -2)),
    "roll": lambda x: x.roll((1, -2), (0, 2)),
    "roll flat": lambda x: x.roll(5),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "tile": lambda x: x.tile(2, 1),
    "movedim": lambda x: x.movedim(0, 2),
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
    "strided": lambda x: x.as_strided((3, 4), (2, 3), 1),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3)),
    "set slice": lambda x: torch.slice_scatter(x, x[:, :2], 1, 1, 3),
    "set steps": lambda x: torch.slice_scatter(x, x[:, :2], 1, 0, 4, 2),
    "set row": lambda x: torch.select_scatter(x, x[0], 0, 1),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
    "repeat interleave": lambda x: x.repeat_interleave(2, 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_movements(dtype):
    check(MOVEMENTS, numbers(dtype, 3, 4, 5))


def test_padding():
    check(
        {
            "reflect": lambda x: nnf.pad(x, (1, 2, 2, 1), mode="reflect"),
            "replicate": lambda x: nnf.pad(x, (1, 2, 2, 1), mode="replicate"),
            "circular": lambda x: nnf.pad(x, (1, 2, 2, 1), mode="circular"),
            "infinite": lambda x: nnf.pad(x, (1, 1), value=float("-inf")),
        },
        numbers(torch.float32, 2, 3, 4, 5),
    )


def test_creation():
    check(
        {
            "arange": lambda x: torch.arange(7),
            "arange of floats": lambda x: torch.arange(0.5, 3.0, 0.25),
            "arange down": lambda x: torch.arange(9, 1, -3),
            "linspace": lambda x: torch.linspace(-1, 1, 9),
            "eye": lambda x: torch.eye(4, 5),
            "full": lambda x: torch.full((2, 3), True),
            "new": lambda x: x.new_full((3,), 2.0),
            "one hot": lambda x: nnf.one_hot(torch.arange(4), 6),
        },
        numbers(torch.float32, 3),
    )


def put_inner(x, i, j):
    made = x.clone()
    made[:, j] = x[:, :1]
    return made


def put_apart(x, i, j):
    made = x.clone()
    made[j % 3, :, j] = x[0, :, :2].t()
    return made


def test_indexing():
    index, other = torch.tensor([[0, -1], [2, 1]]), torch.tensor([1, 3])
    check(
        {
            "one": lambda x, i, j: x[i],
            "inner": lambda x, i, j: x[:, j],
            "two": lambda x, i, j: x[i, j],
            "apart": lambda x, i, j: x[j % 3, :, j],
            "neighbours": lambda x, i, j: x[:, i, j],
            "select": lambda x, i, j: x.index_select(2, j),
            "gather": lambda x, i, j: x.gather(1, i[:, :, None].expand(2, 2, 5) % 3),
            "gather last": lambda x, i, j: x.gather(2, x.argsort(2)),
            "take along": lambda x, i, j: torch.take_along_dim(x, x.argsort(0), 0),
            "embedding": lambda x, i, j: nnf.embedding(i % 3, x[0]),
            "put": lambda x, i, j: x.index_put((j % 3,), x[0]),
            "put inner": put_inner,
            "put apart": put_apart,
            "add": lambda x, i, j: x.index_put((j % 2,), torch.ones(()), accumulate=True),
            "index add": lambda x, i, j: x.index_add(1, j, x[:, :2]),
            "masked": lambda x, i, j: x.masked_fill(x > 0, 7.0),
            "put where": lambda x, i, j: x.index_put((x > 0,), torch.tensor(2.0)),
            "masked scatter": lambda x, i, j: x.masked_scatter(x > 0, x.flip(0)),
            "scatter": lambda x, i, j: x.scatter(2, (x.argsort(2))[:, :, :2], x[:, :, 1:3]),
            "scatter number": lambda x, i, j: x.scatter(1, i[:, :, None].expand(2, 2, 5) % 3, 4.0),
            "scatter add": lambda x, i, j: x.scatter_add(0, (x > 0).long(), x),
            "scatter greatest": lambda x, i, j: x.scatter_reduce(0, (x > 0).long(), x, "amax"),
            "scatter mean": lambda x, i, j: x.scatter_reduce(0, (x > 0).long(), x, "mean", include_self=False),
            "scatter product": lambda x, i, j: x.scatter_reduce(1, (x > 0).long(), x, "prod", include_self=False),
        },
        numbers(torch.float32, 3, 4, 5),
        index,
        other,
    )


def test_sorting():
    check(
        {
            "sort": lambda x: x.sort(),
            "sort down": lambda x: x.sort(0, descending=True),
            "argsort": lambda x: x.argsort(1),
            "topk": lambda x: x.topk(2),
            "least": lambda x: x.topk(3, 0, largest=False),
            "kth value": lambda x: x.kthvalue(3, 0),
            "kth": lambda x: torch.sort(x, stable=True, dim=1)[0][:, 1],
        },
        numbers(torch.float32, 4, 6),
    )


def test_products():
    x, y = numbers(torch.float32, 2, 3, 4), numbers(torch.float32, 2, 4, 5, seed=1)
    check(
        {
            "bmm": torch.bmm,
            "matmul": lambda x, y: x[0] @ y,
            "vector": lambda x, y: x @ y[0, :, 0],
            "dot": lambda x, y: torch.dot(x[0, 0], y[0, :, 0]),
            "mv": lambda x, y: torch.mv(x[0], y[0, :, 0]),
            "addmm": lambda x, y: torch.addmm(x[0, :, :1], x[0], y[0], beta=0.5, alpha=2),
            "baddbmm": lambda x, y: torch.baddbmm(x[:, :, :1], x, y, beta=2),
            "addbmm": lambda x, y: torch.addbmm(x[0, :, :1], x, y),
            "linear": lambda x, y: nnf.linear(x, y[0].t(), y[0, 0]),
            "einsum": lambda x, y: torch.einsum("bij,bjk->bki", x, y),
            "outer": lambda x, y: torch.outer(x[0, 0], y[0, 0]),
            "tensordot": lambda x, y: torch.tensordot(x, y, dims=([0, 2], [0, 1])),
            "cdist": lambda x, y: torch.cdist(x, y.transpose(1, 2)),
            "cdist 1": lambda x, y: torch.cdist(x, y.transpose(1, 2), p=1.0),
            "pdist": lambda x, y: nnf.pdist(x[0]),
            "cosine": lambda x, y: nnf.cosine_similarity(x, x + 1, dim=-1),
        },
        x,
        y,
    )


def test_convolutions():
    image, line, volume = (numbers(torch.float32, 2, 4, *[7] * rank) for rank in (2, 1, 3))
    weight = numbers(torch.float32, 6, 2, 3, 3, seed=1)
    check(
        {
            "grouped": lambda x, w: nnf.conv2d(x, w, stride=2, padding=1, groups=2),
            "dilated": lambda x, w: nnf.conv2d(x[:, :2], w, dilation=2, padding="same"),
            "without batch": lambda x, w: nnf.conv2d(x[0, :2], w, torch.arange(6.0)),
            "depthwise": lambda x, w: nnf.conv2d(x, w[:4, :1], groups=4, padding=1),
            "transposed": lambda x, w: nnf.conv_transpose2d(x, w[:4], stride=2, padding=1, output_padding=1),
            "transposed groups": lambda x, w: nnf.conv_transpose2d(x, w[:4], groups=2, dilation=2),
        },
        image,
        weight,
        atol=1e-4,
    )
    check({"line": lambda x: nnf.conv1d(x, torch.ones(3, 4, 3), padding=1)}, line, atol=1e-4)
    check({"volume": lambda x: nnf.conv3d(x, torch.ones(3, 4, 2, 2, 2), stride=2)}, volume, atol=1e-4)


def test_pooling():
    check(
        {
            "max": lambda x: nnf.max_pool2d(x, 3, 2, 1),
            "max with indices": lambda x: nnf.max_pool2d(x, 2, return_indices=True),
            "max ceil": lambda x: nnf.max_pool2d(x, 3, 2, ceil_mode=True),
            "max dilated": lambda x: nnf.max_pool2d(x, 2, 1, dilation=2),
            "max of a line": lambda x: nnf.max_pool1d(x[0], 2),
            "average": lambda x: nnf.avg_pool2d(x, 3, 2, 1),
            "average inside": lambda x: nnf.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            "average ceil": lambda x: nnf.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            "average divisor": lambda x: nnf.avg_pool2d(x, 2, divisor_override=3),
            "adaptive": lambda x: nnf.adaptive_avg_pool2d(x, (2, 3)),
            "adaptive to one": lambda x: nnf.adaptive_avg_pool2d(x, 1),
            "adaptive line": lambda x: nnf.adaptive_avg_pool1d(x[0], 4),
            "adaptive max": lambda x: nnf.adaptive_max_pool2d(x, (7, 1)),
            "norm": lambda x: nnf.lp_pool2d(x, 2, 2),
        },
        numbers(torch.float32, 2, 3, 7, 8),
    )


def test_normalization():
    parameters = {"weight": torch.arange(1.0, 5.0), "bias": torch.arange(4.0)}
    check(
        {
            "layer": lambda x: nnf.layer_norm(x, (6, 6)),
            "layer with parameters": lambda x: nnf.layer_norm(x.transpose(1, 3), (4,), **parameters),
            "group": lambda x: nnf.group_norm(x, 2, **parameters),
            "instance": lambda x: nnf.instance_norm(x, **parameters),
            "rms": lambda x: nnf.rms_norm(x, (6,)),
            "batch": lambda x: nnf.batch_norm(x, torch.arange(4.0), torch.arange(1.0, 5.0), **parameters),
            "batch without parameters": lambda x: nnf.batch_norm(x, torch.zeros(4), torch.ones(4)),
            "batch in training": lambda x: nnf.batch_norm(x, None, None, training=True),
            "local response": lambda x: nnf.local_response_norm(x, 3),
        },
        numbers(torch.float32, 2, 4, 6, 6),
        atol=1e-4,
    )


def test_attention():
    query, key = numbers(torch.float32, 2, 4, 5, 8), numbers(torch.float32, 2, 4, 7, 8, seed=1)
    attend = nnf.scaled_dot_product_attention
    never = torch.ones(5, 7, dtype=torch.bool)
    never[2] = False
    check(
        {
            "plain": lambda q, k: attend(q, k, k),
            "causal": lambda q, k: attend(q, k, k, is_causal=True),
            "scaled": lambda q, k: attend(q, k, k, scale=0.3),
            "bool mask": lambda q, k: attend(q, k, k, attn_mask=never),
            "float mask": lambda q, k: attend(q, k, k, attn_mask=(q @ k.transpose(-1, -2))[:1]),
            "three dimensions": lambda q, k: attend(q[0], k[0], k[0], attn_mask=never.expand(4, 5, 7)),
            "two dimensions": lambda q, k: attend(q[0, 0], k[0, 0], k[0, 0]),
            "five dimensions": lambda q, k: attend(q[None], k[None], k[None], attn_mask=never),
            "grouped": lambda q, k: attend(q, k[:, :2], k[:, :2], enable_gqa=True),
        },
        query,
        key,
        atol=1e-4,
    )


def test_resampling():
    check(
        {
            "nearest": lambda x: nnf.interpolate(x, scale_factor=2),
            "nearest down": lambda x: nnf.interpolate(x, size=(3, 4)),
            "nearest by a fraction": lambda x: nnf.interpolate(x, scale_factor=1.6),
            "exact": lambda x: nnf.interpolate(x, size=(9, 5), mode="nearest-exact"),
            "bilinear": lambda x: nnf.interpolate(x, size=(9, 11), mode="bilinear"),
            "bilinear by factor": lambda x: nnf.interpolate(x, scale_factor=1.7, mode="bilinear"),
            "aligned": lambda x: nnf.interpolate(x, size=(9, 11), mode="bilinear", align_corners=True),
            "bicubic": lambda x: nnf.interpolate(x, scale_factor=2, mode="bicubic"),
            "line": lambda x: nnf.interpolate(x[0], size=11, mode="linear"),
            "grid": lambda x: nnf.grid_sample(x, x[:, 1:].permute(0, 2, 3, 1), align_corners=False),
            "grid at borders": lambda x: nnf.grid_sample(
                x, x[:, :2].permute(0, 2, 3, 1), padding_mode="border", align_corners=True
            ),
            "unshuffle": lambda x: nnf.pixel_unshuffle(x[..., :6], 2),
        },
        numbers(torch.float32, 2, 3, 6, 7),
        atol=1e-4,
    )


def test_bags():
    check(
        {
            "sum": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="sum"),
            "mean": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="mean"),
            "max": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="max"),
            "padding": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="mean", padding_idx=3),
        },
        numbers(torch.float32, 9, 4),
        torch.tensor([1, 3, 8, 0, 3, 2]),
        torch.tensor([0, 2, 2, 5]),
    )


def test_losses():
    check(
        {
            "cross entropy": lambda x, y: nnf.cross_entropy(x, y),
            "cross entropy of probabilities": lambda x, y: nnf.cross_entropy(x, x.softmax(1), label_smoothing=0.1),
            "mse": lambda x, y: nnf.mse_loss(x, x + 1),
            "l1": lambda x, y: nnf.smooth_l1_loss(x, x * 2),
            "bce": lambda x, y: nnf.binary_cross_entropy_with_logits(x, x.sigmoid()),
            "kl": lambda x, y: nnf.kl_div(x.log_softmax(1), x.flip(1).softmax(1), reduction="batchmean"),
        },
        numbers(torch.float32, 4, 5),
        torch.tensor([0, 4, 2, 1]),
    )


def test_searches():
    rows = torch.tensor([[1.0, 2.0, 2.0, 5.0], [-1.0, 0.0, 3.0, float("inf")]])
    check(
        {
            "bucketize": lambda x, rows: torch.bucketize(x, rows[0]),
            "bucketize to the right": lambda x, rows: torch.bucketize(x, rows[0], right=True, out_int32=True),
            "rows": lambda x, rows: torch.searchsorted(rows, x),
            "rows to the right": lambda x, rows: torch.searchsorted(rows, x, side="right"),
            "integers": lambda x, rows: torch.bucketize(x.nan_to_num().long(), torch.tensor([-1, 0, 2])),
        },
        torch.tensor([[2.0, -7.0, float("nan"), 9.0, 5.0], [3.0, 0.5, -1.0, float("inf"), float("nan")]]),
        rows,
    )


def test_medians():
    x = numbers(torch.float32, 3, 5)
    gaps = x.clone()
    gaps[0, 1] = gaps[2, 3] = gaps[2, 4] = float("nan")
    gaps[1] = float("nan")
    check(
        {
            "all": lambda x, y, i: (x.median(), y.median(), i.median(), y.nanmedian()),
            "last": lambda x, y, i: (*x.median(-1), *x[:, :4].median(-1)),
            "first": lambda x, y, i: (*x.median(0, keepdim=True), i.median(0).values),
            "numbers only": lambda x, y, i: (y.nanmedian(1).values, y.median(1).values),
        },
        x,
        gaps,
        numbers(torch.int64, 3, 5),
    )


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_reductions_at_indices():
    index = torch.tensor([2, 0, 2])
    check(
        {
            **{
                name: lambda x, y, name=name: x.index_reduce(0, index, y[:3], name) for name in ("amax", "prod", "mean")
            },
            "alone": lambda x, y: x.index_reduce(1, index, y[:, :3], "amin", include_self=False),
            "put": lambda x, y: x.put(index, y[0, :3]),
            "diagonal": lambda x, y: torch.diagonal_scatter(x, y[:, 0], 1),
            "diagonal below": lambda x, y: torch.diagonal_scatter(x[None], y[None, :2, 0], -2, 1, 2),
            "put and add": lambda x, y: x.put(index, y[0, :3], accumulate=True),
            "bools": lambda x, y: (x > 0).scatter_reduce(0, index[None], (y > 0)[:1], "amax"),
            "bilinear": lambda x, y: nnf.bilinear(x, y, torch.ones(2, 5, 5), torch.ones(2)),
        },
        numbers(torch.float32, 4, 5),
        numbers(torch.float32, 4, 5, seed=1),
    )
