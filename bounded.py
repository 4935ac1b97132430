"""One program for a range of sizes: the model is looked at in a few sizes, and compiled at the upper bounds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from mlir import ir

from .compilation import Compilation
from .dialects import dims
from .dialects.stepwell.movement import PadOp, ResizeOp, ReverseOp, SliceOp
from .dialects.stepwell.ranges import keep_ranges
from .failures import explained, nodes_of
from .frontend.errors import NeedsContents, NodeError
from .frontend.onnx.importer import ImportedModel
from .lowering.context import compiler_context
from .lowering.target import Target
from .passes.apart import apart
from .passes.failure import ModelOp
from .passes.graph.bounded.bind import MoreSizes, bind_to_bounds
from .passes.graph.bounded.checks import require_room
from .passes.graph.bounded.snapshot import BoundedError, Snapshot, VaryingConstant, check_slices, listed, slices_of
from .passes.graph.canonicalize import patterns
from .passes.graph.cse import CsePass
from .passes.graph.dce import DcePass
from .passes.graph.fold_constants import FoldConstantsPass
from .passes.graph.fuse_composites import FuseCompositesPass
from .passes.graph.infer_shapes import InferShapesPass
from .passes.graph.patterns.movement import DropIdentity
from .passes.graph.specialize_shapes import SpecializeShapesPass
from .passes.kernel.demand import read_table
from .passes.pipeline import Pipeline
from .passes.rewriting import Replacement, apply_patterns
from .runtime import host
from .runtime.program import Program, Shape, TensorInfo
from .runtime.sizes import Bounds, Expression, Range, evaluate, union_of
from .source import ModelSource, PieceSource

__all__ = ["BoundedError", "compile_bounded", "sample_sizes"]

_SAMPLES = 2
"""In so many sizes between the bounds a model is looked at."""

_LOWEST = 2
"""At so many of the least sizes it is tried whether the model computes what it does elsewhere."""

_ROUNDS = 8
"""So often more sizes are looked at."""

_TYPICAL = 4
"""Into so many steps a range is cut, to choose tiles for the sizes between."""

_LEAST = 5
"""Smaller samples are not typical: what is one of few is often computed in another way."""

_MOST_ELEMENTS = 1 << 20
"""Larger constants are not computed from sizes."""


def compile_bounded(
    compilation: Compilation,
    source: ModelSource | PieceSource,
    inputs: Sequence[TensorInfo],
    buckets: Sequence[Mapping[str, Range]],
) -> list[Program]:
    """One program for each of some buckets: for all sizes in its ranges.

    Raises:
        BoundedError: the model has something that one program cannot do for all of them; names the op.
        ModelError: the model cannot be read.
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM refused a function.
    """

    def described() -> Mapping[str, ModelOp]:
        with compiler_context() as context, ir.Location.unknown():
            shapes = _shapes(inputs, {name: values.high for name, values in buckets[-1].items()})
            return nodes_of(_imported(source, context, shapes))

    def programs() -> list[Program]:
        return _programs(compilation, source, inputs, buckets)

    with explained(programs, compilation.target, described):
        return apart(programs) if compilation.guarded else programs()


def _programs(
    compilation: Compilation,
    source: ModelSource | PieceSource,
    inputs: Sequence[TensorInfo],
    buckets: Sequence[Mapping[str, Range]],
) -> list[Program]:
    try:
        return _programs_as(compilation, _Samples(source, inputs), buckets)
    except VaryingConstant:
        # Numbers of places, as of the centres of all cells of an image, may be computed while the model runs.
        return _programs_as(compilation, _Samples(source, inputs, keep_ranges), buckets)


def _programs_as(compilation: Compilation, model: _Samples, buckets: Sequence[Mapping[str, Range]]) -> list[Program]:
    whole = {name: union_of([bucket[name] for bucket in buckets]) for name in buckets[0]}
    programs, known = [], {}
    for bucket in buckets:
        # What one bucket has fixed must not vary in the samples either.
        fixed = tuple(
            name for name, values in bucket.items() if values.low == values.high and whole[name].low < whole[name].high
        )
        program = _compile(compilation, model, bucket, model.over(bucket if fixed else whole))
        # Programs that pack a weight in the same way have it once.
        shared = {name: known.setdefault(_contents(array), array) for name, array in program.parameters.items()}
        programs.append(replace(program, parameters=shared))
    return programs


@dataclass
class _Samples:
    """What a model says at some sizes, each of which is looked at once.

    Attributes:
        source: the model.
        inputs: its inputs.
        folding: entered while constants are computed.
    """

    source: ModelSource | PieceSource
    inputs: Sequence[TensorInfo]
    folding: Callable[[], AbstractContextManager[None]] = nullcontext
    _taken: dict[tuple[int, ...], Snapshot] = field(default_factory=dict)

    def at(self, sizes: Mapping[str, int]) -> Snapshot:
        """What the model says at given sizes."""
        key = tuple(sizes.values())
        if key not in self._taken:
            self._taken[key] = _snapshot(self, sizes)
        return self._taken[key]

    def over(self, ranges: Mapping[str, Range]) -> list[Snapshot]:
        """What the model says at some sizes, and at the least at which it computes what it does elsewhere.

        With a single element there is often less to do.

        Raises:
            BoundedError: a slice is empty at some sizes.
        """
        samples = [self.at(sizes) for sizes in sample_sizes(ranges)]
        if len(samples) > 1 and not samples[0].is_like(samples[1]):
            samples = samples[1:]
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

    def check(self, outputs: Sequence[Sequence[Expression]], ranges: Mapping[str, Range]) -> None:
        """Checks the shapes of outputs against all that was looked at, also where the graph is another one.

        Raises:
            BoundedError: one has another shape.
        """
        for sample in self._taken.values():
            if any(size not in ranges[name] for name, size in sample.sizes.items()):
                continue
            said = tuple(tuple(evaluate(item, sample.sizes) for item in shape) for shape in outputs)
            if said != sample.shapes:
                where = listed(sample.sizes)
                raise BoundedError(f"the model computes something else at {where}; let the range start higher")


def _contents(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes | int]:
    """Tells arrays apart by what they hold; those that repeat elements, which take no memory, are left as they are."""
    if not array.flags.c_contiguous:
        return array.dtype.name, array.shape, id(array)
    return array.dtype.name, array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8).data).digest()


def _compile(
    compilation: Compilation, model: _Samples, ranges: Mapping[str, Range], samples: Sequence[Snapshot]
) -> Program:
    for _ in range(_ROUNDS):
        try:
            return _compile_as(compilation, model, ranges, samples)
        except MoreSizes as error:
            more = [model.at(sizes) for sizes in error.sizes]
            samples = [*samples, *(sample for sample in more if sample.is_like((samples or more)[-1]))]
    raise BoundedError("numbers depend on the sizes in no simple way")


def _compile_as(
    compilation: Compilation, model: _Samples, ranges: Mapping[str, Range], samples: Sequence[Snapshot]
) -> Program:
    source, inputs = model.source, model.inputs
    sizes = _bounds(model, ranges, samples)
    with compiler_context() as context, ir.Location.unknown():
        shapes = _shapes(inputs, sizes)
        with model.folding():
            imported = _imported(source, context, shapes)
            module = imported.module
            _to_sample(module, model, shapes)
        here = Snapshot.of(module, sizes)
        if not Target.parse(compilation.target).is_gpu:
            require_room(module, host.memory_bytes())
        symbols = [tuple(_dim(dim, ranges) if isinstance(dim, str) else dim for dim in info.shape) for info in inputs]
        limits = {name: (values.low, values.high, values.step) for name, values in ranges.items()}
        others = [sample for sample in samples if sample.sizes != sizes]
        bounds = bind_to_bounds(module, [here, *others], symbols, limits, typical_sizes(ranges))
        program = compilation.from_static(module, imported.parameters, imported.nodes)
        table = tuple(read_table(module.operation))
    model.check(bounds.outputs, ranges)
    return replace(program, bounds=Bounds(dict(ranges), table, bounds.outputs))


def _bounds(model: _Samples, ranges: Mapping[str, Range], samples: Sequence[Snapshot]) -> dict[str, int]:
    """The sizes of what the program has room for: the upper bounds, or more where two of them are alike by chance.

    Zeros of 32 rows and zeros of 32 columns are one constant where both bounds are 32, and two at all other sizes.
    """
    bounds = {name: values.high for name, values in ranges.items()}
    apart: dict[str, int] = {}
    for name, values in ranges.items():
        size = values.high
        while size in apart.values() and values.low < values.high:
            size += values.step
        apart[name] = size
    if apart == bounds or not samples or model.at(bounds).is_like(samples[0]):
        return bounds
    return apart if model.at(apart).is_like(samples[0]) else bounds


def sample_sizes(ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """Sizes below the upper bounds that tell expressions over them apart: no two alike, if that is possible."""
    samples: list[dict[str, int]] = []
    for number in range(_SAMPLES + 1):
        sample: dict[str, int] = {}
        for position, (name, values) in enumerate(ranges.items()):
            share = (number / (_SAMPLES + 1) + 0.037 * position) if number else 0.0
            sample[name] = _typical(values, share, set(sample.values()))
        if sample not in samples and any(sample[name] != values.high for name, values in ranges.items()):
            samples.append(sample)
    return samples


def typical_sizes(ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """Sizes from the lower to the upper bounds, which tiles should suit."""
    found: list[dict[str, int]] = []
    for number in range(_TYPICAL + 1):
        sizes = {}
        for name, values in ranges.items():
            count = (values.high - values.low) // values.step
            sizes[name] = values.low + count * number // _TYPICAL * values.step
        if sizes not in found:
            found.append(sizes)
    return found


def _typical(values: Range, share: float, taken: set[int]) -> int:
    count = (values.high - values.low) // values.step
    least = _LEAST if values.high >= 2 * _LEAST else 2
    first = min(count, max(0, -(-(least - values.low) // values.step)))
    place = min(count, first + int((count - first) * min(share, 1.0)))
    # A range may be of thousands of millions of sizes: those that are looked at lie near each other.
    near = range(max(first, place - len(taken) - 1), min(count, place + len(taken) + 1) + 1)
    choices = sorted(near, key=lambda item: (abs(item - place), item))
    sizes = [values.low + item * values.step for item in choices[: len(taken) + 1]]
    return next((size for size in sizes if size not in taken), sizes[0])


def _snapshot(model: _Samples, sizes: Mapping[str, int]) -> Snapshot:
    with compiler_context() as context, ir.Location.unknown(), model.folding():
        shapes = _shapes(model.inputs, sizes)
        try:
            module = _imported(model.source, context, shapes).module
        except NodeError as error:
            raise BoundedError(
                f"there is no result at {listed(sizes)}, so perhaps they need a step: {error}"
            ) from error
        return Snapshot.of(module, sizes, _to_sample(module, model, shapes))


def _imported(source: ModelSource | PieceSource, context: ir.Context, shapes: Mapping[str, Shape]) -> ImportedModel:
    try:
        return source.import_into(context, shapes, {})
    except NeedsContents as error:
        raise BoundedError(f"what an input holds decides on sizes: {error}") from error


def _to_sample(module: ir.Module, model: _Samples, shapes: Mapping[str, Shape]) -> list[tuple[Shape, Shape]]:
    """Takes a module to where shape arithmetic is constant, and composites are found, at any size in the same way.

    Returns:
        The shapes of what is sliced, and those of the slices.
    """
    specialize = SpecializeShapesPass.of([shapes[info.name] for info in model.inputs])
    Pipeline((specialize, InferShapesPass())).run(module)
    slices = slices_of(module)
    FoldConstantsPass(_MOST_ELEMENTS).run(module.operation)
    apply_patterns(module.operation, [_AtAnySize() if isinstance(item, DropIdentity) else item for item in patterns()])
    Pipeline((CsePass(), DcePass(), FuseCompositesPass(at_any_size=True))).run(module)
    return slices


class _AtAnySize(DropIdentity):
    """transpose(x) --> x, and others that do nothing, but not what may do nothing at one size alone"""

    def rewrite(self, op: Any) -> Replacement:
        return None if isinstance(op, SliceOp | PadOp | ResizeOp | ReverseOp) else super().rewrite(op)


def _shapes(inputs: Sequence[TensorInfo], sizes: Mapping[str, int]) -> dict[str, Shape]:
    return {info.name: tuple(sizes[dim] if isinstance(dim, str) else dim for dim in info.shape) for info in inputs}


def _dim(name: str, ranges: Mapping[str, Range]) -> dims.Dim:
    values = ranges[name]
    return values.low if values.low == values.high else dims.symbol(name)
