"""Random programs of stepwell ops on small tensors, as input for passes.

Every program takes two images and reads a few parameters. An op is drawn, its operands are drawn among the existing
values that fit, and its attributes are drawn at random. Ops that move data are drawn more often, because most rewrites
are about them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from stepwell.dialects.stepwell import constant, contraction, elementwise, movement, normalization, pooling, reduction

INPUTS = ((2, 4, 6, 8), (2, 4, 1, 1))

_UNARY = (elementwise.ReluOp, elementwise.SigmoidOp, elementwise.NegOp, elementwise.AbsOp, elementwise.TanhOp)
_BINARY = (elementwise.AddOp, elementwise.MulOp, elementwise.SubOp, elementwise.MaximumOp, elementwise.MinimumOp)
_REDUCTIONS = (reduction.ReduceMeanOp, reduction.ReduceMaxOp, reduction.ReduceSumOp)
_NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 6.0)


@dataclass
class RandomProgram:
    """A module with @main, and the contents of its parameters."""

    rng: np.random.Generator
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    values: list[ir.Value] = field(default_factory=list)

    def build(self, size: int) -> ir.Module:
        """Builds a program of about `size` ops in the current context."""
        module = ir.Module.create(loc=ir.Location.unknown())
        kinds = [ir.RankedTensorType.get(shape, ir.F32Type.get()) for shape in INPUTS]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (kinds, []))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            self.values = list(block.arguments)
            for _ in range(size):
                draw = _DRAWS[self.rng.integers(len(_DRAWS))]
                made = draw(self)
                if made is not None:
                    self.values.append(made)
            results = self.values[-3:]
            func.ReturnOp(results)
        kind = ir.FunctionType.get(kinds, [result.type for result in results])
        main.operation.attributes["function_type"] = ir.TypeAttr.get(kind)
        return module

    def any(self, accepts: Callable[[tuple], bool] = lambda shape: True) -> Any:
        """Returns a value whose shape is accepted, with a preference for late ones."""
        fitting = [value for value in self.values if accepts(self.shape(value))]
        if not fitting:
            return None
        return fitting[-1 - min(int(self.rng.exponential(2.0)), len(fitting) - 1)]

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """Returns the dimensions of a value."""
        return tuple(ir.RankedTensorType(value.type).shape)

    def parameter(self, shape: tuple[int, ...]) -> ir.Value:
        """Adds a parameter."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = self.rng.uniform(0.5, 1.5, shape).astype(np.float32)
        return constant.ParameterOp(name=name, shape=shape, dtype=np.dtype(np.float32)).result

    def choice(self, options: tuple) -> Any:
        """Returns one of the options."""
        return options[self.rng.integers(len(options))]


def _unary(program: RandomProgram) -> ir.Value:
    return program.choice(_UNARY)(program.any()).result


def _binary(program: RandomProgram) -> ir.Value | None:
    lhs = program.any()
    shape = program.shape(lhs)
    rhs = program.any(lambda other: _broadcasts(shape, other))
    return program.choice(_BINARY)(lhs, rhs).result


def _number(program: RandomProgram) -> ir.Value:
    number = constant.ConstantOp(value=np.array(program.choice(_NUMBERS), np.float32)).result
    return program.choice(_BINARY)(program.any(), number).result


def _weighted(program: RandomProgram) -> ir.Value:
    value = program.any()
    shape = tuple(dim if program.rng.random() < 0.5 else 1 for dim in program.shape(value))
    return program.choice(_BINARY)(value, program.parameter(shape[program.rng.integers(len(shape) + 1) :])).result


def _transpose(program: RandomProgram) -> ir.Value:
    value = program.any()
    permutation = tuple(int(axis) for axis in program.rng.permutation(len(program.shape(value))))
    return movement.TransposeOp(value, permutation=permutation).result


def _layout(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) == 4)
    if value is None:
        return None
    return movement.TransposeOp(value, permutation=program.choice(((0, 2, 3, 1), (0, 3, 1, 2)))).result


