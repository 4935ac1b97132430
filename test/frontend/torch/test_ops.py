"""Single ops in all their forms: compiled ones compute what torch computes, in the same type.

The ops of a family are the results of one module, so that they are compiled together.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional as nnf  # noqa: E402

from .families import check, numbers  # noqa: E402

SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-8, -1e-8, 88.0, -88.0, 0.5]


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


@pytest.mark.few(1)
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
    "remainder": lambda x, y: (torch.remainder(x, y), torch.remainder(7, y)),
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


@pytest.mark.few(1)
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
    "any and all": lambda x: (torch._is_any_true(x == 0), torch._is_all_true(x == x)),
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


@pytest.mark.few(1)
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
    "roll one axis twice": lambda x: x.roll((1, 2, 1), (0, 1, 0)),
    "roll all axes": lambda x: x.roll((2, -1, 4), (2, 1, 0)),
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


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_movements(dtype):
    check(MOVEMENTS, numbers(dtype, 3, 4, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.bool, torch.bfloat16], ids=str)
def test_flips_of_long_rows(dtype):
    check(
        {"long": lambda x: x.flip(1), "both": lambda x: x.flip((0, 1)) | x if dtype is torch.bool else x.flip(-1) + x},
        numbers(dtype, 3, 133),
    )


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
