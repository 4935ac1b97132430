"""Examples of each op that has a form in ONNX."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func
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
    shape,
    sorting,
)
from stepwell.dialects.types import TensorSpec, tensor_type


@dataclass(frozen=True)
class Case:
    """An op with operands and attributes."""

    kind: type[Op]
    operands: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> list[np.ndarray]:
        """The operands that are not absent."""
        return [item for item in self.operands if item is not None]

    def __str__(self) -> str:
        chosen = "-".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.kind.OPERATION_NAME.removeprefix('stepwell.')}-{self.given[0].dtype}-{chosen}"[:70]


def program_of(case: Case) -> ir.Module:
    """A module whose @main takes the operands and returns the results of the op."""
    module = ir.Module.create()
    kinds = [tensor_type(TensorSpec(item.shape, item.dtype)) for item in case.given]
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", (kinds, []))
    with ir.InsertionPoint(main.add_entry_block()):
        arguments = iter(main.arguments)
        values = [None if item is None else next(arguments) for item in case.operands]
        results = list(case.kind(*values, **case.attributes).operation.results)
        func.ReturnOp(results)
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, [item.type for item in results]))
    return module


def numbers(*size: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Different numbers of a range, in random order."""
    count = int(np.prod(size, dtype=int))
    order = np.random.default_rng(list(size)).permutation(count)
    return (low + (high - low) * (order + 0.37) / max(count, 1)).reshape(size).astype(np.float32)


def integers(*size: int, dtype: Any = np.int64, low: int = 0, high: int = 6) -> np.ndarray:
    """Random whole numbers."""
    return np.random.default_rng(list(size)).integers(low, high, size).astype(dtype)


def window(kernel: tuple[int, ...], **changed: Any) -> dict[str, Any]:
    """Attributes of a window that moves by one without padding."""
    rank = len(kernel)
    plain = {"kernel": kernel, "strides": (1,) * rank, "pads": (0,) * (2 * rank), "dilations": (1,) * rank}
    return plain | changed


def convolution(rank: int, **changed: Any) -> dict[str, Any]:
    """Attributes of a convolution that moves by one without padding."""
    return {name: value for name, value in window((1,) * rank).items() if name != "kernel"} | changed


def _elementwise() -> list[Case]:
    x, y = numbers(3, 4), numbers(4)
    names = "Abs Neg Sign Exp Erf Sin Cos Floor Ceil Round Tanh Sinh Cosh Atan Asinh Relu Sigmoid Silu Softplus"
    found = [Case(getattr(elementwise, f"{name}Op"), (x,)) for name in (*names.split(), "HardSwish", "Tan")]
    found += [Case(getattr(elementwise, f"{name}Op"), (x / 2.5,)) for name in ("Asin", "Acos", "Atanh")]
    positive = np.abs(x) + 0.3
    found += [Case(getattr(elementwise, f"{name}Op"), (positive,)) for name in ("Log", "Sqrt", "Rsqrt", "Reciprocal")]
    found += [Case(elementwise.AcoshOp, (positive + 1,))]
    found += [Case(elementwise.GeluOp, (x,), {"approximate": name}) for name in ("none", "tanh")]
    found += [
        Case(elementwise.HardSigmoidOp, (x,), {"alpha": 0.25, "beta": 0.4}),
        Case(elementwise.LeakyReluOp, (x,), {"alpha": 0.2}),
        Case(elementwise.EluOp, (x,), {"alpha": 1.5}),
        Case(elementwise.ClipOp, (x,), {"minimum": -1.0}),
        Case(elementwise.ClipOp, (integers(3, 4, low=-9),), {"minimum": -1.0, "maximum": 3.0}),
        Case(elementwise.PowOp, (positive, y)),
        Case(elementwise.DivOp, (integers(3, 4, low=-9), integers(4, low=1))),
        Case(elementwise.ModOp, (x, y)),
        Case(elementwise.ModOp, (integers(3, 4, low=-9), integers(4, low=1))),
        Case(elementwise.SelectOp, (x > 0, x, y)),
        Case(elementwise.MaskOp, (x, np.array([1, 0, 1, 0], np.float32)), {"otherwise": 7.0}),
        Case(elementwise.NotOp, (x > 0,)),
        Case(elementwise.NotOp, (integers(3, 4),)),
        Case(elementwise.ShiftLeftOp, (integers(3, dtype=np.uint32), integers(1, dtype=np.uint32))),
        Case(elementwise.ShiftRightOp, (integers(3, dtype=np.uint64, high=99), integers(1, dtype=np.uint64))),
        *(Case(elementwise.CastOp, (x,), {"dtype": np.dtype(kind)}) for kind in ("int32", "float64", "bool")),
    ]
    binary = "Add Sub Mul Div Maximum Minimum Equal Less LessEqual Greater GreaterEqual"
    found += [Case(getattr(elementwise, f"{name}Op"), (x, y)) for name in binary.split()]
    for name in ("And", "Or", "Xor"):
        kind = getattr(elementwise, f"{name}Op")
        found += [Case(kind, (x > 0, y > 0)), Case(kind, (integers(3, 4), integers(4)))]
    return found


