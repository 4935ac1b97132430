"""The pass `stepwell-factor-weights`: replaces weights by products of two smaller matrices, within a bound of error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.registry import view_of
from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.locations import names_in
from ...ir.rewriting import walk
from ..values import dtype_of, is_fixed, rank_of

_MOST = 0.7
"""Maximum size of both factors relative to the weight: a second kernel and the tensor in between cost time, too."""


@register
@dataclass(frozen=True)
class FactorWeightsPass(Pass):
    """Replace weights of low rank by two factors, if `Options.low_rank` gives a bound of the error.

    The rank is the least one for which the root mean square error of the weight, relative to that of its elements, is
    within the bound (Eckart and Young, "The approximation of one matrix by another of lower rank", 1936). A weight
    stays as it is unless both factors together have at most 0.7 times its elements.

    ```mlir
    %0 = "stepwell.matmul"(%x, %w) : (tensor<4x512xf32>, tensor<512x512xf32>) -> tensor<4x512xf32>
    // -->
    %1 = "stepwell.matmul"(%x, %a) : (tensor<4x512xf32>, tensor<512x32xf32>) -> tensor<4x32xf32>
    %0 = "stepwell.matmul"(%1, %b) : (tensor<4x32xf32>, tensor<32x512xf32>) -> tensor<4x512xf32>
    ```

    A convolution becomes one with fewer filters, followed by one of 1 x 1.

    Preconditions: weights are not packed yet. Nothing changes without the contents of parameters, as in `stepwell-opt`.
    """

    name = "stepwell-factor-weights"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the products and convolutions of @main."""
        if not state.low_rank or state.parameters is None:
            return
        for item in list(walk(op)):
            view = view_of(item)
            if isinstance(view, MatmulOp | ConvOp) and _is_candidate(view):
                _factor(view, state)


@dataclass(frozen=True)
class LowRank:
    """Two matrices whose product approximates a weight [K, N].

    Attributes:
        left: [K, rank].
        right: [rank, N].
        error: root mean square error relative to that of the weight's elements.
    """

    left: np.ndarray
    right: np.ndarray
    error: float

    @property
    def rank(self) -> int:
        """The number of columns of the first."""
        return len(self.right)

    @property
    def share(self) -> float:
        """The elements of both relative to those of the weight."""
        rows, columns = len(self.left), self.right.shape[1]
        return self.rank * (rows + columns) / (rows * columns)


def factored(weight: np.ndarray, bound: float) -> LowRank:
    """Returns factors of the least rank whose error is within the bound."""
    wide = weight.astype(np.float64)
    is_tall = len(wide) > wide.shape[1]
    # Eigenvectors of the smaller Gram matrix are the singular vectors of one side, and take less time than both.
    values, vectors = np.linalg.eigh(wide.T @ wide if is_tall else wide @ wide.T)
    squares = np.maximum(values, 0.0)
    total = float(squares.sum())
    lost = np.concatenate([[0.0], np.cumsum(squares)])  # of the 0, 1, 2, .. least ones
    left_out = int(np.searchsorted(lost, bound * bound * total, "right")) - 1
    left_out = min(left_out, len(squares) - 1)
    kept = vectors[:, left_out:][:, ::-1]
    left, right = (wide @ kept, kept.T) if is_tall else (kept, kept.T @ wide)
    error = float(np.sqrt(lost[left_out] / total)) if total else 0.0
    return LowRank(left.astype(weight.dtype), right.astype(weight.dtype), error)


def _is_candidate(op: MatmulOp | ConvOp) -> bool:
    if isinstance(op, ConvOp):
        return op.group == 1 and dtype_of(op.weight) == np.float32 and is_fixed(op.weight)
    is_matrix = rank_of(op.rhs) == 2 and dtype_of(op.rhs) == np.float32 and is_fixed(op.rhs)
    return is_matrix and not is_fixed(op.lhs) and not op.transpose_lhs and op.depth < 0


def _factor(op: MatmulOp | ConvOp, state: CompileState) -> None:
    assert state.parameters is not None
    value = op.weight if isinstance(op, ConvOp) else op.rhs
    weight = _contents(value, state.parameters)
    nodes = names_in(op.operation.location)
    if weight is None:
        state.missed("Factor", nodes, "the contents of the weight are not known yet")
        return
    if isinstance(op, ConvOp):
        matrix = weight.reshape(len(weight), -1).T
    else:
        matrix = weight.T if op.transpose_rhs else weight
    if not matrix.size or not np.isfinite(matrix).all():
        return
    found = factored(matrix, state.low_rank)
    size = f"{matrix.shape[0]}x{matrix.shape[1]}"
    if found.share > _MOST:
        reason = f"{size} needs rank {found.rank}, whose factors take {found.share:.2f} of its size"
        state.missed("Factor", nodes, reason)
        return
    with op.operation.location, ir.InsertionPoint(op.operation):
        made = _convolutions(op, found, state) if isinstance(op, ConvOp) else _products(op, found, state)
    message = f"{size} has rank {found.rank} with error {found.error:.2g}: {found.share:.2f} of its size"
    state.passed("Factor", nodes, message, rank=found.rank, error=found.error, share=found.share)
    op.operation.results[0].replace_all_uses_with(made)
    op.operation.erase()


def _products(op: MatmulOp, found: LowRank, state: CompileState) -> ir.Value:
    first = MatmulOp(op.lhs, _parameter(op.rhs, "left", found.left, state)).result
    return MatmulOp(first, _parameter(op.rhs, "right", found.right, state)).result


def _convolutions(op: ConvOp, found: LowRank, state: CompileState) -> ir.Value:
    kernel = tuple(ir.RankedTensorType(op.weight.type).shape)[1:]
    few = _parameter(op.weight, "left", found.left.T.reshape(found.rank, *kernel), state)
    first = ConvOp(op.input, few, None, **op.attribute_values()).result
    ones = (1,) * (len(kernel) - 1)
    wide = _parameter(op.weight, "right", found.right.T.reshape(-1, found.rank, *ones), state)
    pads = (0,) * (2 * len(ones))
    return ConvOp(first, wide, op.bias, strides=ones, pads=pads, dilations=ones, group=1, layout=op.layout).result


def _contents(value: ir.Value, parameters: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Evaluates a fixed value; None if it depends on a parameter whose contents are not known."""
    op = view_of(value.owner)
    if isinstance(op, ParameterOp):
        return parameters.get(op.name)
    if op is None:
        return None
    found: dict[ir.Value, np.ndarray] = {}
    for item in op.operation.operands:
        contents = _contents(item, parameters)
        if contents is None:
            return None
        found[item] = contents
    (result,) = op.evaluate(found.__getitem__)
    return result


def _parameter(weight: ir.Value, part: str, contents: np.ndarray, state: CompileState) -> ir.Value:
    """Adds a parameter, named after the one that a weight is computed from; a weight that is used twice gets one."""
    assert state.parameters is not None
    name = base = f"{_source(weight)}.{part}"
    number = 0
    while name in state.parameters and not np.array_equal(state.parameters[name], contents):
        number += 1
        name = f"{base}.{number}"
    state.parameters.setdefault(name, np.ascontiguousarray(contents))
    return ParameterOp(name=name, shape=contents.shape, dtype=contents.dtype).operation.result


def _source(value: ir.Value) -> str:
    op = view_of(value.owner)
    while op is not None and not isinstance(op, ParameterOp):
        op = view_of(op.operation.operands[0].owner) if len(op.operation.operands) else None
    return op.name if isinstance(op, ParameterOp) else "weight"
