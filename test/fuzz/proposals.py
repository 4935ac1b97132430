"""Proposals for each op of the dialect: operands and attributes that are likely to fit, from a graph or fresh ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphs import Grower


@dataclass
class Proposal:
    """Operands and attributes for an op: numbers of values, None for an absent one."""

    operands: list[int | None]
    attributes: dict[str, Any] = field(default_factory=dict)


Propose = Callable[["Grower"], "Proposal | None"]


def _is_float(array: np.ndarray) -> bool:
    return np.issubdtype(array.dtype, np.floating)


def _any(grower: Grower, rank: int | None = None, dtype: str | None = None) -> int:
    """Returns an existing tensor, or sometimes a fresh one."""

    def fits(array: np.ndarray) -> bool:
        return (rank is None or array.ndim == rank) and (dtype is None or array.dtype == dtype)

    found = grower.pick(fits) if grower.random.random() < 0.85 else None
    return grower.fresh(grower.shape(rank), dtype) if found is None else found


def _unary(**attributes: Callable[[Grower], Any]) -> Propose:
    return lambda grower: Proposal([_any(grower)], {name: draw(grower) for name, draw in attributes.items()})


def _binary(grower: Grower) -> Proposal:
    lhs = _any(grower)
    operands: list[int | None] = [lhs, _partner(grower, grower.graph.values[lhs].array)]
    grower.random.shuffle(operands)
    return Proposal(operands)


def _partner(grower: Grower, array: np.ndarray) -> int:
    """Returns a tensor of one's dtype that broadcasts with it: an existing one, or a fresh one with extents of 1."""

    def fits(other: np.ndarray) -> bool:
        pairs = zip(other.shape[::-1], array.shape[::-1], strict=False)
        return other.dtype == array.dtype and all(one == two or 1 in (one, two) for one, two in pairs)

    found = grower.pick(fits) if grower.random.random() < 0.6 else None
    if found is not None:
        return found
    shape = [1 if grower.random.random() < 0.3 else extent for extent in array.shape]
    return grower.fresh(shape[grower.random.randrange(len(shape) + 1) :], array.dtype.name, _EVERYWHERE)


_EVERYWHERE = ("input", "parameter", "constant")


def _select(grower: Grower) -> Proposal:
    then = _any(grower)
    array = grower.graph.values[then].array
    found = grower.pick(lambda other: other.dtype == np.bool_ and other.shape == array.shape)
    condition = grower.fresh(array.shape, "bool") if found is None else found
    return Proposal([condition, then, _partner(grower, array)])


def _matmul(grower: Grower) -> Proposal:
    flip_lhs, flip_rhs = grower.random.random() < 0.2, grower.random.random() < 0.3
    lhs = _any(grower, grower.random.choice((2, 2, 3, 4)))
    array = grower.graph.values[lhs].array
    inner = array.shape[-2 if flip_lhs else -1]
    columns = grower.random.choice((1, 3, 8, 16, 17, 40))
    batch = grower.random.choice((array.shape[:-2], ()))
    shape = (*batch, columns, inner) if flip_rhs else (*batch, inner, columns)
    rhs = grower.fresh(shape, array.dtype.name)
    return Proposal([lhs, rhs], {"transpose_lhs": flip_lhs, "transpose_rhs": flip_rhs})


