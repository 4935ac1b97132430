"""Proposals of ONNX nodes that move elements, with shapes, bounds and numbers that a model computes from sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from random_onnx import Group, Grower, Value

_END = 2**31 - 1


def extent(grower: Grower, value: Value, axis: int) -> str:
    """Adds nodes for the extent of a dimension, as a list of one number, in one of the ways of exporters."""
    axis %= value.rank
    way = grower.random.randrange(4)
    if way == 0:
        return grower.node("Shape", [value.name], start=axis, end=axis + 1)
    shape = grower.node("Shape", [value.name])
    if way == 1:
        return grower.node("Slice", [shape, grower.constant([axis]), grower.constant([axis + 1])])
    if way == 2:
        return grower.node("Gather", [shape, grower.constant([axis - value.rank])], axis=0)
    scalar = grower.node("Gather", [shape, grower.constant(axis)], axis=0)
    return grower.node("Unsqueeze", [scalar, grower.constant([0])])


def number(grower: Grower, value: Value, axis: int) -> str:
    """Adds nodes for a number computed from the extent of a dimension, as a list of one number."""
    start = extent(grower, value, axis)
    name, other = grower.random.choice(
        (
            ("Identity", None),
            ("Add", 1),
            ("Sub", 1),
            ("Mul", 2),
            ("Div", 2),
            ("Div", 3),
            ("Min", 5),
            ("Max", 3),
            ("Mod", 4),
        )
    )
    return grower.node(name, [start] if other is None else [start, grower.constant([other])])


def _any(grower: Grower) -> Value:
    return grower.any((1, 2, 3, 4))


def _pad(grower: Grower) -> Group:
    input = _any(grower)
    if input.dtype == np.bool_:
        input = grower.float((1, 2, 3))
    mode = grower.random.choice(("constant", "constant", "edge", "reflect"))
    axis = grower.random.randrange(input.rank)
    if grower.chance(0.4):
        sides = [grower.random.choice((0, 0, 1, 3, -1)) for _ in range(2 * input.rank)]
        return grower.one("Pad", [input.name, grower.constant(sides)], True, mode=mode)
    if grower.chance(0.5):
        source = grower.any((1, 2, 3))
        amount = number(grower, source, grower.axis(source))
    else:  # up to a multiple
        multiple = grower.constant([grower.random.choice((4, 8))])
        short = grower.node("Sub", [multiple, grower.node("Mod", [extent(grower, input, axis), multiple])])
        amount = grower.node("Mod", [short, multiple])
    low = grower.random.choice((amount, grower.constant([0]), grower.constant([1])))
    pads = grower.node("Concat", [low, amount], axis=0)
    if grower.chance(0.5):
        return grower.one("Pad", [input.name, pads, "", grower.constant([axis])], True, mode=mode)
    zeros = [grower.constant([0])] * input.rank
    sides = [list(zeros), list(zeros)]
    sides[0][axis], sides[1][axis] = low, amount
    whole = grower.node("Concat", [*sides[0], *sides[1]], axis=0)
    return grower.one("Pad", [input.name, whole], True, mode=mode)


def _slice(grower: Grower) -> Group:
    draw = grower.random.choice
    input = _any(grower)
    axes = grower.random.sample(range(input.rank), grower.random.randint(1, min(2, input.rank)))
    starts, stops, steps = [], [], []
    for axis in axes:
        step = draw((1, 1, 1, 2, 3, -1, -1, -2))
        first, last = draw((0, 0, 1, 2, -1, -2, -3, -_END)), draw((_END, _END, 1, 3, -1, -2))
        if step < 0:
            first, last = draw((-1, -1, -2, 3, _END)), draw((-_END, -_END, 0, -3))
        starts.append(grower.constant([first]))
        stops.append(grower.constant([last]))
        if grower.chance(0.35):
            source = draw((input, grower.any((1, 2, 3))))
            computed = number(grower, source, axis if source is input else grower.axis(source))
            if grower.chance(0.3):
                computed = grower.node("Neg", [computed])
            (starts if grower.chance(0.4) else stops)[-1] = computed
        steps.append(step)
    bounds = [names[0] if len(names) == 1 else grower.node("Concat", names, axis=0) for names in (starts, stops)]
    axes = [axis - input.rank if grower.chance(0.3) else axis for axis in axes]
    return grower.one("Slice", [input.name, *bounds, grower.constant(axes), grower.constant(steps)], True)


def _split(grower: Grower) -> Group | None:
    input = _any(grower)
    axis, count = grower.axis(input), grower.random.choice((2, 2, 3))
    outs = [grower.name("part") for _ in range(count)]
    if grower.chance(0.4):
        return Group([("Split", [input.name], outs, {"axis": axis, "num_outputs": count})], outs, True)
    whole = extent(grower, input, axis)
    first = grower.random.choice((grower.constant([1]), grower.node("Div", [whole, grower.constant([2])])))
    rest = grower.node("Sub", [whole, first])
    sizes = grower.node("Concat", grower.random.choice(([first, rest], [rest, first])), axis=0)
    return Group([("Split", [input.name, sizes], outs[:2], {"axis": axis})], outs[:2], True)


def _expand(grower: Grower) -> Group:
    input = grower.any((1, 2, 3), fits=lambda value: any(set(extents) == {1} for extents in value.dims))
    parts = []
    for axis, extents in enumerate(input.dims):
        source = grower.any((1, 2, 3))
        wide = set(extents) == {1} and grower.chance(0.7)
        parts.append(number(grower, source, grower.axis(source)) if wide else grower.constant([1]))
        if not wide and grower.chance(0.3):
            parts[-1] = extent(grower, input, axis)
    if grower.chance(0.3):
        parts.insert(0, grower.constant([2]))
    return grower.one("Expand", [input.name, grower.node("Concat", parts, axis=0)], True)


def _tile(grower: Grower) -> Group:
    input = grower.any((1, 2, 3))
    parts = [grower.constant([grower.random.choice((1, 1, 2, 3))]) for _ in range(input.rank)]
    if grower.chance(0.5):
        source = grower.any((1, 2, 3))
        parts[grower.random.randrange(input.rank)] = number(grower, source, grower.axis(source))
    return grower.one("Tile", [input.name, grower.node("Concat", parts, axis=0)], True)


def _concat(grower: Grower) -> Group:
    lhs = _any(grower)
    axis = grower.axis(lhs)

    def fits(other: Value) -> bool:
        same = other.dtype == lhs.dtype and other.rank == lhs.rank
        return same and all(other.dims[at] == lhs.dims[at] for at in range(lhs.rank) if at != axis % lhs.rank)

    names = [lhs.name]
    for _ in range(grower.random.choice((1, 1, 2))):
        other = grower.pick(fits)
        names.append(lhs.name if other is None else other.name)
    return grower.one("Concat", names, True, axis=axis)


def _reshape(grower: Grower) -> Group:
    """Merges neighbours, splits a dimension, and leaves one to be deduced or kept."""
    input = _any(grower)
    parts: list[str] = []
    axis, deduced = 0, False
    while axis < input.rank:
        left = input.rank - axis
        if left >= 2 and grower.chance(0.4):
            if not deduced and grower.chance(0.5):
                parts.append(grower.constant([-1]))
                deduced = True
            else:
                parts.append(grower.node("Mul", [extent(grower, input, axis), extent(grower, input, axis + 1)]))
            axis += 2
            continue
        factors = [factor for factor in (2, 3, 4) if all(size % factor == 0 for size in input.extents(axis))]
        if factors and grower.chance(0.4):
            factor = grower.constant([grower.random.choice(factors)])
            rest = grower.node("Div", [extent(grower, input, axis), factor])
            if not deduced and grower.chance(0.5):
                rest, deduced = grower.constant([-1]), True
            parts += grower.random.choice(([factor, rest], [rest, factor]))
        elif axis == len(parts) and grower.chance(0.5):
            parts.append(grower.constant([0]))
        elif not deduced and grower.chance(0.3):
            parts.append(grower.constant([-1]))
            deduced = True
        else:
            parts.append(extent(grower, input, axis))
        if grower.chance(0.1):
            parts.append(grower.constant([1]))
        axis += 1
    return grower.one("Reshape", [input.name, grower.node("Concat", parts, axis=0)], True)


def _layout(grower: Grower) -> Group:
    input = _any(grower)
    name = grower.random.choice(("Transpose", "Transpose", "Flatten", "Unsqueeze", "Squeeze"))
    if name == "Transpose":
        order = list(range(input.rank))
        grower.random.shuffle(order)
        return grower.one(name, [input.name], True, perm=order)
    if name == "Flatten":
        return grower.one(name, [input.name], True, axis=grower.random.randint(-input.rank, input.rank))
    ones = [axis for axis, extents in enumerate(input.dims) if set(extents) == {1}]
    if name == "Squeeze" and ones:
        return grower.one(name, [input.name, grower.constant([grower.random.choice(ones)])], True)
    return grower.one("Unsqueeze", [input.name, grower.constant([grower.random.randint(0, input.rank)])], True)


def _gather(grower: Grower) -> Group | None:
    input = _any(grower)
    axis = grower.axis(input)
    least = input.least(axis)
    if not least:
        return None
    if grower.chance(0.3):
        last = grower.node("Sub", [extent(grower, input, axis), grower.constant([1])])
        return grower.one("Gather", [input.name, last], True, axis=axis)
    if grower.chance(0.4):
        shape = grower.random.choice(([2], ["n"], ["m", 2], [3, "k"]))
        indices = grower.fresh(shape, grower.random.choice((np.int64, np.int32)), below=least)
        return grower.one("Gather", [input.name, indices.name], True, axis=axis)
    shape = grower.random.choice(((), (1,), (4,), (2, 3)))
    return grower.one(
        "Gather", [input.name, grower.constant(grower.numbers.integers(-least, least, shape))], True, axis=axis
    )


def _gather_elements(grower: Grower) -> Group | None:
    input = grower.any((1, 2, 3))
    axis = grower.axis(input)
    symbols = {tuple(sizes[name] for sizes in grower.sizes): name for name in grower.ranges}
    shape = [extents[0] if len(set(extents)) == 1 else symbols.get(extents, 1) for extents in input.dims]
    shape[axis] = grower.random.choice((1, 3, "n", "m", shape[axis]))
    if not input.least(axis):
        return None
    indices = grower.fresh(shape, np.int64, below=input.least(axis))
    return grower.one("GatherElements", [input.name, indices.name], True, axis=axis)


def _gather_nd(grower: Grower) -> Group | None:
    input = grower.any((2, 3))
    depth = grower.random.randint(1, input.rank)
    least = min(input.least(axis) for axis in range(depth))
    if not least:
        return None
    indices = grower.fresh([*grower.random.choice((["n"], [2], ["m", 2])), depth], np.int64, below=least)
    return grower.one("GatherND", [input.name, indices.name], True)


def _scatter_nd(grower: Grower) -> Group | None:
    """Writes to places without repetition: a permutation of the rows that exist at every size."""
    input = grower.float((1, 2, 3))
    least = input.least(0)
    if not least:
        return None
    count = grower.random.randint(1, least)
    rows = grower.constant(grower.numbers.permutation(least)[:count].reshape(-1, 1))
    if grower.chance(0.5):
        updates = grower.node("Gather", [input.name, grower.constant(np.arange(count)[::-1].copy())], axis=0)
    else:
        rest = [grower.constant([count]), *(extent(grower, input, axis) for axis in range(1, input.rank))]
        updates = grower.node("Expand", [grower.constant([0.25], np.float32), grower.node("Concat", rest, axis=0)])
    return grower.one("ScatterND", [input.name, rows, updates], True)


def _scatter_elements(grower: Grower) -> Group | None:
    input = grower.float((1, 2, 3))
    axis = grower.axis(input)
    symbols = {tuple(sizes[name] for sizes in grower.sizes): name for name in grower.ranges}
    shape = [extents[0] if len(set(extents)) == 1 else symbols.get(extents, 1) for extents in input.dims]
    if not input.least(axis):
        return None
    shape[axis] = 1
    indices = grower.fresh(shape, np.int64, below=input.least(axis))
    updates = grower.fresh(shape)
    reduction = grower.random.choice(("none", "add", "max"))
    return grower.one(
        "ScatterElements", [input.name, indices.name, updates.name], reduction != "add", axis=axis, reduction=reduction
    )


def _top_k(grower: Grower) -> Group | None:
    input = grower.float((1, 2, 3), exact=True)
    axis = grower.axis(input)
    if not input.least(axis):
        return None
    count = grower.constant([grower.random.randint(1, input.least(axis))])
    if grower.chance(0.6):
        whole = extent(grower, input, axis)
        count = grower.random.choice((whole, grower.node("Min", [whole, grower.constant([4])])))
    outs = [grower.name("top"), grower.name("at")]
    attributes = {"axis": axis, "largest": int(grower.chance(0.6))}
    return Group([("TopK", [input.name, count], outs, attributes)], outs, None)


def _resize(grower: Grower) -> Group:
    input = grower.float((3, 4))
    draw = grower.random.choice
    attributes: dict = {
        "mode": draw(("nearest", "linear", "cubic") if input.rank == 4 else ("nearest", "linear")),
        "coordinate_transformation_mode": draw(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")),
    }
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = draw(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    is_exact = attributes["mode"] == "nearest"
    if grower.chance(0.5):
        scales = grower.constant([1, 1, *(draw((2, 0.5, 1.5, 3)) for _ in range(input.rank - 2))], np.float32)
        return grower.one("Resize", [input.name, "", scales], is_exact, **attributes)
    parts = [grower.node("Shape", [input.name], start=0, end=2)]
    for axis in range(2, input.rank):
        source = draw((input, grower.any((1, 2, 3))))
        parts.append(number(grower, source, axis if source is input else grower.axis(source)))
    return grower.one("Resize", [input.name, "", "", grower.node("Concat", parts, axis=0)], is_exact, **attributes)


def _made(grower: Grower) -> Group:
    """Tensors whose contents come from sizes alone."""
    source = grower.any((1, 2, 3))
    size = number(grower, source, grower.axis(source))
    name = grower.random.choice(("Range", "Expand", "Shape", "Number", "OneHot"))
    if name == "Shape":
        return grower.one("Cast", [grower.node("Shape", [source.name])], True, to=1)
    if name == "Number":
        return grower.one("Cast", [size], True, to=1)
    if name == "Expand":
        other = grower.any((1, 2, 3))
        sizes = grower.node("Concat", [size, number(grower, other, grower.axis(other))], axis=0)
        return grower.one("Expand", [grower.constant(0.5, np.float32), sizes], True)
    stop = grower.node("Squeeze", [size, grower.constant([0])])
    places = grower.node("Range", [grower.constant(0), stop, grower.constant(grower.random.choice((1, 1, 2)))])
    if name == "Range":
        return grower.one("Cast", [places], True, to=1)
    depth = grower.random.choice((grower.constant([4]), size))
    return grower.one("OneHot", [places, depth, grower.constant([0, 1], np.float32)], True, axis=-1)


def _blocks(grower: Grower) -> Group:
    name = grower.random.choice(("SpaceToDepth", "DepthToSpace"))
    attributes = {"mode": grower.random.choice(("DCR", "CRD"))} if name == "DepthToSpace" else {}
    return grower.one(name, [grower.float(4).name], True, blocksize=2, **attributes)


def _trilu(grower: Grower) -> Group:
    input = grower.float((2, 3))
    shift = grower.constant(grower.random.choice((-1, 0, 1)))
    return grower.one("Trilu", [input.name, shift], True, upper=int(grower.chance(0.5)))


def _reverse(grower: Grower) -> Group:
    input = grower.float((2, 3))
    whole = grower.node("Expand", [extent(grower, input, 1), extent(grower, input, 0)])
    return grower.one("ReverseSequence", [input.name, whole], True, batch_axis=0, time_axis=1)


def _chosen(grower: Grower) -> Group:
    """Results whose sizes depend on contents."""
    name = grower.random.choice(("NonZero", "Compress", "Unique"))
    if name == "NonZero":
        return grower.one(name, [grower.any((1, 2, 3), exact=True).name], None)
    input = grower.float((1, 2), exact=True)
    if name == "Unique":
        whole = grower.node("Round", [input.name])
        return grower.one(name, [whole], None)
    flat = grower.node("Reshape", [input.name, grower.constant([-1])])
    return grower.one(name, [flat, grower.node("Greater", [flat, grower.constant(0, np.float32)])], None)


MOVING: dict[str, Callable[[Grower], Group | None]] = {
    "pad": _pad,
    "slice": _slice,
    "split": _split,
    "expand": _expand,
    "tile": _tile,
    "concat": _concat,
    "reshape": _reshape,
    "layout": _layout,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_nd": _scatter_nd,
    "scatter_elements": _scatter_elements,
    "top_k": _top_k,
    "resize": _resize,
    "made": _made,
    "blocks": _blocks,
    "trilu": _trilu,
    "reverse": _reverse,
}

CHOSEN: dict[str, Callable[[Grower], Group | None]] = {"chosen": _chosen}
