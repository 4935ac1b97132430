"""Connectionist temporal classification: the probability of a text, summed over all its alignments with frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects.core import spec_of
from ...dialects.stepwell.elementwise import (
    AndOp,
    ClipOp,
    EqualOp,
    GreaterEqualOp,
    LessEqualOp,
    LessOp,
    LogOp,
    MaximumOp,
    NotOp,
    OrOp,
)
from ...dialects.stepwell.movement import GatherOp, RowOp, ScatterOp
from ...dialects.types import TensorSpec
from ...frontend.loops import Carried, Stack, counted
from ...passes.differentiation.build import (
    add,
    broadcast,
    cast,
    compare,
    concat,
    div,
    exp,
    full,
    mul,
    neg,
    part,
    reshape,
    select,
    sub,
    total,
    transpose,
    unary,
)
from ...passes.graph.values import constant, scalar_like
from ...passes.ir.values import shape_of
from ...runtime.program import Shape
from ...support.errors import OptionError
from .base import TARGET, Computed, WithReduction, weight_of

INPUT_LENGTHS, TARGET_LENGTHS = "input_lengths", "target_lengths"
"""Names of the arrays of a batch that have the number of frames and of labels of each sequence, i64 [n]."""

_I64 = np.dtype(np.int64)


@dataclass(frozen=True)
class CTC(WithReduction):
    """Connectionist temporal classification (torch.nn.functional.ctc_loss; Graves et al. 2006).

    The output has logarithms of probabilities, [frames, n, classes], as a log softmax computes them. A batch has three
    targets: `target`, i64 [n, labels], `input_lengths` and `target_lengths`, i64 [n]. Labels beyond the length of a
    target have no meaning. The gradient is that of PyTorch: for outputs that are no log softmax, it is not the
    derivative. A length or a label out of range makes the loss NaN.

    Attributes:
        blank: the class of frames without a label.
        zero_infinity: whether sequences that are too short for their targets count as 0, instead of an infinite loss.
        reduction: "mean" for the mean of losses that are each divided by the length of its target; "sum".
        batch_first: whether the output is [n, frames, classes].
    """

    blank: int = 0
    zero_infinity: bool = False
    reduction: str = "mean"
    batch_first: bool = False
    outputs: int = 1
    targets: Sequence[str] = (TARGET, INPUT_LENGTHS, TARGET_LENGTHS)

    def specs(self, outputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> Sequence[TensorSpec]:
        """Labels, and two lengths per sequence."""
        (output,) = outputs
        shape = shapes[TARGET]
        if output.rank != 3 or not 0 <= self.blank < output.shape[2]:
            raise OptionError(
                f"CTC: the output must be [frames, n, classes], with the blank {self.blank}, but is {output}"
            )
        batch = output.shape[0 if self.batch_first else 1]
        if len(shape) != 2 or shape[0] != batch:
            raise OptionError(f"CTC: the target must be [n, labels] with n = {batch}, but is {list(shape)}")
        return [TensorSpec(shape, _I64), TensorSpec((batch,), _I64), TensorSpec((batch,), _I64)]

    def compute(self, outputs: Sequence[ir.Value], targets: Sequence[ir.Value]) -> Computed:
        """The loss from the alignments up to each frame, and its gradient from these and those from each frame on."""
        order = (1, 0, 2) if self.batch_first else (0, 1, 2)
        labels, frames, lengths = targets
        lattice = _Lattice.of(transpose(outputs[0], order), labels, frames, lengths, self.blank)
        before, last = lattice.forward()
        losses = neg(_log_sum([select(lattice.is_end, last, -np.inf)]))
        losses = select(lattice.is_valid, losses, np.nan)
        is_infinite = compare(EqualOp, losses, np.inf)
        shares = self._shares(lattice)
        counted_losses = select(is_infinite, 0, losses) if self.zero_infinity else losses
        value = total(mul(counted_losses, shares), [0], keepdims=False)
        gradient = lattice.gradient(before, lattice.backward(), losses)
        gradient = mul(gradient, reshape(shares, (1, *shape_of(shares), 1)))
        if self.zero_infinity:
            gradient = select(reshape(is_infinite, (1, *shape_of(shares), 1)), 0, gradient)
        return Computed(value, weight_of(shape_of(shares)[0]), [transpose(gradient, order)])

    def _shares(self, lattice: _Lattice) -> ir.Value:
        """The factor of the loss of each sequence, [n]."""
        if self.is_sum:
            return full(1, lattice.scores, shape_of(lattice.lengths))
        lengths = cast(lattice.lengths, spec_of(lattice.scores).dtype)
        lengths = MaximumOp(lengths, scalar_like(1, lengths)).result
        return div(scalar_like(1 / shape_of(lengths)[0], lengths), lengths)


@dataclass(frozen=True)
class _Lattice:
    """The alignments of texts with frames: in each frame, a place among the labels with a blank around each.

    Attributes:
        scores: logarithms of the probabilities of classes, [frames, n, classes].
        classes: the class of each place, [n, places].
        entries: the logarithm of the probability of each place in each frame, [frames, n, places].
        skips: 0 where an alignment may come from the place before the previous one, else -inf, [n, places].
        is_end: whether an alignment may end in a place, [n, places].
        frames: number of frames of each sequence, [n, 1].
        lengths: number of labels of each target, [n].
        is_valid: whether lengths and labels are in range, [n].
    """

    scores: ir.Value
    classes: ir.Value
    entries: ir.Value
    skips: ir.Value
    is_end: ir.Value
    frames: ir.Value
    lengths: ir.Value
    is_valid: ir.Value

    @staticmethod
    def of(scores: ir.Value, labels: ir.Value, frames: ir.Value, lengths: ir.Value, blank: int) -> _Lattice:
        steps, batch, number = shape_of(scores)
        most = shape_of(labels)[1]
        places = 2 * most + 1
        inside = ClipOp(labels, minimum=0, maximum=number - 1).result
        blanks = constant(np.full((batch, most, 1), blank))
        pairs = reshape(concat([blanks, reshape(inside, (batch, most, 1))], 2), (batch, 2 * most))
        classes = concat([pairs, constant(np.full((batch, 1), blank))], 1)
        # One list of classes for all sequences.
        index = add(classes, constant(np.arange(batch).reshape(batch, 1) * number))
        rows = reshape(scores, (steps, batch * number))
        entries = GatherOp(rows, reshape(index, (batch * places,)), axis=1).result
        is_label = constant(np.arange(places) % 2 == 1)
        two_before = concat([constant(np.full((batch, 2), blank)), part(classes, (0, 0), (batch, places - 2))], 1)
        may_skip = AndOp(is_label, unary(NotOp, EqualOp(classes, two_before).result)).result
        if places < 2:
            may_skip = constant(np.zeros((batch, places), np.bool_))
        zeros = full(0, scores, (batch, places))
        column = reshape(lengths, (batch, 1))
        place, twice = constant(np.arange(places)), mul(column, 2)
        is_end = OrOp(EqualOp(place, twice).result, EqualOp(place, sub(twice, 1)).result).result
        return _Lattice(
            scores,
            classes,
            reshape(entries, (steps, batch, places)),
            select(may_skip, zeros, -np.inf),
            is_end,
            reshape(frames, (batch, 1)),
            lengths,
            _is_valid(labels, frames, lengths, steps, number),
        )

    def forward(self) -> tuple[ir.Value, ir.Value]:
        """The logarithms of the sums of all alignments that reach a place in a frame.

        Returns:
            Those in each frame, [frames, n, places], and those in the last frame of each sequence, [n, places].
        """
        steps, batch, places = shape_of(self.entries)
        start = select(constant(np.arange(places) < 2), full(0, self.scores, (batch, places)), -np.inf)

        def body(number: ir.Value, carried: Carried) -> tuple[Carried, list[Stack]]:
            sums, last = carried
            before = _log_sum([sums, _shifted(sums, 1), add(_shifted(sums, 2), self.skips)], stacked=False)
            is_first = compare(EqualOp, number, 0)
            after = add(select(is_first, start, before), RowOp(self.entries, number).result)
            last = select(EqualOp(sub(self.frames, 1), number).result, after, last)
            return [after, last], [Stack([(number, after)])]

        nothing = full(-np.inf, self.scores, (batch, places))
        (_, last), (stack,) = counted(constant(np.array(steps)), [nothing, nothing], body)
        return stack, last

    def backward(self) -> ir.Value:
        """The logarithms of the sums of all alignments from a place in a frame on, [frames, n, places]."""
        steps, batch, places = shape_of(self.entries)
        ends = select(self.is_end, full(0, self.scores, (batch, places)), -np.inf)

        def body(number: ir.Value, carried: Carried) -> tuple[Carried, list[Stack]]:
            (sums,) = carried
            frame = sub(constant(np.array(steps - 1)), number)
            following = _log_sum([sums, _shifted(sums, -1), _shifted(add(sums, self.skips), -2)], stacked=False)
            is_last = EqualOp(sub(self.frames, 1), frame).result
            after = add(select(is_last, ends, following), RowOp(self.entries, frame).result)
            return [after], [Stack([(frame, after)])]

        nothing = full(-np.inf, self.scores, (batch, places))
        _, (stack,) = counted(constant(np.array(steps)), [nothing], body)
        return stack

    def gradient(self, before: ir.Value, after: ir.Value, losses: ir.Value) -> ir.Value:
        """The probability of each class in each frame, less the share of alignments with it, [frames, n, classes].

        Frames after the end of a sequence have the gradient 0.
        """
        steps, batch, number = shape_of(self.scores)
        places = shape_of(self.classes)[1]
        # Both sums include the entry of the frame.
        sums = add(before, after)
        is_reached = unary(NotOp, compare(EqualOp, sums, -np.inf))
        share = exp(add(sub(sums, self.entries), reshape(losses, (1, batch, 1))))
        share = transpose(reshape(select(is_reached, share, 0), (steps, batch * places)), (1, 0))
        index = add(self.classes, constant(np.arange(batch).reshape(batch, 1) * number))
        rows = full(0, self.scores, (batch * number, steps))
        added = ScatterOp(rows, reshape(index, (batch * places,)), share, axis=0, reduction="add").result
        added = reshape(transpose(added, (1, 0)), (steps, batch, number))
        # An infinite loss has no shares: its gradient is NaN, as its derivative would be.
        bad = select(compare(LessOp, losses, np.inf), full(0, losses), np.nan)
        found = add(sub(exp(self.scores), added), reshape(bad, (1, batch, 1)))
        is_frame = LessOp(constant(np.arange(steps).reshape(steps, 1, 1)), reshape(self.frames, (1, batch, 1))).result
        return select(broadcast(is_frame, (steps, batch, 1)), found, 0)


def _is_valid(labels: ir.Value, frames: ir.Value, lengths: ir.Value, steps: int, number: int) -> ir.Value:
    batch, most = shape_of(labels)
    is_class = AndOp(compare(GreaterEqualOp, labels, 0), compare(LessOp, labels, number)).result
    is_unused = GreaterEqualOp(constant(np.arange(most)), reshape(lengths, (batch, 1))).result
    wrong = cast(unary(NotOp, OrOp(is_class, is_unused).result), _I64)
    found = compare(EqualOp, total(wrong, [1], keepdims=False), 0)
    for value, least, limit in ((frames, 0, steps), (lengths, 0, most)):
        found = AndOp(found, compare(GreaterEqualOp, value, least)).result
        found = AndOp(found, compare(LessEqualOp, value, limit)).result
    return found


def _shifted(values: ir.Value, by: int) -> ir.Value:
    """Values [n, places] moved to higher places, or to lower ones; -inf where none come from.

    [a, b, c] by 1 --> [-inf, a, b]
    """
    batch, places = shape_of(values)
    count = min(abs(by), places)
    missing = full(-np.inf, values, (batch, count))
    if count == places:
        return missing
    if by > 0:
        return concat([missing, part(values, (0, 0), (batch, places - count))], 1)
    return concat([part(values, (0, count), (batch, places)), missing], 1)


def _log_sum(values: Sequence[ir.Value], stacked: bool = True) -> ir.Value:
    """log(sum(exp(values))): of one value [n, places] along the places if `stacked`, else of several by element."""
    from ...dialects.stepwell.reduction import ReduceMaxOp

    if stacked:
        most = ReduceMaxOp(values[0], axes=(1,), keepdims=True).result
    else:
        most = values[0]
        for value in values[1:]:
            most = MaximumOp(most, value).result
    # Sums of nothing: -inf less -inf would be NaN.
    shift = select(compare(EqualOp, most, -np.inf), full(0, most), most)
    terms = [exp(sub(value, shift)) for value in values]
    if stacked:
        added = total(terms[0], [1])
    else:
        added = terms[0]
        for term in terms[1:]:
            added = add(added, term)
    found = add(unary(LogOp, added), shift)
    return reshape(found, shape_of(found)[:1]) if stacked else found
