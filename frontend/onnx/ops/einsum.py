"""Einsum, as transposes around matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import (
    EqualOp,
    MulOp,
    SelectOp,
)
from ....dialects.stepwell.movement import ExpandDimsOp, SqueezeOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ....support.wording import quantity
from ...build import (
    chained,
    dims_of,
    emit,
    integers,
    joined,
    known_dim,
    numbered,
    rank,
    reshaped,
    scalar,
    shape,
    tabulate,
    transposed,
)
from ...errors import NodeError
from ..nodes.node import Node
from ..nodes.registry import imports


@dataclass(frozen=True)
class _Term:
    """A tensor and the label of each of its dimensions."""

    value: ir.Value
    labels: str

    def without(self, kept: str) -> _Term:
        """Sums the term over the labels that are not in `kept`."""
        axes = tuple(axis for axis, label in enumerate(self.labels) if label not in kept)
        if not axes:
            return self
        summed = emit(ReduceSumOp, self.value, axes=axes, keepdims=False)
        return _Term(summed, "".join(label for label in self.labels if label in kept))

    def ordered(self, labels: str) -> ir.Value:
        """Transposes the tensor to the order of `labels`."""
        return transposed(self.value, [self.labels.index(label) for label in labels])

    def extents(self, labels: str) -> list[ir.Value]:
        """The extents of some dimensions, each as a list of one integer."""
        return [dims_of(self.value, axis, axis + 1) for axis in map(self.labels.index, labels)]


@imports("Einsum")
def einsum(node: Node, *inputs: ir.Value) -> ir.Value:
    """Einsum of any number of tensors, contracted from the left."""
    terms, output = _parsed(node, node.attribute("equation").replace(" ", ""), inputs)
    while len(terms) > 1:
        left, right, *others = terms
        needed = output + "".join(term.labels for term in others)
        terms = [_product(left.without(needed + right.labels), right.without(needed + left.labels), needed), *others]
    return terms[0].without(output).ordered(output)


def _parsed(node: Node, equation: str, inputs: Sequence[ir.Value]) -> tuple[list[_Term], str]:
    """The terms, with no label repeated in a term, and the labels of the output; ellipses get labels of their own."""
    left, arrow, output = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(inputs):
        raise NodeError(
            f"the equation '{equation}' has {quantity(len(texts), 'term')}, but takes {quantity(len(inputs), 'tensor')}"
        )
    free = [label for label in string.ascii_letters if label not in equation]
    counts = [rank(value) - len(text.replace("...", "")) for text, value in zip(texts, inputs, strict=True)]
    hidden = max([count for text, count in zip(texts, counts, strict=True) if "..." in text], default=0)
    if hidden > len(free) or any(
        count < 0 or (count and "..." not in text) for text, count in zip(texts, counts, strict=True)
    ):
        raise NodeError(f"the equation '{equation}' does not match the ranks {[rank(value) for value in inputs]}")
    batch = "".join(free[:hidden])
    labels = [text.replace("...", batch[hidden - count :]) for text, count in zip(texts, counts, strict=True)]
    if not arrow:
        plain = left.replace("...", "")
        output = "..." + "".join(sorted(label for label in set(plain) - {","} if plain.count(label) == 1))
    output = output.replace("...", batch)
    if len(set(output)) < len(output) or not set(output) <= set("".join(labels)):
        raise NodeError(f"the equation '{equation}' returns a label twice, or one that no input has")
    terms = [_without_diagonals(_Term(value, text)) for value, text in zip(inputs, labels, strict=True)]
    return _without_units(terms), output


def _without_diagonals(term: _Term) -> _Term:
    """[..., i, ..., i] --> [..., i, ...], the diagonal of repeated labels"""
    for label in sorted(set(term.labels)):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            size = known_dim(term.value, first, f"the extent of the repeated label '{label}'")
            rows, columns = (numbered(size, axis, rank(term.value)) for axis in (first, second))
            eye = tabulate(EqualOp, rows, columns)
            # Not a product with zeros and ones, as elements beside the diagonal may be infinite.
            only = emit(SelectOp, eye, term.value, scalar(0, term.value))
            value = emit(ReduceSumOp, only, axes=(second,), keepdims=False)
            term = _Term(value, term.labels[:second] + term.labels[second + 1 :])
    return term


def _without_units(terms: Sequence[_Term]) -> list[_Term]:
    """Drops labels of extent 1 from a term if another term has them with a greater extent: they broadcast."""
    large = {label for term in terms for label, dim in zip(term.labels, shape(term.value), strict=True) if dim != 1}
    kept: list[_Term] = []
    for term in terms:
        axes = tuple(
            axis
            for axis, (label, dim) in enumerate(zip(term.labels, shape(term.value), strict=True))
            if dim == 1 and label in large
        )
        value = emit(SqueezeOp, term.value, axes=axes) if axes else term.value
        kept.append(_Term(value, "".join(label for axis, label in enumerate(term.labels) if axis not in axes)))
    return kept


def _product(left: _Term, right: _Term, needed: str) -> _Term:
    """Multiplies two terms: shared labels are batches if they are needed later, otherwise they are contracted.

    [batch..., rows...] x [batch..., columns...] --> [batch..., rows..., columns...]
    """
    shared = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in shared if label in needed)
    depth = "".join(label for label in shared if label not in needed)
    rows = "".join(label for label in left.labels if label not in shared)
    columns = "".join(label for label in right.labels if label not in shared)
    if not depth:
        return _spread(left, right, batch, rows, columns)
    product = emit(MatmulOp, _matrices(left, batch, rows, depth), _matrices(right, batch, depth, columns))
    extents = [*left.extents(batch), *left.extents(rows), *right.extents(columns)]
    if len(rows) != 1 or len(columns) != 1:
        product = reshaped(product, joined(extents) if extents else integers([]))
    return _Term(product, batch + rows + columns)


def _spread(left: _Term, right: _Term, batch: str, rows: str, columns: str) -> _Term:
    """Multiplies two terms element by element, if nothing is contracted."""
    labels = batch + rows + columns
    factors = []
    for term in (left, right):
        value = term.ordered("".join(label for label in labels if label in term.labels))
        axes = tuple(axis for axis, label in enumerate(labels) if label not in term.labels)
        factors.append(emit(ExpandDimsOp, value, axes=axes) if axes else value)
    return _Term(emit(MulOp, *factors), labels)


def _matrices(term: _Term, batch: str, first: str, second: str) -> ir.Value:
    """Reshapes the term to a batch of matrices, with one dimension per group of labels."""
    value = term.ordered(batch + first + second)
    if len(first) == 1 and len(second) == 1:
        return value
    counts = [_count(term.extents(group)) for group in (first, second)]
    return reshaped(value, joined([*term.extents(batch), *counts]))


def _count(extents: Sequence[ir.Value]) -> ir.Value:
    """The product of extents; 1 if there are none."""
    return chained(MulOp, extents) if extents else integers([1])
