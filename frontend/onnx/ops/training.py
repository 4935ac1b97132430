"""Optimiser steps (ai.onnx.preview.training), and batch normalisation by the batch's own statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.normalization import BatchNormOp
from ....dialects.stepwell.reduction import ReduceMeanOp
from ...build import cast, dtype, emit, rank, scalar
from ...errors import AttributeFault, NodeError
from ..nodes.node import Node
from ..nodes.registry import imports

TRAINING = "ai.onnx.preview.training"

_Step = Callable[..., tuple[ir.Value, ...]]
"""One step for one tensor: returns the tensor's new value, then the new values of its accumulators."""


def _each(tensors: Sequence[ir.Value], kinds: int, step: _Step) -> tuple[ir.Value, ...]:
    """Applies one step to each tensor; the inputs are grouped by kind: all tensors, all gradients, each accumulator."""
    if not tensors or len(tensors) % kinds:
        raise NodeError(f"takes {kinds} inputs for each tensor, but {len(tensors)} are given")
    count = len(tensors) // kinds
    made = [step(*tensors[index::count]) for index in range(count)]
    return tuple(value for values in zip(*made, strict=True) for value in values)


def _sum(value: ir.Value, factor: float, other: ir.Value) -> ir.Value:
    """`value * factor + other`."""
    return emit(ew.AddOp, emit(ew.MulOp, value, scalar(factor, value)), other) if factor else other


@imports("Adagrad", domain=TRAINING)
def adagrad(node: Node, rate: ir.Value, count: ir.Value, *tensors: ir.Value) -> tuple[ir.Value, ...]:
    """Adagrad: X - R / (1 + T * decay_factor) * G / (sqrt(H) + epsilon), H the sum of all G * G."""
    decay, epsilon = node.attribute("decay_factor", 0.0), node.attribute("epsilon", 0.0)
    regularization = node.attribute("norm_coefficient", 0.0)
    wide = cast(rate, np.float64)
    aged = emit(ew.DivOp, wide, _sum(cast(count, np.float64), decay, scalar(1, wide)))

    def step(x: ir.Value, gradient: ir.Value, squares: ir.Value) -> tuple[ir.Value, ...]:
        gradient = _sum(x, regularization, gradient)
        squares = emit(ew.AddOp, squares, emit(ew.MulOp, gradient, gradient))
        root = emit(ew.AddOp, emit(ew.SqrtOp, squares), scalar(epsilon, x))
        change = emit(ew.DivOp, emit(ew.MulOp, cast(aged, dtype(x)), gradient), root)
        return emit(ew.SubOp, x, change), squares

    return _each(tensors, 3, step)


@imports("Adam", domain=TRAINING)
def adam(node: Node, rate: ir.Value, count: ir.Value, *tensors: ir.Value) -> tuple[ir.Value, ...]:
    """Adam: X - R' * V / (sqrt(H) + epsilon), with V and H running means of G and G * G.

    From the second step on R' corrects for the means' initial zeros: R * sqrt(1 - beta^T) / (1 - alpha^T).
    """
    alpha, beta, epsilon = (
        node.attribute(name, value) for name, value in (("alpha", 0.9), ("beta", 0.999), ("epsilon", 0.0))
    )
    before, after = (node.attribute(name, 0.0) for name in ("norm_coefficient", "norm_coefficient_post"))
    wide = cast(rate, np.float64)
    steps = cast(count, np.float64)
    # Powers of numbers near 1 subtracted from 1: in float32 few digits would be left.
    rest = [emit(ew.SubOp, scalar(1, wide), emit(ew.PowOp, scalar(base, wide), steps)) for base in (beta, alpha)]
    corrected = emit(ew.DivOp, emit(ew.MulOp, wide, emit(ew.SqrtOp, rest[0])), rest[1])
    rate = emit(ew.SelectOp, emit(ew.GreaterOp, steps, scalar(0, steps)), corrected, wide)

    def step(x: ir.Value, gradient: ir.Value, mean: ir.Value, squares: ir.Value) -> tuple[ir.Value, ...]:
        gradient = _sum(x, before, gradient)
        mean = _sum(mean, alpha, emit(ew.MulOp, gradient, scalar(1 - alpha, x)))
        square = emit(ew.MulOp, emit(ew.MulOp, gradient, gradient), scalar(1 - beta, x))
        squares = _sum(squares, beta, square)
        root = emit(ew.AddOp, emit(ew.SqrtOp, squares), scalar(epsilon, x))
        new = emit(ew.SubOp, x, emit(ew.MulOp, cast(rate, dtype(x)), emit(ew.DivOp, mean, root)))
        return emit(ew.MulOp, new, scalar(1 - after, x)) if after else new, mean, squares

    return _each(tensors, 4, step)


@imports("Momentum", domain=TRAINING)
def momentum(node: Node, rate: ir.Value, count: ir.Value, *tensors: ir.Value) -> tuple[ir.Value, ...]:
    """Momentum: X - R * V, or Nesterov's X - R * (G + alpha * V), with V = alpha * V + beta * G.

    In the first step beta is 1.
    """
    alpha, beta = node.attribute("alpha", 0.0), node.attribute("beta", 1.0)
    regularization, mode = node.attribute("norm_coefficient", 0.0), node.attribute("mode", "standard")
    if mode not in ("standard", "nesterov"):
        raise AttributeFault(f"attribute 'mode' must be 'standard' or 'nesterov', but is '{mode}'")
    steps = cast(count, np.float64)
    weight = emit(ew.SelectOp, emit(ew.GreaterOp, steps, scalar(0, steps)), scalar(beta, steps), scalar(1, steps))

    def step(x: ir.Value, gradient: ir.Value, velocity: ir.Value) -> tuple[ir.Value, ...]:
        gradient = _sum(x, regularization, gradient)
        velocity = _sum(velocity, alpha, emit(ew.MulOp, cast(weight, dtype(x)), gradient))
        direction = velocity if mode == "standard" else _sum(velocity, alpha, gradient)
        return emit(ew.SubOp, x, emit(ew.MulOp, cast(rate, dtype(x)), direction)), velocity

    return _each(tensors, 3, step)


def batch_norm_by_batch(
    node: Node, input: ir.Value, scale: ir.Value, bias: ir.Value, mean: ir.Value, variance: ir.Value
) -> tuple[ir.Value, ...]:
    """BatchNormalization in training: by the statistics of the input, which also update the running ones."""
    kept = node.attribute("momentum")
    # Sums of squares soon exceed the range of float16; ONNX requires float32.
    wide = cast(input, np.float32) if dtype(input).itemsize < 4 else input
    axes = tuple(axis for axis in range(rank(input)) if axis != 1)
    center = emit(ReduceMeanOp, wide, axes=axes, keepdims=True)
    distance = emit(ew.SubOp, wide, center)
    spread = emit(ReduceMeanOp, emit(ew.MulOp, distance, distance), axes=axes, keepdims=False)
    center = emit(ReduceMeanOp, wide, axes=axes, keepdims=False)
    result = emit(
        BatchNormOp,
        wide,
        *(cast(value, dtype(wide)) for value in (scale, bias)),
        center,
        spread,
        epsilon=node.attribute("epsilon"),
    )
    running = [
        cast(_sum(cast(old, dtype(wide)), kept, emit(ew.MulOp, new, scalar(1 - kept, new))), dtype(old))
        for old, new in ((mean, center), (variance, spread))
    ]
    return cast(result, dtype(input)), *running
