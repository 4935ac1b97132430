"""Snapshots of a model at a few concrete sizes, from which symbolic sizes are inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from ..dialects.stepwell.movement import PadOp, ResizeOp, ReverseOp, SliceOp
from ..dialects.stepwell.ranges import keep_ranges, release_ranges
from ..frontend.errors import NeedsContents, NodeError
from ..frontend.imported import ImportedModel
from ..passes.graph.bounded.snapshot import BoundedError, Snapshot, check_slices, listed, slices_of
from ..passes.graph.canonicalize import patterns
from ..passes.graph.cse import CsePass
from ..passes.graph.dce import DcePass
from ..passes.graph.fold_constants import FoldConstantsPass
from ..passes.graph.fuse_composites import FuseCompositesPass
from ..passes.graph.infer_shapes import InferShapesPass
from ..passes.graph.patterns.movement import DropIdentity
from ..passes.graph.patterns.reductions import PoolToReduce, ReduceUnitDims
from ..passes.graph.specialize_shapes import SpecializeShapesPass
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.runner import PassFailure
from ..passes.infra.state import CompileState
from ..passes.ir.rewriting import Pattern, Replacement, apply_patterns
from ..runtime.program import Shape, TensorInfo
from ..sizes.bounds import with_derived
from ..sizes.expressions import Expression, evaluate
from ..sizes.ranges import Range
from .context import compiler_context
from .source import ModelSource, PieceSource

_SAMPLES = 2
"""Number of sizes between the bounds at which the model is sampled."""

_LOWEST = 2
"""Number of smallest sizes to try for a structurally identical graph."""

_LEAST = 5
"""Smallest representative size: for fewer elements, computations often take another form."""

_MOST_ELEMENTS = 1 << 20
"""Maximum number of elements of constants that are computed from sizes."""


@dataclass
class Samples:
    """Snapshots of a model, each taken once.

    Attributes:
        source: the model.
        inputs: its inputs.
        derived: the dimensions of inputs that are computed from others.
        keeps_ranges: whether values computed from ranges, or from tensors filled with one number, are not folded.
    """

    source: ModelSource | PieceSource
    inputs: Sequence[TensorInfo]
    derived: Mapping[str, Expression]
    keeps_ranges: bool = False
    _taken: dict[tuple[int, ...], Snapshot] = field(default_factory=dict)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, Shape]:
        """Returns the inputs' shapes by name, for given sizes of the symbolic dimensions."""
        known = with_derived(sizes, self.derived)
        return {
            info.name: tuple(known[dim] if isinstance(dim, str) else dim for dim in info.shape) for info in self.inputs
        }

    def at(self, sizes: Mapping[str, int]) -> Snapshot:
        """Returns the snapshot at given sizes."""
        key = tuple(sizes.values())
        if key not in self._taken:
            self._taken[key] = _snapshot(self, sizes)
        return self._taken[key]

    def over(self, ranges: Mapping[str, Range]) -> list[Snapshot]:
        """Returns snapshots over ranges of sizes, including the smallest sizes at which the graph is the same.

        With a single element the model often computes less.

        Raises:
            BoundedError: a slice is empty at some sizes.
        """
        samples = [self._sample(sizes, ranges) for sizes in sample_sizes(ranges)]
        if len(samples) > 1 and not samples[0].is_like(samples[1]):
            samples = samples[1:]
        for name, values in ranges.items():
            if values.low < values.high and {values.high} == {values.high, *(item.sizes[name] for item in samples)}:
                raise BoundedError(f"the model has another graph at {name}={values.low}; let the range start higher")
        for step in range(_LOWEST):
            least = {name: min(values.low + step * values.step, values.high) for name, values in ranges.items()}
            if not samples or least in [sample.sizes for sample in samples]:
                break
            lowest = self.at(least)
            if lowest.is_like(samples[0]):
                samples = [*samples, lowest]
                break
        check_slices(list(self._taken.values()))
        return samples

    def _sample(self, sizes: Mapping[str, int], ranges: Mapping[str, Range]) -> Snapshot:
        try:
            return self.at(sizes)
        except _NoResult as error:
            advice = self._advice(sizes, ranges)
            raise BoundedError(f"there is no result at {listed(sizes)}, {advice}: {error}") from error

    def _advice(self, sizes: Mapping[str, int], ranges: Mapping[str, Range]) -> str:
        """Returns advice for a model without a result at some sizes: it may have one if dimensions are equal."""
        for same in _equal_dimensions(self.inputs, ranges):
            try:
                self.at({name: sizes[same.get(name, name)] for name in sizes})
            except BoundedError:
                continue
            names = " and ".join(f"'{name}' is '{other}'" for name, other in same.items())
            option = ",".join(f"{name}={other}" for name, other in same.items())
            return f"but there is one if {names}; if that always holds, declare it in `dims` ({option})"
        return "so perhaps they need a step"

    def check(self, outputs: Sequence[Sequence[Expression]], ranges: Mapping[str, Range]) -> None:
        """Checks the shapes of outputs against all snapshots, including those with another graph.

        Raises:
            BoundedError: an output has another shape.
        """
        for sample in self._taken.values():
            if any(size not in ranges[name] for name, size in sample.sizes.items()):
                continue
            expected = tuple(tuple(evaluate(item, sample.sizes) for item in shape) for shape in outputs)
            if expected != sample.shapes:
                where = listed(sample.sizes)
                raise BoundedError(f"outputs have other shapes at {where}; let the range start higher")