def _reshape(program: RandomProgram) -> ir.Value | None:
    value = program.any()
    shape = list(program.shape(value))
    if len(shape) > 1 and (program.rng.random() < 0.5 or len(shape) > 5):
        axis = int(program.rng.integers(len(shape) - 1))
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    elif shape:
        axis = int(program.rng.integers(len(shape)))
        factor = 2 if shape[axis] % 2 == 0 else 1
        shape[axis : axis + 1] = [factor, shape[axis] // factor]
    return movement.ReshapeOp(value, shape=tuple(shape)).result


def _slice(program: RandomProgram) -> ir.Value:
    value = program.any()
    bounds = []
    for dim in program.shape(value):
        start = int(program.rng.integers(dim)) if program.rng.random() < 0.3 else 0
        stop = int(program.rng.integers(start + 1, dim + 1)) if program.rng.random() < 0.3 else dim
        bounds.append((start, stop, int(program.rng.integers(1, 3)) if program.rng.random() < 0.2 else 1))
    starts, stops, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    return movement.SliceOp(value, starts=starts, stops=stops, steps=steps).result


def _concat(program: RandomProgram) -> ir.Value | None:
    lhs = program.any(lambda shape: len(shape) > 0)
    shape = program.shape(lhs)
    axis = int(program.rng.integers(len(shape)))
    rhs = program.any(lambda other: _agree(shape, other, axis))
    return movement.ConcatOp(lhs, rhs, axis=axis).result


def _pad(program: RandomProgram) -> ir.Value:
    value = program.any(lambda shape: len(shape) > 0)
    low, high = (tuple(int(count) for count in program.rng.integers(0, 2, len(program.shape(value)))) for _ in range(2))
    return movement.PadOp(value, low=low, high=high, value=float(program.choice((0.0, 1.0)))).result


def _reduce(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) > 1)
    if value is None:
        return None
    rank = len(program.shape(value))
    axes = tuple(axis for axis in range(rank) if program.rng.random() < 0.4) or (rank - 1,)
    return program.choice(_REDUCTIONS)(value, axes=axes, keepdims=bool(program.rng.random() < 0.6)).result


def _softmax(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) > 0)
    rank = len(program.shape(value))
    return normalization.SoftmaxOp(value, axis=int(program.rng.integers(rank))).result


def _conv(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) == 4 and max(shape) < 20)
    if value is None:
        return None
    channels, outputs = program.shape(value)[1], int(program.choice((3, 4)))
    weight = program.parameter((outputs, channels, 3, 3))
    bias = program.parameter((outputs,)) if program.rng.random() < 0.5 else None
    return contraction.ConvOp(value, weight, bias, strides=(1, 2), pads=(1, 1, 1, 1), dilations=(1, 1)).result


def _batch_norm(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) == 4)
    if value is None:
        return None
    statistics = [program.parameter((program.shape(value)[1],)) for _ in range(4)]
    return normalization.BatchNormOp(value, *statistics).result


def _pool(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) == 4 and min(shape[2:]) > 1)
    if value is None:
        return None
    kind = program.choice((pooling.MaxPoolOp, pooling.AveragePoolOp))
    return kind(value, kernel=(2, 2), strides=(2, 1), pads=(0, 0, 0, 0), dilations=(1, 1)).result


def _matmul(program: RandomProgram) -> ir.Value | None:
    value = program.any(lambda shape: len(shape) > 1)
    if value is None:
        return None
    return contraction.MatmulOp(value, program.parameter((program.shape(value)[-1], 5))).result


def _broadcasts(shape: tuple, other: tuple) -> bool:
    pairs = zip(shape[::-1], other[::-1], strict=False)
    return len(other) <= len(shape) and all(right in (1, left) for left, right in pairs)


def _agree(shape: tuple, other: tuple, axis: int) -> bool:
    return len(shape) == len(other) and all(
        left == right for index, (left, right) in enumerate(zip(shape, other, strict=True)) if index != axis
    )


_DRAWS = (
    *(_unary, _binary, _number, _weighted, _conv, _batch_norm, _pool, _matmul, _reduce, _softmax),
    *(_transpose, _layout, _layout, _reshape, _reshape, _slice, _concat, _pad),
)


def inputs_for(program: RandomProgram) -> list[np.ndarray]:
    """Draws contents for the inputs of a program."""
    return [program.rng.standard_normal(shape).astype(np.float32) for shape in INPUTS]
