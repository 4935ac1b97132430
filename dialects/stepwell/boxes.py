"""Non-maximum suppression: boxes that overlap no box with a higher score (ONNX NonMaxSuppression)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ..core import KernelTraits, Op, OpError, attribute, operand, optional_operand, result
from ..defined import DEFINED, first_of
from ..dims import product
from ..specs import size_of
from ..types import TensorSpec
from .shape import INDEX
from .shapes import common_dim, may_equal, require_count, require_dtype, require_rank
from .sorting import sort_keys

CORNERS = 4
"""Numbers of a box: the coordinates of two corners, or of the centre and the size."""


class SuppressOp(Op):
    """The boxes of each class that remain: those that overlap no better remaining box by more than a share.

    The boxes of a class are visited in descending order of their scores, of equal scores the first box first. A box is
    dropped if its score does not exceed `least`, or if, for any remaining box, intersection over union exceeds
    `overlap`. The last element of each row of the result is the number of remaining boxes, the indices of these come
    first, and the elements in between are undefined.

    Attributes:
        most: maximum number of remaining boxes of a class.
        is_center: whether boxes are centre x and y, width and height; else two opposite corners, y before x.

    ```mlir
    %2 = "stepwell.suppress"(%0, %1) {most = 10 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}
        : (tensor<1x50x4xf32>, tensor<1x80x50xf32>) -> tensor<1x80x11xi64>
    ```
    """

    OPERATION_NAME = "stepwell.suppress"
    KERNEL = KernelTraits("selection")
    boxes = operand("f32 [batch, box, 4]")
    scores = operand("f32 [batch, class, box]")
    limit = optional_operand("i64, a scalar: a lower maximum number of remaining boxes of a class")
    overlap = optional_operand("f32, a scalar; absent, 0")
    least = optional_operand("f32, a scalar; absent, all scores count")
    most = attribute(int)
    is_center = attribute(bool, default=False)
    result = result("i64 [batch, class, most + 1]")

    @staticmethod
    def infer(
        boxes: TensorSpec,
        scores: TensorSpec,
        limit: TensorSpec | None = None,
        overlap: TensorSpec | None = None,
        least: TensorSpec | None = None,
        *,
        most: int,
        is_center: bool,
    ) -> TensorSpec:
        """A row per class."""
        require_count(limit)
        require_dtype(np.float32, boxes=boxes, scores=scores, overlap=overlap, least=least)
        require_rank(3, boxes=boxes, scores=scores)
        require_rank(0, overlap=overlap, least=least)
        (batches, count, sides), (groups, classes, scored) = boxes.shape, scores.shape
        if not (may_equal(batches, groups) and may_equal(count, scored) and may_equal(sides, CORNERS)):
            raise OpError(f"cannot assign scores {scores} to boxes {boxes}")
        if most < 0 or (isinstance(count, int) and most > count):
            raise OpError(f"attribute 'most' must be from 0 to {count}, but is {most}")
        return TensorSpec((common_dim(batches, groups), classes, most + 1), INDEX)

    @staticmethod
    def reference(
        boxes: np.ndarray,
        scores: np.ndarray,
        limit: np.ndarray | None = None,
        overlap: np.ndarray | None = None,
        least: np.ndarray | None = None,
        *,
        most: int,
        is_center: bool,
    ) -> np.ndarray:
        """Visits the boxes of each class one by one; undefined elements are 0."""
        most_kept = most if limit is None else min(max(int(limit), 0), most)
        share = np.float32(0 if overlap is None else overlap)
        found = np.zeros((*scores.shape[:2], most + 1), INDEX)
        with np.errstate(all="ignore"):
            for batch, kind in np.ndindex(*scores.shape[:2]):
                values = scores[batch, kind]
                order = np.argsort(~sort_keys(values), kind="stable")
                sides, kept = _sides(boxes[batch], is_center), []
                for number in order:
                    if len(kept) == most_kept:
                        break
                    is_candidate = least is None or values[number] > least
                    if is_candidate and not _overlap(sides[:, number, None], sides[:, kept], share).any():
                        kept.append(number)
                found[batch, kind, : len(kept)] = kept
                found[batch, kind, most] = len(kept)
        return found

    def flops(self) -> int:
        """The number of operations of a comparison of each box with each remaining one of a class."""
        comparison = 16
        return size_of(self.scores) * comparison * max(1, ir.RankedTensorType(self.result.type).shape[-1])


@DEFINED.attach(SuppressOp)
def _remaining(op: SuppressOp, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    places = np.arange(result.shape[-1])
    return (places < result[..., -1:]) | (places == result.shape[-1] - 1)


def _sides(boxes: np.ndarray, is_center: bool) -> np.ndarray:
    """Returns the least and greatest coordinates along both axes: [4, box]."""
    first, second = boxes[:, :2].T, boxes[:, 2:].T
    if is_center:
        half = second / np.float32(2)
        return np.concatenate([first - half, first + half])
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)])


def _overlap(one: np.ndarray, others: np.ndarray, share: np.float32) -> np.ndarray:
    """Returns whether intersection over union exceeds a share, for one box and each of several others."""
    low, high = np.maximum(one[:2], others[:2]), np.minimum(one[2:], others[2:])
    areas = [np.prod(sides[2:] - sides[:2], axis=0) for sides in (one, others)]
    shared = np.prod(high - low, axis=0)
    union = areas[0] + areas[1] - shared
    return (high > low).all(axis=0) & (shared > 0) & (union > 0) & (shared / union > share)


class JoinRowsOp(Op):
    """The elements at the start of rows of different lengths, each with its coordinates.

    The last element of each row is the number of elements before it that count. A row of the result holds the
    coordinates of the row it is from, then the element. Rows after the last one are undefined.

    ```mlir
    %1 = "stepwell.join_rows"(%0) : (tensor<1x80x11xi64>) -> tensor<800x3xi64>
    ```
    """

    OPERATION_NAME = "stepwell.join_rows"
    KERNEL = KernelTraits("selection")
    input = operand("i64, of rank 1 or more; rows are along the last dimension, which is not empty")
    result = result("i64 [elements, rank]")

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """A row per element."""
        require_dtype(INDEX, input=input)
        if not input.rank or input.shape[-1] == 0:
            raise OpError(f"operand 'input' must have rows of at least one element, but is {input}")
        return TensorSpec((product((*input.shape[:-1], input.shape[-1] - 1)), input.rank), INDEX)

    @staticmethod
    def reference(input: np.ndarray) -> np.ndarray:
        """Joins row by row; undefined rows are 0."""
        rows = [(*at, item) for at in np.ndindex(*input.shape[:-1]) for item in input[at][: input[at][-1]]]
        found = np.zeros((input[..., 1:].size, input.ndim), INDEX)
        found[: len(rows)] = np.array(rows, INDEX).reshape(len(rows), input.ndim)
        return found


@DEFINED.attach(JoinRowsOp)
def _joined(op: JoinRowsOp, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    return first_of(int(operands[0][..., -1].sum()), result.shape, 0)
