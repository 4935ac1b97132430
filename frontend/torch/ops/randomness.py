"""Random choices in training: dropout, and tensors of random numbers.

The numbers are not those of PyTorch, but they have the same distributions, and are the same in each run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.dims import is_static, numbers
from ....dialects.stepwell import elementwise as ew
from ... import randomness
from ...build import cast, constant, emit, scalar, shape
from ...errors import UnsupportedError
from ...randomness import kept, normal, uniform
from ..node import AtenNode
from ..registry import imports
from .arithmetic import as_value


@imports("aten.dropout.default")
def dropout(node: AtenNode, input: ir.Value, p: float, train: bool) -> ir.Value:
    """The value itself in evaluation mode; in training, a share of its elements is 0 and the others are scaled up."""
    return dropped(node, input, p) if train and p else input


@imports("aten.native_dropout.default")
def native_dropout(node: AtenNode, input: ir.Value, p: float, train: bool | None) -> tuple[ir.Value | None, ...]:
    """The same as `dropout`, and the choice of elements, which only torch's own derivative reads."""
    return (dropped(node, input, p) if train and p else input), None


def dropped(node: AtenNode, input: ir.Value, p: float) -> ir.Value:
    """Elements set to 0 with probability p, the others divided by 1 - p.

    Raises:
        UnsupportedError: the import is not for training, or the shape is not known.
    """
    extents = shape(input)
    bits = node.importer.bits(numbers(extents)) if is_static(extents) else None
    if bits is None:
        raise UnsupportedError(
            "drops elements at random, which only `stepwell.trainer` supports: call eval() on the module"
        )
    return randomness.dropped(bits, input, p)


def _bits(node: AtenNode) -> ir.Value:
    """Random bits in the shape of the result.

    Raises:
        UnsupportedError: the import is not for training, or the shape is not known.
    """
    sizes = node.results[0].shape
    bits = node.importer.bits([int(size) for size in sizes]) if all(isinstance(size, int) for size in sizes) else None
    if bits is None:
        raise UnsupportedError("draws numbers at random, which only `stepwell.trainer` supports, for known sizes")
    return bits


def _scaled(node: AtenNode, number: ir.Value, factor: Any, offset: Any) -> ir.Value:
    """number * factor + offset; both are numbers or tensors."""
    scaled = emit(ew.MulOp, number, as_value(factor, node.dtype()))
    return emit(ew.AddOp, scaled, as_value(offset, node.dtype()))


@imports("aten.rand.default", "aten.rand_like.default")
def rand(node: AtenNode) -> ir.Value:
    """Numbers from 0 up to 1."""
    return uniform(_bits(node), node.dtype())


@imports("aten.uniform.default")
def uniform_between(node: AtenNode, from_: float, to: float) -> ir.Value:
    """Numbers between two bounds."""
    return _scaled(node, rand(node), to - from_, from_)


@imports("aten.randn.default", "aten.randn_like.default")
def randn(node: AtenNode) -> ir.Value:
    """Numbers of the standard normal distribution."""
    return normal(_bits(node), _bits(node), node.dtype())


@imports("aten.normal_functional.default", "aten.normal.Tensor_float")
@imports("aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal_with(node: AtenNode, mean: Any, std: Any) -> ir.Value:
    """Numbers of a normal distribution."""
    return _scaled(node, randn(node), std, mean)


@imports("aten.exponential.default")
def exponential(node: AtenNode, lambd: float) -> ir.Value:
    """-log(1 - u) / lambda, with u from 0 up to 1"""
    number = rand(node)
    return emit(ew.DivOp, emit(ew.LogOp, emit(ew.SubOp, scalar(1, number), number)), scalar(-lambd, number))


@imports("aten.bernoulli.p")
def bernoulli(node: AtenNode, p: float) -> ir.Value:
    """1 with a probability, else 0."""
    return cast(kept(_bits(node), p), node.dtype())


@imports("aten.randint.default", "aten.randint.low", "aten.randint_like.default", "aten.randint_like.low_dtype")
def randint(node: AtenNode, high: int, low: int = 0) -> ir.Value:
    """Integers from `low` up to, but not including, `high`: floor(bits * (high - low) / 2 ** 32) + low"""
    share = emit(ew.MulOp, cast(_bits(node), np.float64), constant(np.array((high - low) / 2**32)))
    return emit(ew.AddOp, cast(emit(ew.FloorOp, share), node.dtype()), constant(np.array(low, node.dtype())))