def _movement() -> list[Case]:
    x, image = numbers(3, 4), numbers(1, 2, 5, 6)
    places = np.array([[2, 0, -1], [0, 0, 1]])
    twice = {"sizes": (1, 2, 10, 9), "scales": np.array([1, 1, 2, 1.5], np.float32)}
    rates = {"sizes": (1, 2, 8, 9), "scales": np.array([1, 1, 1.6, 1.5], np.float32)}
    positions = np.stack([numbers(1, 4, 3, low=-1, high=5), numbers(1, 4, 3, low=-1, high=6)], 1)
    found = [
        Case(movement.ReshapeOp, (x,), {"shape": (2, 6)}),
        Case(movement.TransposeOp, (numbers(2, 3, 4),), {"permutation": (2, 0, 1)}),
        Case(movement.ConcatOp, (x, numbers(3, 2)), {"axis": -1}),
        Case(movement.SliceOp, (numbers(5, 7),), {"starts": (1, 0), "stops": (5, 6), "steps": (2, 3)}),
        Case(movement.SliceOp, (x,), {"starts": (0, 0), "stops": (3, 4), "steps": (1, 1)}),
        Case(movement.ReverseOp, (x,), {"axes": (-1, 0)}),
        Case(movement.BroadcastToOp, (numbers(3, 1),), {"shape": (2, 3, 4)}),
        Case(movement.TileOp, (x,), {"repeats": (2, 3)}),
        Case(movement.SqueezeOp, (numbers(3, 1, 4),), {"axes": (1,)}),
        Case(movement.ExpandDimsOp, (x,), {"axes": (0, 2)}),
        Case(movement.GatherOp, (numbers(3, 4, 3), places), {"axis": 1}),
        Case(movement.PadOp, (x,), {"low": (0, 2), "high": (1, 0), "value": 3.0}),
        *(Case(movement.PadOp, (x,), {"low": (1, 2), "high": (1, 0), "mode": name}) for name in ("reflect", "edge")),
        Case(movement.ScatterOp, (numbers(5, 4), np.array([0, 3, -1]), numbers(3, 4)), {"axis": 0}),
        Case(movement.ScatterOp, (numbers(5, 4), np.array([2, 2, 1]), numbers(3, 4)), {"axis": 0, "reduction": "add"}),
        Case(movement.ScatterOp, (numbers(2, 5), np.array([[0, 3], [4, 1]]), numbers(2, 2)), {"axis": 1}),
        Case(movement.ResizeOp, (image,), twice | {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"}),
        Case(movement.ResizeOp, (image,), rates | {"mode": "linear"}),
        Case(movement.ResizeOp, (image,), rates | {"mode": "cubic", "coordinates": "align_corners"}),
        Case(movement.DynamicReshapeOp, (x, np.array([2, -1]))),
        Case(movement.DynamicBroadcastToOp, (numbers(3, 1), np.array([2, 3, 4]))),
        Case(movement.DynamicSliceOp, (x, np.array([1]), np.array([3]), np.array([1]), np.array([1]))),
        Case(movement.DynamicPadOp, (x, np.array([1, 2, 0, 0]))),
        Case(shape.ShapeOfOp, (x,)),
        Case(shape.SizeOfOp, (x,)),
        Case(shape.FillOp, (np.array([2, 3]),), {"value": np.array(1.5, np.float32)}),
        Case(shape.RangeOp, (np.array(2), np.array(9), np.array(3))),
    ]
    found += [
        Case(movement.SampleOp, (image, positions), {"mode": mode, "padding": padding, "about_edges": about})
        for mode in ("nearest", "linear")
        for padding, about in (("zeros", False), ("border", False), ("reflection", False), ("reflection", True))
    ]
    return found


def _reductions() -> list[Case]:
    x, image = numbers(2, 3, 4), numbers(1, 2, 6, 7)
    names = "Sum Mean Prod Max Min"
    found = [
        Case(getattr(reduction, f"Reduce{name}Op"), (x,), {"axes": (0, 2), "keepdims": keepdims})
        for name in names.split()
        for keepdims in (True, False)
    ]
    scale, bias = numbers(4), numbers(4)
    steps = {"strides": (2, 1), "pads": (1, 0, 0, 1), "dilations": (1, 2)}
    over = {"strides": (2, 2), "ceil_mode": True}
    found += [
        Case(reduction.ReduceSumOp, (x,), {"axes": ()}),
        Case(reduction.ArgmaxOp, (x,), {"axis": 1, "keepdims": False}),
        *(
            Case(cumulative.CumulativeOp, (x,), {"axis": 1, "reverse": back, "exclusive": without})
            for back in (False, True)
            for without in (False, True)
        ),
        Case(normalization.SoftmaxOp, (x,), {"axis": 1}),
        Case(normalization.LogSoftmaxOp, (x,), {"axis": -1}),
        Case(normalization.LayerNormOp, (x, scale, bias), {"epsilon": 1e-3}),
        Case(normalization.LayerNormOp, (x, None, None), {"axis": 1}),
        Case(normalization.RmsNormOp, (x, scale), {"epsilon": 1e-3}),
        Case(normalization.RmsNormOp, (x, None), {"axis": -2}),
        Case(normalization.BatchNormOp, (image, *(np.abs(numbers(2)) + place for place in range(4)))),
        Case(normalization.LocalResponseNormOp, (numbers(1, 5, 3, 3),), {"size": 3, "alpha": 0.3}),
        *(
            Case(kind, (image,), window((2, 3), **chosen))
            for kind in (pooling.MaxPoolOp, pooling.AveragePoolOp)
            for chosen in (steps, over)
        ),
        Case(pooling.MaxPoolIndicesOp, (image,), window((2, 2), **steps)),
        Case(pooling.AveragePoolOp, (image,), window((2, 3), **steps, count_include_pad=True)),
        Case(pooling.SumPoolOp, (image,), window((2, 3), **steps)),
        Case(sorting.TopKOp, (x,), {"k": 2}),
        Case(sorting.TopKOp, (x,), {"k": 3, "largest": False}),
    ]
    lstm = (numbers(5, 2, 3), numbers(2, 16, 3), numbers(2, 16, 4), numbers(2, 32))
    found += [Case(recurrent.LstmOp, (*lstm, numbers(2, 2, 4), None), {"direction": "bidirectional"})]
    single = tuple(item[:1] for item in lstm[1:])
    return [*found, Case(recurrent.LstmOp, (lstm[0], *single, None, None), {"direction": "reverse"})]


def _products() -> list[Case]:
    found = [
        Case(contraction.MatmulOp, (numbers(2, 3, 4), numbers(4, 5))),
        Case(contraction.MatmulOp, (numbers(4, 3), numbers(5, 4)), {"transpose_lhs": True, "transpose_rhs": True}),
        Case(contraction.ConvOp, (numbers(1, 4, 9), numbers(6, 2, 3), numbers(6)), convolution(1, group=2)),
        Case(
            contraction.ConvOp,
            (numbers(1, 2, 6, 7), numbers(3, 2, 2, 3)),
            convolution(2, strides=(2, 1), pads=(1, 0, 0, 2), dilations=(1, 2)),
        ),
        Case(
            contraction.ConvTransposeOp,
            (numbers(1, 4, 3, 4), numbers(4, 2, 3, 2), numbers(4)),
            convolution(2, strides=(2, 2), pads=(1, 0, 0, 1), output_padding=(1, 0), group=2),
        ),
    ]
    query, key, value = numbers(1, 4, 3, 8), numbers(1, 2, 5, 8), numbers(1, 2, 5, 6)
    attributes = [
        ({}, None),
        ({"after": 1}, None),
        ({"before": 0, "after": 2, "cap": 3.0}, None),
        ({}, numbers(1, 1, 3, 5)),
        ({"masked": -1e4}, numbers(4, 3, 5) > 0),
        ({"zero_empty": True}, np.array([[True] * 5, [False] * 5, [True] * 5])),
    ]
    found += [
        Case(attention.AttentionOp, (query, key, value, mask), {"scale": 0.3, **chosen}) for chosen, mask in attributes
    ]
    codes, scales = integers(6, 2, 8, dtype=np.uint8, high=256), np.abs(numbers(6, 2)) + 0.1
    return [*found, Case(blocks.BlockMatmulOp, (numbers(3, 32), codes, scales), {"bits": 4})]


CASES = [*_elementwise(), *_movement(), *_reductions(), *_products()]

REFUSED = [
    (Case(elementwise.ShiftLeftOp, (integers(3), integers(1))), "unsigned"),
    (Case(cumulative.CumulativeOp, (numbers(3),), {"axis": 0, "mode": "product"}), "products"),
    (Case(pooling.SumPoolOp, (numbers(1, 1, 5),), window((2,), strides=(2,), ceil_mode=True)), "overhang"),
    (Case(contraction.ConvOp, (numbers(1, 5, 2), numbers(3, 2, 1)), convolution(1, layout="channels_last")), "first"),
    (Case(sorting.TopKOp, (numbers(5), np.array(3)), {"k": 2}), "limit"),
    (Case(elementwise.BitcastOp, (numbers(3),), {"dtype": np.dtype(np.int32)}), "stepwell.bitcast"),
]
