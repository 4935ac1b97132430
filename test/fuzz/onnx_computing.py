"""Proposals of ONNX nodes that compute: elementwise operators, products, windows, reductions, recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from random_onnx import Group, Grower, Propose, Value

_ROUNDED = ("Tanh", "Sigmoid", "Erf", "Softplus", "HardSwish", "Mish", "Sin", "Cos", "Elu", "HardSigmoid", "Softsign")
_EXACT = ("Relu", "Neg", "Abs", "Identity", "LeakyRelu")
_JUMPS = ("Floor", "Ceil", "Round", "Sign")
_PAIRS = ("Add", "Sub", "Mul", "Max", "Min")
_TESTS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")


def _unary(grower: Grower) -> Group:
    names, is_exact = grower.random.choice((*[(_ROUNDED, False)] * 3, (_EXACT, True), (_JUMPS, None)))
    input = grower.float(exact=is_exact is None)
    return grower.one(grower.random.choice(names), [input.name], is_exact)


def _positive(grower: Grower) -> Group:
    absolute = grower.node("Abs", [grower.float().name])
    shifted = grower.node("Add", [absolute, grower.constant(0.5, np.float32)])
    return grower.one(grower.random.choice(("Sqrt", "Log", "Reciprocal")), [shifted])


def partner(grower: Grower, value: Value) -> Value:
    """Returns a tensor that broadcasts with a value: an existing one, or a fresh one."""

    def fits(other: Value) -> bool:
        pairs = zip(other.dims[::-1], value.dims[::-1], strict=False)
        one = (1,) * len(value.at)
        return other.dtype == value.dtype and all(a == b or one in (a, b) for a, b in pairs)

    found = grower.pick(fits) if grower.chance(0.7) else None
    if found is not None:
        return found
    known = _symbolic(grower, value)
    dims = [1 if grower.chance(0.3) or dim is None else dim for dim in known]
    return grower.fresh(dims[grower.random.randrange(len(dims) + 1) :], value.dtype)


def _symbolic(grower: Grower, value: Value) -> list[int | str | None]:
    """Dimensions as an input may declare them; None for those that are neither static nor a symbol."""
    symbols = {tuple(sizes[name] for sizes in grower.sizes): name for name in grower.ranges}
    return [extents[0] if len(set(extents)) == 1 else symbols.get(extents) for extents in value.dims]


def _binary(grower: Grower) -> Group:
    value = grower.any(fits=lambda value: value.dtype != np.bool_)
    if value.dtype == np.bool_:
        value = grower.float()
    names = [value.name, partner(grower, value).name]
    grower.random.shuffle(names)
    name = grower.random.choice(_PAIRS)
    return grower.one(name, names, is_exact=name in ("Max", "Min") or not value.is_float)


def _division(grower: Grower) -> Group:
    value = grower.float()
    bottom = grower.node("Add", [grower.node("Abs", [partner(grower, value).name]), grower.constant(0.7, np.float32)])
    return grower.one("Div", [value.name, bottom])


def _compare(grower: Grower) -> Group:
    value = grower.any(exact=True, fits=lambda value: value.dtype != np.bool_)
    if value.dtype == np.bool_:
        value = grower.float()
    return grower.one(grower.random.choice(_TESTS), [value.name, partner(grower, value).name], None)


def _logic(grower: Grower) -> Group:
    value = grower.any(dtype=np.bool_)
    if grower.chance(0.2):
        return grower.one("Not", [value.name], True)
    return grower.one(grower.random.choice(("And", "Or", "Xor")), [value.name, partner(grower, value).name], True)


def _where(grower: Grower) -> Group | None:
    then = grower.any()
    other = partner(grower, then)
    condition = grower.pick(lambda value: value.dtype == np.bool_ and value.rank in (then.rank, 1))
    if condition is None:
        dims = [1 if dim is None or grower.chance(0.3) else dim for dim in _symbolic(grower, then)]
        condition = grower.fresh(dims[grower.random.randrange(len(dims) + 1) :], np.bool_)
    return grower.one("Where", [condition.name, then.name, other.name], True)


def _cast(grower: Grower) -> Group:
    value = grower.any(exact=True)
    return grower.one("Cast", [value.name], None, to=grower.random.choice((1, 1, 1, 6, 7, 9, 11)))


def _clip(grower: Grower) -> Group:
    low, high = (grower.constant(number, np.float32) for number in (-0.5, 1.0))
    return grower.one("Clip", [grower.float().name, grower.random.choice((low, "")), high], True)


def _matmul(grower: Grower) -> Group | None:
    lhs = grower.float((2, 3, 4))
    inner = lhs.extents(-1)
    rhs = grower.pick(
        lambda value: (
            value.is_float
            and value.rank >= 2
            and value.dtype == np.float32
            and value.extents(-2) == inner
            and (value.rank == 2 or value.dims[:-2] == lhs.dims[:-2])
        )
    )
    if rhs is not None and grower.chance(0.5):
        return grower.one("MatMul", [lhs.name, rhs.name])
    if grower.chance(0.5) or len(set(inner)) > 1:
        order = [*range(lhs.rank - 2), lhs.rank - 1, lhs.rank - 2]
        turned = grower.node("Transpose", [lhs.name], perm=order)
        return grower.one("MatMul", [lhs.name, turned] if grower.chance(0.5) else [turned, lhs.name])
    return grower.one("MatMul", [lhs.name, grower.weight(inner[0], grower.random.choice((1, 3, 8, 17)))])


def _gemm(grower: Grower) -> Group | None:
    lhs = grower.float(2)
    flip = grower.chance(0.3)
    inner = lhs.extents(0 if flip else 1)
    if len(set(inner)) > 1:
        return grower.one("Gemm", [lhs.name, lhs.name], transA=int(flip), transB=int(not flip), alpha=0.5)
    columns = grower.random.choice((1, 4, 16))
    return grower.one(
        "Gemm", [lhs.name, grower.weight(columns, inner[0]), grower.weight(columns)], transA=int(flip), transB=1
    )


_EQUATIONS = {
    1: ("i,i->", "i,j->ij", "i->"),
    2: ("ij,kj->ik", "ij,ij->i", "ij->j", "ij->ji", "ij,ij->", "ij,ik->jk", "ij,kl->ikjl"),
    3: ("bij,bkj->bik", "bij->bji", "bij,bij->bj", "bij,bik->jk", "bij,cij->bc", "bij->i"),
    4: ("bhid,bhjd->bhij", "bhid->bihd", "bhij,bhij->bh", "bhid,bhie->bhde"),
}


def _einsum(grower: Grower) -> Group:
    value = grower.float((1, 2, 3, 4))
    equation = grower.random.choice(_EQUATIONS[value.rank])
    return grower.one("Einsum", [value.name] * (1 + equation.count(",")), equation=equation)


def _windows(grower: Grower, count: int) -> dict[str, Any]:
    draw = grower.random.choice
    given: dict[str, Any] = {"strides": [draw((1, 1, 2, 3)) for _ in range(count)]}
    kind = draw(("", "", "", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if kind:
        return {**given, "auto_pad": kind}
    return {
        **given,
        "pads": [draw((0, 1, 1, 2)) for _ in range(2 * count)],
        "dilations": [draw((1, 1, 1, 2)) for _ in range(count)],
    }


def _conv(grower: Grower) -> Group | None:
    count = grower.random.choice((1, 2, 2, 2))
    input = grower.float(count + 2, fits=lambda value: len(set(value.extents(1))) == 1)
    channels = set(input.extents(1))
    if len(channels) > 1:
        return None
    (channels,) = channels
    group = grower.random.choice([1, 1, channels, *(part for part in (2, 4) if channels % part == 0)])
    kernel = [grower.random.choice((1, 2, 3, 3)) for _ in range(count)]
    out = group * grower.random.choice((1, 2, 3))
    names = [input.name, grower.weight(out, channels // group, *kernel)]
    if grower.chance(0.5):
        names.append(grower.weight(out))
    return grower.one("Conv", names, group=group, **_windows(grower, count))


def _conv_transpose(grower: Grower) -> Group | None:
    count = grower.random.choice((1, 2, 2))
    input = grower.float(count + 2, fits=lambda value: len(set(value.extents(1))) == 1)
    if len(set(input.extents(1))) > 1:
        return None
    channels = input.extents(1)[0]
    group = grower.random.choice([1, 1, channels])
    kernel = [grower.random.choice((1, 2, 3, 4)) for _ in range(count)]
    windows = _windows(grower, count)
    # ONNX Runtime computes fewer elements than `auto_pad` demands where strides leave gaps.
    windows["strides"] = [min(pair) for pair in zip(windows["strides"], kernel, strict=True)]
    if grower.chance(0.3) and "pads" in windows:
        windows["output_padding"] = [grower.random.randrange(stride) for stride in windows["strides"]]
    weight = grower.weight(channels, grower.random.choice((1, 2, 3)), *kernel)
    return grower.one("ConvTranspose", [input.name, weight], group=group, **windows)


def _pool(grower: Grower) -> Group | None:
    count = grower.random.choice((1, 2, 2))
    input = grower.float(count + 2)
    kernel = [grower.random.choice((1, 2, 3)) for _ in range(count)]
    windows = _windows(grower, count)
    if "pads" in windows:
        windows["pads"] = [min(pad, (kernel * 2)[at] - 1) for at, pad in enumerate(windows["pads"])]
    # ONNX Runtime accepts kernels that do not fit.
    if any(size > input.least(at + 2) for at, size in enumerate(kernel)):
        return None
    name = grower.random.choice(("MaxPool", "AveragePool", "LpPool"))
    if name == "AveragePool":
        windows["count_include_pad"] = int(grower.chance(0.4))
    if grower.chance(0.4):
        windows["ceil_mode"] = 1
    if name != "MaxPool":
        windows.pop("dilations", None)
    return grower.one(name, [input.name], name == "MaxPool", kernel_shape=kernel, **windows)


def _global_pool(grower: Grower) -> Group:
    name = grower.random.choice(("GlobalAveragePool", "GlobalMaxPool"))
    return grower.one(name, [grower.float((3, 4)).name], name == "GlobalMaxPool")


def _layer_norm(grower: Grower) -> Group:
    input = grower.float((2, 3, 4))
    axis = grower.random.choice((-1, -1, -2, 1))
    static = [set(input.extents(at)) for at in range(axis % input.rank, input.rank)]
    if any(len(extents) > 1 for extents in static):
        count = grower.node("Shape", [input.name], start=axis)
        scale = grower.node("Expand", [grower.constant(0.7, np.float32), count])
    else:
        scale = grower.weight(*(extents.pop() for extents in static))
    return grower.one("LayerNormalization", [input.name, scale], axis=axis, epsilon=1e-2)


def _instance_norm(grower: Grower) -> Group | None:
    input = grower.float((3, 4))
    if len(set(input.extents(1))) > 1:
        return None
    channels = input.extents(1)[0]
    weights = [grower.weight(channels), grower.weight(channels)]
    return grower.one("InstanceNormalization", [input.name, *weights], epsilon=1e-2)


def _along(names: tuple[str, ...], is_exact: bool | None = False) -> Propose:
    def propose(grower: Grower) -> Group:
        input = grower.float((1, 2, 3, 4), exact=is_exact is None)
        return grower.one(grower.random.choice(names), [input.name], is_exact, axis=grower.axis(input))

    return propose


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare", "Prod", "LogSum")


def _reduce(grower: Grower) -> Group:
    input = grower.any((1, 2, 3, 4), fits=lambda value: value.dtype in (np.float32, np.int32, np.int64))
    name = "Reduce" + grower.random.choice(_REDUCTIONS)
    source = input.name
    if not input.is_float:
        name, source = "ReduceSum", grower.node("Cast", [source], to=7)
    if name == "ReduceMean" and not all(array.size for array in input.at):
        name = "ReduceSum"  # the mean of nothing is undefined: 0 in ONNX Runtime, not a number in numpy
    if name == "ReduceLogSum":
        source = grower.node("Add", [grower.node("Abs", [source]), grower.constant(0.5, np.float32)])
    axes = grower.random.sample(range(input.rank), grower.random.randint(1, min(2, input.rank)))
    axes = [axis - input.rank if grower.chance(0.3) else axis for axis in axes]
    exact = name in ("ReduceMax", "ReduceMin") or not input.is_float
    names = [source] if grower.chance(0.1) else [source, grower.constant(axes)]
    return grower.one(name, names, exact, keepdims=int(grower.chance(0.5)))


def _arg(grower: Grower) -> Group:
    input = grower.float((1, 2, 3), exact=True)
    return grower.one(
        grower.random.choice(("ArgMax", "ArgMin")),
        [input.name],
        None,
        axis=grower.axis(input),
        keepdims=int(grower.chance(0.5)),
        select_last_index=int(grower.chance(0.3)),
    )


def _cumulative(grower: Grower) -> Group:
    input = grower.float((1, 2, 3))
    axis = grower.constant(grower.axis(input))
    return grower.one("CumSum", [input.name, axis], exclusive=int(grower.chance(0.4)), reverse=int(grower.chance(0.4)))


def _recurrent(name: str, gates: int) -> Propose:
    def propose(grower: Grower) -> Group | None:
        input = grower.float(3, fits=lambda value: len(set(value.extents(2))) == 1)
        if len(set(input.extents(2))) > 1:
            return None
        size, state = input.extents(2)[0], grower.random.choice((3, 4, 8))
        direction = grower.random.choice(("forward", "reverse", "bidirectional"))
        ways = 2 if direction == "bidirectional" else 1
        weights = [grower.weight(ways, gates * state, size), grower.weight(ways, gates * state, state)]
        outs = [grower.name("y"), grower.name("h")]
        attributes: dict[str, Any] = {"hidden_size": state, "direction": direction}
        return Group([(name, [input.name, *weights], outs, attributes)], outs[: grower.random.choice((1, 2))])

    return propose


COMPUTING: dict[str, Callable[[Grower], Group | None]] = {
    "unary": _unary,
    "positive": _positive,
    "binary": _binary,
    "division": _division,
    "compare": _compare,
    "logic": _logic,
    "where": _where,
    "cast": _cast,
    "clip": _clip,
    "matmul": _matmul,
    "gemm": _gemm,
    "einsum": _einsum,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "pool": _pool,
    "global_pool": _global_pool,
    "layer_norm": _layer_norm,
    "instance_norm": _instance_norm,
    "softmax": _along(("Softmax", "LogSoftmax")),
    "hardmax": _along(("Hardmax",), None),
    "reduce": _reduce,
    "arg": _arg,
    "cumulative": _cumulative,
    "lstm": _recurrent("LSTM", 4),
    "gru": _recurrent("GRU", 3),
}