def _equal_dimensions(inputs: Sequence[TensorInfo], ranges: Mapping[str, Range]) -> Iterator[dict[str, str]]:
    """Guesses which dimensions always equal another one: those with the same range, first those on the same axis."""
    axes = {dim: axis for info in reversed(inputs) for axis, dim in enumerate(info.shape)}
    for kind in (lambda name: (ranges[name], axes[name]), lambda name: ranges[name]):
        first: dict[Any, str] = {}
        same = {name: first.setdefault(kind(name), name) for name, values in ranges.items() if values.low < values.high}
        if same := {name: other for name, other in same.items() if name != other}:
            yield same


class _NoResult(BoundedError):
    """Raised if a model has no result at some sizes."""


def sample_sizes(ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """Returns sizes below the upper bounds that distinguish expressions over them; all different if possible.

    Each size has two values at least. Each size but the first is once moved off the line on which all sizes grow
    together and each looks like a function of the others.
    """
    samples: list[dict[str, int]] = []
    for number in range(_SAMPLES + 1):
        sample: dict[str, int] = {}
        for position, (name, values) in enumerate(ranges.items()):
            share = (number / (_SAMPLES + 1) + 0.037 * position) if number else 0.0
            sample[name] = _typical(values, share, set(sample.values()))
        if sample not in samples and any(sample[name] != values.high for name, values in ranges.items()):
            samples.append(sample)
    known = [{name: values.high for name, values in ranges.items()}, *samples]
    varying = [name for name, values in ranges.items() if values.low < values.high]
    for name in varying:
        if name == varying[0] and len({sample[name] for sample in known}) > 1:
            continue
        aside = [item for item in _variants(known, name, ranges[name]) if item not in known]
        if aside:
            samples.append(max(aside, key=lambda item: _affine_rank([*known, item])))
            known.append(samples[-1])
    return samples


def _variants(known: Sequence[Mapping[str, int]], name: str, values: Range) -> Iterator[dict[str, int]]:
    """Yields the known sizes with one size changed."""
    typical = [_typical(values, share, set()) for share in (0.4, 0.8, 0.0)]
    for size in (*typical, values.high, values.low):
        yield from ({**sample, name: size} for sample in known)


def _affine_rank(samples: Sequence[Mapping[str, int]]) -> int:
    """Returns the dimension of the affine space that the sizes span."""
    return int(
        np.linalg.matrix_rank(
            np.array([list(sample.values()) for sample in samples], float) - list(samples[0].values())
        )
    )


def imported_at(model: Samples, context: ir.Context, shapes: Mapping[str, Shape]) -> ImportedModel:
    """Imports a model at given input shapes.

    Raises:
        BoundedError: the contents of an input decide on sizes.
        ModelError: the model cannot be read.
    """
    try:
        return model.source.import_into(context, shapes, {}, model.keeps_ranges)
    except NeedsContents as error:
        raise BoundedError(f"the contents of an input decide on sizes: {error}") from error


def to_sample(module: ir.Module, model: Samples, shapes: Mapping[str, Shape]) -> list[tuple[Shape, Shape]]:
    """Folds shape arithmetic and finds composites in a module, at any size in the same way.

    Returns:
        The shapes of sliced tensors, and those of the slices.
    """
    specialize = SpecializeShapesPass.of([shapes[info.name] for info in model.inputs])
    state = CompileState()
    if model.keeps_ranges:
        keep_ranges(module)
    Pipeline((specialize, InferShapesPass())).run(module, state=state)
    slices = slices_of(module)
    FoldConstantsPass(_MOST_ELEMENTS).run(module.operation, state)
    apply_patterns(module.operation, list(_patterns_at_any_size()), state)
    Pipeline((CsePass(), DcePass(), FuseCompositesPass(at_any_size=True))).run(module, state=state)
    release_ranges(module)
    return slices


def _patterns_at_any_size() -> Iterator[Pattern]:
    """Yields the patterns of canonicalization that apply at all sizes or at none."""
    for pattern in patterns():
        if isinstance(pattern, PoolToReduce | ReduceUnitDims):
            continue  # depends on the image's size: whether one window holds it, and whether it is one pixel
        yield _AtAnySize() if isinstance(pattern, DropIdentity) else pattern


def _snapshot(model: Samples, sizes: Mapping[str, int]) -> Snapshot:
    with compiler_context() as context, ir.Location.unknown():
        shapes = model.shapes(sizes)
        try:
            module = imported_at(model, context, shapes).module
            return Snapshot.of(module, sizes, to_sample(module, model, shapes))
        except (NodeError, PassFailure) as error:  # operands do not fit, of an ONNX node or an MLIR op
            raise _NoResult(str(error)) from error


def _typical(values: Range, share: float, taken: set[int]) -> int:
    count = (values.high - values.low) // values.step
    least = _LEAST if values.high >= 2 * _LEAST else 2
    first = min(count, max(0, -(-(least - values.low) // values.step)))
    place = min(count, first + int((count - first) * min(share, 1.0)))
    # A range may have billions of sizes: only those near each other are examined.
    near = range(max(first, place - len(taken) - 1), min(count, place + len(taken) + 1) + 1)
    choices = sorted(near, key=lambda item: (abs(item - place), item))
    sizes = [values.low + item * values.step for item in choices[: len(taken) + 1]]
    return next((size for size in sizes if size not in taken), sizes[0])


class _AtAnySize(DropIdentity):
    """transpose(x) --> x, and other identities, but no op that is an identity at one size alone"""

    def rewrite(self, op: Any) -> Replacement:
        return None if isinstance(op, SliceOp | PadOp | ResizeOp | ReverseOp) else super().rewrite(op)
