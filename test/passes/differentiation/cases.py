"""Examples of each op that has a derivative: operands and attributes, away from steps and ties."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from stepwell.dialects.core import Op
from stepwell.dialects.stepwell import (
    attention,
    blocks,
    contraction,
    cumulative,
    elementwise,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
)


@dataclass(frozen=True)
class Case:
    """An op with operands and attributes; `is_known` makes integers constants, without which shapes are unknown."""

    kind: type[Op]
    operands: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    is_known: bool = False

    def takes(self, operand: np.ndarray | None) -> bool:
        """Returns whether an operand is an argument of the program."""
        return operand is not None and not (self.is_known and operand.dtype.kind == "i")

    def __str__(self) -> str:
        shapes = "-".join("none" if item is None else "x".join(map(str, item.shape)) for item in self.operands)
        chosen = "-".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.kind.OPERATION_NAME.removeprefix('stepwell.')}-{shapes}-{chosen}"[:90]


def numbers(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Numbers of a range that differ from each other by more than any step of a difference."""
    size = int(np.prod(shape, dtype=int))
    order = np.random.default_rng([seed, *shape]).permutation(size)
    return (low + (high - low) * (order + 0.37) / max(size, 1)).reshape(shape)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between 0.3 and 2."""
    return numbers(*shape, low=0.3, high=2.0, seed=seed)


def inside(*shape: int) -> np.ndarray:
    """Numbers between -0.9 and 0.9."""
    return numbers(*shape, low=-0.9, high=0.9)


def window(rank: int, **changed: Any) -> dict[str, Any]:
    """Attributes of a window that moves by one without padding."""
    return {"strides": (1,) * rank, "pads": (0,) * (2 * rank), "dilations": (1,) * rank} | changed


def _unary() -> list[Case]:
    plain = [
        "Abs",
        "Neg",
        "Sign",
        "Exp",
        "Erf",
        "Sin",
        "Cos",
        "Floor",
        "Ceil",
        "Round",
        "Tanh",
        "Sinh",
        "Cosh",
        "Atan",
        "Asinh",
        "Relu",
        "Sigmoid",
        "Silu",
        "Softplus",
    ]
    found = [Case(getattr(elementwise, f"{name}Op"), (numbers(3, 4),)) for name in plain]
    found += [
        Case(getattr(elementwise, f"{name}Op"), (positive(3, 4),)) for name in ("Log", "Sqrt", "Rsqrt", "Reciprocal")
    ]
    found += [Case(getattr(elementwise, f"{name}Op"), (inside(3, 4),)) for name in ("Asin", "Acos", "Atanh", "Tan")]
    found += [Case(elementwise.AcoshOp, (positive(3, 4) + 1,))]
    found += [Case(elementwise.GeluOp, (numbers(5, 4),), {"approximate": name}) for name in ("none", "tanh")]
    found += [Case(elementwise.HardSwishOp, (numbers(5, 4, low=-5, high=5),))]
    found += [Case(elementwise.HardSigmoidOp, (numbers(5, 4, low=-5, high=5),), {"alpha": 0.25})]
    found += [Case(elementwise.LeakyReluOp, (numbers(4, 4),), {"alpha": 0.2})]
    found += [Case(elementwise.EluOp, (numbers(4, 4),), {"alpha": 1.5})]
    found += [Case(elementwise.ClipOp, (numbers(4, 4),), bounds) for bounds in ({"minimum": -1.0, "maximum": 0.5}, {})]
    return [*found, Case(elementwise.CastOp, (numbers(3, 4),), {"dtype": np.dtype(np.float64)})]


def _binary() -> list[Case]:
    shapes = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3))]
    names = ("Add", "Sub", "Mul", "Maximum", "Minimum")
    found = [
        Case(getattr(elementwise, f"{name}Op"), (numbers(*lhs), numbers(*rhs, seed=1) + 0.003))
        for name in names
        for lhs, rhs in shapes
    ]
    found += [
        Case(getattr(elementwise, f"{name}Op"), (numbers(*lhs, low=1, high=4), positive(*rhs)))
        for name in ("Div", "Pow", "Mod")
        for lhs, rhs in shapes
    ]
    mask = np.array([[True], [False], [True]])
    found += [Case(elementwise.SelectOp, (mask, numbers(3, 4), numbers(4, seed=1)))]
    return [*found, Case(elementwise.MaskOp, (numbers(3, 4), np.array([1.0, 0.0, 1.0, 0.0])))]


def _reductions() -> list[Case]:
    kinds = (reduction.ReduceSumOp, reduction.ReduceMeanOp, reduction.ReduceProdOp, reduction.ReduceMaxOp)
    axes = (((1,), True), ((0, 2), False), ((-1,), False), ((0, 1, 2), False))
    found = [
        Case(kind, (numbers(2, 3, 4),), {"axes": chosen, "keepdims": keepdims})
        for kind in (*kinds, reduction.ReduceMinOp)
        for chosen, keepdims in axes
    ]
    with_zero = np.where(numbers(2, 3) > 1.5, 0, numbers(2, 3))
    found += [Case(reduction.ReduceProdOp, (with_zero,), {"axes": (1,), "keepdims": True})]
    found += [
        Case(cumulative.CumulativeOp, (zeros,), {"axis": 1, "mode": "product", "reverse": back, "exclusive": without})
        for zeros in (with_zero, np.where(np.arange(15).reshape(3, 5) % 4 == 1, 0, positive(3, 5)))
        for back in (False, True)
        for without in (False, True)
    ]
    return found + [
        Case(
            cumulative.CumulativeOp, (positive(3, 4),), {"axis": 1, "mode": mode, "reverse": back, "exclusive": without}
        )
        for mode in ("sum", "product")
        for back in (False, True)
        for without in (False, True)
    ]


def _movement() -> list[Case]:
    x = numbers(3, 4)
    places = np.array([[2, 0, -1], [0, 0, 1]])
    found = [
        Case(movement.ReshapeOp, (x,), {"shape": (2, 6)}),
        Case(movement.TransposeOp, (numbers(2, 3, 4),), {"permutation": (2, 0, 1)}),
        Case(movement.ConcatOp, (x, numbers(3, 2, seed=1)), {"axis": -1}),
        Case(movement.SliceOp, (numbers(5, 7),), {"starts": (1, 0), "stops": (5, 6), "steps": (2, 3)}),
        Case(movement.SliceOp, (x,), {"starts": (1, 1), "stops": (3, 2), "steps": (1, 1)}),
        Case(movement.ReverseOp, (x,), {"axes": (-1,)}),
        Case(movement.BroadcastToOp, (numbers(3, 1),), {"shape": (2, 3, 4)}),
        Case(movement.TileOp, (x,), {"repeats": (2, 3)}),
        Case(movement.SqueezeOp, (numbers(3, 1, 4),), {"axes": (1,)}),
        Case(movement.ExpandDimsOp, (x,), {"axes": (0, 2)}),
    ]
    for index in (1, -2, 7):
        at = np.array(index)
        found += [
            Case(movement.RowOp, (x, at)),
            Case(movement.WithRowOp, (numbers(3, 2, 2), numbers(2, 2, seed=1), at)),
        ]
    found += [Case(movement.GatherOp, (numbers(3, 4, 3), places), {"axis": axis}) for axis in (0, 1, -1)]
    found += [
        Case(movement.PadOp, (x,), {"low": (1, 2), "high": (0, 3), "mode": mode})
        for mode in ("constant", "reflect", "edge", "wrap")
    ]
    found += [Case(movement.PadOp, (x,), {"low": (3, 0), "high": (5, 9), "mode": mode}) for mode in ("edge", "wrap")]
    for reduction_ in ("none", "add", "mul", "max", "min"):
        rows, batched = np.array([1, -1, 1, 7]), np.array([[0, 2], [1, 1], [3, -4]])
        found += [
            Case(movement.ScatterOp, (x, rows, numbers(4, 4, seed=1), None), {"axis": 0, "reduction": reduction_}),
            Case(
                movement.ScatterOp,
                (numbers(3, 4, 2), batched, numbers(3, 2, 2, seed=1), None),
                {"axis": 1, "reduction": reduction_},
            ),
        ]
    with_zeros = np.array([0.0, 1.5, -2.0, 0.0, 0.5, 0.0])
    found += [
        Case(
            movement.ScatterOp, (start, np.array([1, 1, 0, 2, 2, 2]), with_zeros, None), {"axis": 0, "reduction": "mul"}
        )
        for start in (np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 3.0]))
    ]
    for sizes, mode, more in (
        ((1, 2, 6, 8), "nearest", {"coordinates": "asymmetric", "nearest": "floor"}),
        ((1, 2, 5, 3), "linear", {}),
        ((1, 2, 7, 8), "cubic", {"exclude_outside": True}),
        ((1, 2, 60, 2), "linear", {"coordinates": "align_corners"}),
    ):
        scales = np.array(sizes) / np.array([1, 2, 3, 4])
        found.append(
            Case(movement.ResizeOp, (numbers(1, 2, 3, 4),), {"sizes": sizes, "scales": scales, "mode": mode} | more)
        )
    return found


def _dynamic() -> list[Case]:
    x, axes = numbers(4, 7), np.array([1, 0])
    backwards = (np.array([-2, 1]), np.array([0, 4]), axes, np.array([-2, 1]))
    return [
        Case(movement.DynamicReshapeOp, (x, np.array([7, -1])), is_known=True),
        Case(movement.DynamicBroadcastToOp, (numbers(4, 1), np.array([2, 1, 3])), is_known=True),
        Case(movement.DynamicSliceOp, (x, np.array([1]), np.array([3]), None, None), is_known=True),
        Case(movement.DynamicSliceOp, (x, np.array([1, 0]), np.array([99, 4]), axes, np.array([3, 2])), is_known=True),
        Case(movement.DynamicSliceOp, (x, *backwards), is_known=True),
    ]


def _sampling() -> list[Case]:
    indices, weights = np.array([[0, 2, 9, 1, 1], [1, -3, 3, 1, 2]]), numbers(2, 5, seed=2)
    found = [Case(movement.ResampleOp, (numbers(2, 4, 3), indices, weights), {"axis": axis}) for axis in (1, -2)]
    image, line, solid = numbers(2, 3, 4, 5), numbers(2, 3, 5), numbers(1, 2, 3, 4, 2)
    # Away from whole numbers and halves, where weights bend or jump.
    at = numbers(2, 2, 3, 2, low=-3.1, high=6.3)
    for mode in ("nearest", "linear", "cubic"):
        found += [
            Case(movement.SampleOp, (image, at), {"mode": mode, "padding": padding, "about_edges": about_edges})
            for padding, about_edges in (
                ("zeros", False),
                ("border", False),
                ("reflection", False),
                ("reflection", True),
            )
        ]
        found.append(Case(movement.SampleOp, (line, numbers(2, 1, 4, low=-1.1, high=5.2)), {"mode": mode}))
    found.append(Case(movement.SampleOp, (solid, numbers(1, 3, 4, low=-1.1, high=3.2)), {"mode": "linear"}))
    return found


def _contractions() -> list[Case]:
    found = []
    for left in (False, True):
        for right in (False, True):
            flags = {"transpose_lhs": left, "transpose_rhs": right}
            for batch, other in (((), ()), ((2, 3), ()), ((2, 1), (3,)), ((), (2,))):
                lhs = (*batch, 5, 4) if left else (*batch, 4, 5)
                rhs = (*other, 6, 5) if right else (*other, 5, 6)
                found.append(Case(contraction.MatmulOp, (numbers(*lhs), numbers(*rhs, seed=1)), flags))
    image, line = numbers(2, 4, 6, 5), numbers(2, 4, 9)
    for bias in (None, numbers(6)):
        found += [
            Case(contraction.ConvOp, (image, numbers(6, 4, 3, 2, seed=1), bias), window(2)),
            Case(
                contraction.ConvOp,
                (image, numbers(6, 4, 3, 3, seed=1), bias),
                window(2, strides=(2, 2), pads=(1, 0, 2, 1), dilations=(1, 2)),
            ),
            Case(contraction.ConvOp, (image, numbers(6, 2, 2, 2, seed=1), bias), window(2, group=2, strides=(3, 1))),
            Case(contraction.ConvOp, (line, numbers(6, 4, 3, seed=1), bias), window(1, strides=(2,))),
            Case(contraction.ConvOp, (numbers(1, 2, 3, 3), numbers(6, 2, 2, 2, seed=1), bias), window(2)),
            Case(
                contraction.ConvOp,
                (numbers(1, 5, 4, 3), numbers(6, 3, 2, 2, seed=1), bias),
                window(2, layout="channels_last", pads=(1, 1, 1, 1)),
            ),
        ]
    found += [
        Case(contraction.ConvOp, (image, numbers(4, 1, 3, 3, seed=1), None), window(2, group=4, pads=(1, 1, 1, 1))),
        Case(
            contraction.ConvTransposeOp,
            (image, numbers(4, 3, 3, 2, seed=1), numbers(3)),
            window(2, strides=(2, 1), pads=(1, 0, 0, 1), output_padding=(1, 0)),
        ),
        Case(
            contraction.ConvTransposeOp,
            (image, numbers(4, 3, 2, 2, seed=1), None),
            window(2, group=2, dilations=(2, 1), output_padding=(0, 0)),
        ),
    ]
    for bits, depth in ((4, 11), (8, 12), (2, 12)):
        weight = np.random.default_rng(bits).integers(0, 256, (5, 3, bits // 2)).astype(np.uint8)
        for zeros in (None, numbers(5, 3, seed=3)):
            given = (numbers(2, 3, depth), weight, numbers(5, 3, seed=1), zeros)
            found.append(Case(blocks.BlockMatmulOp, given, {"bits": bits}))
    long = (numbers(3, 100, 2), numbers(2, 3, seed=1))  # the rows of more than one block
    return [*found, Case(contraction.MatmulOp, long)]


def _recurrent() -> list[Case]:
    found = []
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        weights = (numbers(count, 12, 2, low=-1, high=1), numbers(count, 12, 3, seed=1, low=-1, high=1))
        states = (numbers(count, 24, seed=2), numbers(count, 2, 3, seed=3), numbers(count, 2, 3, seed=4))
        x = numbers(4, 2, 2)
        found.append(Case(recurrent.LstmOp, (x, *weights, *states), {"direction": direction}))
        found.append(Case(recurrent.LstmOp, (x, *weights, None, None, None), {"direction": direction}))
    return found


def _pooling() -> list[Case]:
    image = numbers(2, 3, 6, 6)
    windows = [
        {"kernel": (2, 3)} | window(2, strides=(2, 3)),
        {"kernel": (3, 3)} | window(2, strides=(2, 2), pads=(1, 1, 1, 1)),
        {"kernel": (2, 2)} | window(2, strides=(1, 2), dilations=(2, 1)),
        {"kernel": (3, 2), "ceil_mode": True} | window(2, strides=(2, 2), pads=(0, 1, 1, 0)),
        {"kernel": (2, 2), "layout": "channels_last"} | window(2, strides=(2, 1)),
        {"kernel": (3, 2), "layout": "channels_last"} | window(2, strides=(3, 2)),
    ]
    found = []
    for attributes in windows:
        x = numbers(2, 6, 6, 3) if "layout" in attributes else image
        found += [
            Case(kind, (x,), attributes) for kind in (pooling.MaxPoolOp, pooling.SumPoolOp, pooling.AveragePoolOp)
        ]
        found.append(Case(pooling.AveragePoolOp, (x,), attributes | {"count_include_pad": True}))
    return found


def _normalizations() -> list[Case]:
    x = numbers(2, 3, 4)
    found = [
        Case(kind, (x,), {"axis": axis})
        for kind in (normalization.SoftmaxOp, normalization.LogSoftmaxOp)
        for axis in (-1, 1)
    ]
    found += [
        Case(normalization.LayerNormOp, (x, numbers(4), numbers(4, seed=1))),
        Case(normalization.LayerNormOp, (x, None, numbers(3, 4)), {"axis": 1, "epsilon": 0.1}),
        Case(normalization.RmsNormOp, (x, numbers(4))),
        Case(normalization.RmsNormOp, (x, None), {"axis": 1}),
    ]
    for layout in ("channels_first", "channels_last"):
        image = numbers(2, 3, 4, 3)
        channels = [numbers(3, seed=seed) for seed in range(3)]
        found.append(Case(normalization.BatchNormOp, (image, *channels, positive(3)), {"layout": layout}))
        found.append(Case(normalization.LocalResponseNormOp, (image,), {"size": 2, "alpha": 0.5, "layout": layout}))
    return found


def _attention() -> list[Case]:
    query, key, value = numbers(2, 4, 3, 5), numbers(2, 4, 6, 5, seed=1), numbers(2, 4, 6, 2, seed=2)
    shared = (numbers(2, 2, 6, 5, seed=1), numbers(2, 2, 6, 2, seed=2))
    masks = np.arange(6) < np.array([2, 5, 6])[:, None]
    return [
        Case(attention.AttentionOp, (query, key, value, None), {"scale": 0.5}),
        Case(attention.AttentionOp, (query, *shared, None), {"scale": 0.5, "after": 1, "before": 2}),
        Case(attention.AttentionOp, (query, key, value, masks), {"scale": 0.3, "masked": -3.0}),
        Case(attention.AttentionOp, (query, key, value, numbers(4, 1, 6)), {"scale": 0.3}),
        Case(
            attention.AttentionOp,
            (query, key, value, masks & (np.arange(3) > 0)[:, None]),
            {"scale": 1.0, "zero_empty": True},
        ),
    ]


CASES = [
    case
    for family in (
        _unary,
        _binary,
        _reductions,
        _movement,
        _dynamic,
        _sampling,
        _contractions,
        _recurrent,
        _pooling,
        _normalizations,
        _attention,
    )
    for case in family()
]