def _block_matmul(grower: Grower) -> Proposal:
    draw = grower.random.choice
    input = _any(grower, draw((1, 2, 3)), "float32")
    bits, block, columns = draw((2, 4, 4, 8)), draw((16, 32)), draw((1, 3, 16, 17, 40))
    blocks = -(-grower.graph.values[input].array.shape[-1] // block)
    weight = grower.fresh((columns, blocks, block * bits // 8), "uint8", ("parameter", "parameter", "input"))
    return Proposal([input, weight, grower.fresh((columns, blocks), "float32"), None], {"bits": bits})


def _windows(grower: Grower, count: int) -> dict[str, tuple[int, ...]]:
    draw = grower.random.choice
    return {
        "strides": tuple(draw((1, 1, 2)) for _ in range(count)),
        "pads": tuple(draw((0, 1, 1, 2)) for _ in range(2 * count)),
        "dilations": tuple(draw((1, 1, 1, 2)) for _ in range(count)),
    }


def _conv(grower: Grower) -> Proposal:
    count = grower.random.choice((1, 2, 2, 2, 3))
    input = _any(grower, count + 2, "float32")
    array = grower.graph.values[input].array
    layout = grower.random.choice(("channels_first", "channels_first", "channels_last"))
    channels = array.shape[1 if layout == "channels_first" else -1]
    group = grower.random.choice([1, 1, 1, channels, *(part for part in (2, 4) if channels % part == 0)])
    out = group * grower.random.choice((1, 2, 3, 8))
    kernel = tuple(grower.random.choice((1, 2, 3, 3)) for _ in range(count))
    weight = grower.fresh((out, channels // group, *kernel), "float32", ("parameter", "parameter", "input"))
    bias = grower.fresh((out,), "float32") if grower.random.random() < 0.5 else None
    return Proposal([input, weight, bias], {**_windows(grower, count), "group": group, "layout": layout})


def _conv_transpose(grower: Grower) -> Proposal:
    proposal = _conv(grower)
    input = grower.graph.values[proposal.operands[0] or 0].array
    group, layout = proposal.attributes["group"], proposal.attributes["layout"]
    channels, count = input.shape[1 if layout == "channels_first" else -1], input.ndim - 2
    kernel = tuple(grower.random.choice((1, 2, 3)) for _ in range(count))
    each = grower.random.choice((1, 2, 3))
    weight = grower.fresh((channels, each, *kernel), "float32", ("parameter",))
    bias = grower.fresh((each * group,), "float32") if grower.random.random() < 0.5 else None
    extra = tuple(grower.random.choice((0, 0, 1)) for _ in range(count))
    return Proposal([proposal.operands[0], weight, bias], {**proposal.attributes, "output_padding": extra})


def _pool(grower: Grower) -> Proposal:
    count = grower.random.choice((1, 2, 2, 3))
    input = _any(grower, count + 2)
    kernel = tuple(grower.random.choice((1, 2, 3)) for _ in range(count))
    windows = _windows(grower, count)
    pads = tuple(min(pad, (kernel * 2)[axis] - 1) for axis, pad in enumerate(windows["pads"]))
    layout = grower.random.choice(("channels_first", "channels_last"))
    ceil = grower.random.random() < 0.3
    return Proposal([input], {**windows, "pads": pads, "kernel": kernel, "layout": layout, "ceil_mode": ceil})


def _average_pool(grower: Grower) -> Proposal:
    proposal = _pool(grower)
    proposal.attributes["count_include_pad"] = grower.random.random() < 0.5
    return proposal


def _reduction(grower: Grower) -> Proposal:
    input = _any(grower)
    rank = grower.graph.values[input].array.ndim
    axes = tuple(sorted(grower.random.sample(range(rank), grower.random.randint(min(rank, 1), rank))))
    return Proposal([input], {"axes": axes, "keepdims": grower.random.random() < 0.5})


def _axis(grower: Grower, input: int) -> int:
    rank = grower.graph.values[input].array.ndim
    return grower.random.randrange(-rank, rank) if rank else 0


def _along_axis(grower: Grower) -> Proposal:
    input = _any(grower)
    return Proposal([input], {"axis": _axis(grower, input)})


def _argmax(grower: Grower) -> Proposal:
    proposal = _along_axis(grower)
    proposal.attributes["keepdims"] = grower.random.random() < 0.5
    return proposal


def _norm(optional: int) -> Propose:
    def propose(grower: Grower) -> Proposal:
        input = _any(grower)
        array = grower.graph.values[input].array
        axis = _axis(grower, input)
        scales: list[int | None] = [
            grower.fresh(array.shape[axis:], array.dtype.name) if grower.random.random() < 0.7 else None
            for _ in range(optional)
        ]
        return Proposal([input, *scales], {"axis": axis, "epsilon": 1e-3})

    return propose


def _batch_norm(grower: Grower) -> Proposal:
    input = _any(grower, grower.random.choice((2, 3, 4)), "float32")
    array = grower.graph.values[input].array
    layout = grower.random.choice(("channels_first", "channels_last"))
    channels = array.shape[1 if layout == "channels_first" else -1]
    scale, bias, mean = (grower.fresh((channels,), "float32", ("parameter",)) for _ in range(3))
    variance = grower.add(grower.numbers.uniform(0.5, 2, channels).astype(np.float32), "parameter")
    return Proposal([input, scale, bias, mean, variance], {"layout": layout})


def _response_norm(grower: Grower) -> Proposal:
    input = _any(grower, grower.random.choice((3, 4)), "float32")
    layout = grower.random.choice(("channels_first", "channels_last"))
    return Proposal([input], {"size": grower.random.choice((1, 3, 5)), "layout": layout})


def _attention(grower: Grower) -> Proposal:
    draw = grower.random.choice
    heads, depth = (draw((1, 2)), draw((1, 3))), draw((4, 8, 16, 24))
    queries, keys = draw((1, 5, 16, 33)), draw((1, 7, 16, 40))
    shapes = ((*heads, queries, depth), (*heads, keys, depth), (*heads, keys, depth))
    operands: list[int | None] = [grower.fresh(shape, "float32", ("input",)) for shape in shapes]
    mask_shape = draw(((queries, keys), (heads[0], 1, 1, keys), (1, 1, queries, keys)))
    operands.append(grower.fresh(mask_shape, "float32", ("input",)) if grower.random.random() < 0.5 else None)
    return Proposal(operands, {"scale": depth**-0.5})


def _concat(grower: Grower) -> Proposal:
    lhs = _any(grower)
    array = grower.graph.values[lhs].array
    axis = _axis(grower, lhs)
    if not array.ndim:
        return Proposal([lhs, lhs], {"axis": 0})

    def fits(other: np.ndarray) -> bool:
        same = other.dtype == array.dtype and other.ndim == array.ndim
        return same and all(
            a == b for at, (a, b) in enumerate(zip(other.shape, array.shape, strict=True)) if at != axis
        )

    found = grower.pick(fits) if axis >= 0 else None
    if found is None:
        shape = list(array.shape)
        shape[axis] = grower.random.choice((1, 2, 5, 16))
        found = grower.fresh(shape, array.dtype.name, _EVERYWHERE)
    operands: list[int | None] = [lhs, found]
    grower.random.shuffle(operands)
    return Proposal(operands, {"axis": axis})


def _slice(grower: Grower) -> Proposal:
    input = _any(grower)
    shape = grower.graph.values[input].array.shape
    bounds = [sorted(grower.random.sample(range(extent + 1), 2)) if extent else (0, 0) for extent in shape]
    bounds = [
        pair if grower.random.random() < 0.6 else [0, extent]
        for pair, extent in zip(bounds, grower.graph.values[input].array.shape, strict=True)
    ]
    starts, stops = (tuple(pair[side] for pair in bounds) for side in (0, 1))
    return Proposal([input], {"starts": starts, "stops": stops, "steps": tuple(_step(grower) for _ in bounds)})


def _step(grower: Grower) -> int:
    return grower.random.choice((1, 1, 1, 2, 3))


def _pad(grower: Grower) -> Proposal:
    input = _any(grower)
    rank = grower.graph.values[input].array.ndim
    low, high = (tuple(grower.random.choice((0, 0, 1, 3)) for _ in range(rank)) for _ in range(2))
    mode = grower.random.choice(("constant", "constant", "edge", "reflect"))
    return Proposal([input], {"low": low, "high": high, "mode": mode})


def _transpose(grower: Grower) -> Proposal:
    input = _any(grower)
    order = list(range(grower.graph.values[input].array.ndim))
    grower.random.shuffle(order)
    return Proposal([input], {"permutation": tuple(order)})


def _reshape(grower: Grower) -> Proposal:
    input = _any(grower)
    extents = [extent for extent in grower.graph.values[input].array.shape if extent != 1]
    while len(extents) > 1 and grower.random.random() < 0.6:
        at = grower.random.randrange(len(extents) - 1)
        extents[at : at + 2] = [extents[at] * extents[at + 1]]
    for factor in (2, 3, 4):
        places = [at for at, extent in enumerate(extents) if extent % factor == 0 and extent > factor]
        if places and grower.random.random() < 0.4:
            at = grower.random.choice(places)
            extents[at : at + 1] = [extents[at] // factor, factor]
    if grower.random.random() < 0.4:
        extents.insert(grower.random.randrange(len(extents) + 1), 1)
    return Proposal([input], {"shape": tuple(extents)})


def _reverse(grower: Grower) -> Proposal:
    input = _any(grower)
    rank = grower.graph.values[input].array.ndim
    return Proposal([input], {"axes": tuple(sorted(grower.random.sample(range(rank), min(rank, 1))))})


def _broadcast_to(grower: Grower) -> Proposal:
    input = _any(grower)
    shape = [
        grower.random.choice((1, 3, 8)) if extent == 1 else extent for extent in grower.graph.values[input].array.shape
    ]
    return Proposal([input], {"shape": (*grower.random.choice(((), (2,), (3, 1))), *shape)})


def _expand_dims(grower: Grower) -> Proposal:
    input = _any(grower)
    return Proposal([input], {"axes": (grower.random.randint(0, grower.graph.values[input].array.ndim),)})


def _squeeze(grower: Grower) -> Proposal | None:
    input = grower.pick(lambda array: 1 in array.shape)
    if input is None:
        return None
    axes = [axis for axis, extent in enumerate(grower.graph.values[input].array.shape) if extent == 1]
    return Proposal([input], {"axes": (grower.random.choice(axes),)})


def _tile(grower: Grower) -> Proposal:
    input = _any(grower)
    rank = grower.graph.values[input].array.ndim
    return Proposal([input], {"repeats": tuple(grower.random.choice((1, 1, 2, 3)) for _ in range(rank))})


def _gather(grower: Grower) -> Proposal | None:
    input = _any(grower)
    array = grower.graph.values[input].array
    if not array.ndim or not array.size:
        return None
    axis = _axis(grower, input)
    shape = grower.random.choice(((), (1,), (4,), (2, 3)))
    indices = grower.numbers.integers(-array.shape[axis], array.shape[axis], shape)
    kind = grower.random.choice(("int64", "int32"))
    return Proposal([input, grower.add(np.asarray(indices, kind), grower.random.choice(_EVERYWHERE))], {"axis": axis})


def _resize(grower: Grower) -> Proposal:
    input = _any(grower, grower.random.choice((3, 4)), "float32")
    shape = grower.graph.values[input].array.shape
    sizes = tuple(max(1, grower.random.choice((extent, 2 * extent, extent // 2, extent + 1))) for extent in shape[2:])
    layout = grower.random.choice(("channels_first", "channels_last"))
    spatial = shape[2:] if layout == "channels_first" else shape[1:-1]
    attributes = {
        "sizes": sizes,
        "scales": np.array([size / extent for size, extent in zip(sizes, spatial, strict=True)]),
        "mode": grower.random.choice(("nearest", "linear", "cubic")),
        "coordinates": grower.random.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")),
        "nearest": grower.random.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
        "layout": layout,
    }
    return Proposal([input], attributes)


def _cast(grower: Grower) -> Proposal:
    kinds = ("float32", "float32", "float64", "float16", "int32", "int64", "bool")
    return Proposal([_any(grower)], {"dtype": np.dtype(grower.random.choice(kinds))})


def _lstm(grower: Grower) -> Proposal:
    draw = grower.random.choice
    time, batch, size, state = draw((1, 3, 6)), draw((1, 2)), draw((3, 8)), draw((4, 8, 16))
    direction = draw(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    shapes = ((time, batch, size), (ways, 4 * state, size), (ways, 4 * state, state))
    operands: list[int | None] = [grower.fresh(shape, "float32") for shape in shapes]
    for shape in ((ways, 8 * state), (ways, batch, state), (ways, batch, state)):
        operands.append(grower.fresh(shape, "float32") if grower.random.random() < 0.5 else None)
    return Proposal(operands, {"direction": direction})


def _number(*numbers: float) -> Callable[[Grower], float]:
    return lambda grower: grower.random.choice(numbers)


_PLAIN = (
    *("abs", "ceil", "cos", "erf", "exp", "floor", "log", "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sqrt"),
    *("tanh", "not", "relu", "sigmoid", "silu", "softplus", "hard_swish", "acos", "acosh", "asin", "asinh", "atan"),
    *("atanh", "cosh", "sinh", "tan"),
)
_PAIRS = (
    *("add", "sub", "mul", "div", "maximum", "minimum", "mod", "pow", "and", "or", "xor"),
    *("equal", "less", "less_equal", "greater", "greater_equal"),
)

PROPOSALS: dict[str, Propose] = {
    **{name: _unary() for name in _PLAIN},
    **dict.fromkeys(_PAIRS, _binary),
    **{f"reduce_{name}": _reduction for name in ("sum", "mean", "prod", "max", "min")},
    "clip": _unary(minimum=_number(-1.0, 0.0), maximum=_number(1.0, 6.0)),
    "elu": _unary(alpha=_number(1.0, 0.5)),
    "leaky_relu": _unary(alpha=_number(0.01, 0.3)),
    "gelu": _unary(approximate=lambda grower: grower.random.choice(("none", "tanh"))),
    "hard_sigmoid": _unary(alpha=_number(0.2), beta=_number(0.5)),
    "softmax": _along_axis,
    "log_softmax": _along_axis,
    "argmax": _argmax,
    "layer_norm": _norm(2),
    "rms_norm": _norm(1),
    "batch_norm": _batch_norm,
    "local_response_norm": _response_norm,
    "select": _select,
    "cast": _cast,
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _pool,
    "average_pool": _average_pool,
    "attention": _attention,
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "transpose": _transpose,
    "reshape": _reshape,
    "reverse": _reverse,
    "broadcast_to": _broadcast_to,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "tile": _tile,
    "gather": _gather,
    "resize": _resize,
    "lstm": _lstm,
    "block_matmul": _block_matmul,
}

NOT_PROPOSED = {
    "constant, parameter, fill, range, shape_of, size_of": "values that a program starts from, or knows of shapes",
    "dynamic_broadcast_to, dynamic_pad, dynamic_reshape, dynamic_resize, dynamic_slice": "become others by inference",
    "packed_matmul, packed_block_matmul, packed_conv, packed_depthwise_conv, packed_grouped_conv": "made by passes",
    "winograd_conv, border": "made by passes",
    "row, with_row": "made of recurrent layers",
}
"""Ops that graphs do not start from, with the reason."""
