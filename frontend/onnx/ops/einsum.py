"""Einsum, as transposes around one matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import MulOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ...errors import NodeError, UnsupportedError
from ..build import chained, dims_of, emit, integers, joined, rank, reshaped, transposed
from ..node import Node
from ..registry import imports


@dataclass(frozen=True)
class _Term:
    """A tensor and the label of each of its dimensions."""

    value: ir.Value
    labels: str

    def without(self, kept: str) -> _Term:
        """The term summed over the labels that are not kept."""
        axes = tuple(axis for axis, label in enumerate(self.labels) if label not in kept)
        if not axes:
            return self
        summed = emit(ReduceSumOp, self.value, axes=axes, keepdims=False)
        return _Term(summed, "".join(label for label in self.labels if label in kept))

    def ordered(self, labels: str) -> ir.Value:
        """The tensor with its dimensions in the order of `labels`."""
        return transposed(self.value, [self.labels.index(label) for label in labels])

    def extents(self, labels: str) -> list[ir.Value]:
        """The extents of some dimensions, each as a list of one integer."""
        return [dims_of(self.value, axis, axis + 1) for axis in map(self.labels.index, labels)]


@imports("Einsum")
def einsum(node: Node, *inputs: ir.Value) -> ir.Value:
    """Einsum of any number of tensors, from the left; ellipses and diagonals are not supported."""
    terms, output = _parsed(node.attribute("equation").replace(" ", ""), inputs)
    while len(terms) > 1:
        left, right, *others = terms
        needed = output + "".join(term.labels for term in others)
        terms = [_product(left.without(needed + right.labels), right.without(needed + left.labels), needed), *others]
    return terms[0].without(output).ordered(output)


def _parsed(equation: str, inputs: Sequence[ir.Value]) -> tuple[list[_Term], str]:
    if "." in equation:
        raise UnsupportedError(f"the equation '{equation}' has an ellipsis, which is not supported")
    left, arrow, output = equation.partition("->")
    labels = left.split(",")
    if not arrow:
        output = "".join(sorted(label for label in set(left) - {","} if left.count(label) == 1))
    if len(labels) != len(inputs) or any(len(text) != rank(value) for text, value in zip(labels, inputs, strict=True)):
        raise NodeError(f"the equation '{equation}' does not fit the ranks {[rank(value) for value in inputs]}")
    if any(len(set(text)) < len(text) for text in (*labels, output)):
        raise UnsupportedError(f"the equation '{equation}' takes a diagonal, which is not supported")
    if not set(output) <= set(left):
        raise NodeError(f"the equation '{equation}' returns a label that no input has")
    return [_Term(value, text) for value, text in zip(inputs, labels, strict=True)], output


def _product(left: _Term, right: _Term, needed: str) -> _Term:
    """Both terms in one: labels of both that are needed are batches, the others of both are contracted.

    [batch..., rows...] x [batch..., columns...] --> [batch..., rows..., columns...]
    """
    shared = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in shared if label in needed)
    depth = "".join(label for label in shared if label not in needed)
    rows = "".join(label for label in left.labels if label not in shared)
    columns = "".join(label for label in right.labels if label not in shared)
    product = emit(MatmulOp, _matrices(left, batch, rows, depth), _matrices(right, batch, depth, columns))
    extents = [*left.extents(batch), *left.extents(rows), *right.extents(columns)]
    if len(rows) != 1 or len(columns) != 1:
        product = reshaped(product, joined(extents) if extents else integers([]))
    return _Term(product, batch + rows + columns)


def _matrices(term: _Term, batch: str, first: str, second: str) -> ir.Value:
    """The term as a batch of matrices, each group of labels one dimension."""
    value = term.ordered(batch + first + second)
    if len(first) == 1 and len(second) == 1:
        return value
    counts = [_count(term.extents(group)) for group in (first, second)]
    return reshaped(value, joined([*term.extents(batch), *counts]))


def _count(extents: Sequence[ir.Value]) -> ir.Value:
    """The product of extents, 1 of none."""
    return chained(MulOp, extents) if extents else integers([1])
