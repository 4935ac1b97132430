"""Compiles one program for a range of sizes: samples the model at a few sizes, and compiles at the upper bounds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir

from ..dialects import dims
from ..passes.graph.bounded.bind import MoreSizes, bind_to_bounds
from ..passes.graph.bounded.checks import require_room
from ..passes.graph.bounded.snapshot import BoundedError, Snapshot, VaryingConstant
from ..passes.infra.apart import apart
from ..passes.infra.failure import ModelOp
from ..passes.infra.recorder import FailureRecorder, process_recorder
from ..passes.infra.state import CompileState
from ..passes.kernel.demand import read_table
from ..runtime.program import Program, TensorInfo
from ..sizes.bounds import Bounds, with_derived
from ..sizes.expressions import Expression
from ..sizes.ranges import Range, union_of
from ..targets.registry import backend_of
from .compilation import Compilation
from .context import compiler_context
from .failures import explained, nodes_of
from .samples import Samples, imported_at, to_sample
from .source import ModelSource, PieceSource
from .workers.pool import KernelPool, kernel_pool

__all__ = ["BoundedError", "compile_bounded"]

_MAX_ROUNDS = 8
"""Maximum number of refinement rounds."""

_LARGE = 32
"""Models with at least this many ops, counted once for each bucket, take longer to compile than a process to start.

Fewer than of static models: an op becomes kernels of several versions.
"""

_INTERVALS = 4
"""Number of intervals between the representative sizes of a range, for which tiles are chosen."""


def compile_bounded(
    compilation: Compilation,
    source: ModelSource | PieceSource,
    inputs: Sequence[TensorInfo],
    buckets: Sequence[Mapping[str, Range]],
    derived: Mapping[str, Expression],
) -> list[Program]:
    """Compiles one program for each bucket, which serves all sizes in its ranges.

    Args:
        compilation: compiles each program.
        source: the model.
        inputs: the model's inputs.
        buckets: the ranges of the symbolic dimensions, by name.
        derived: the dimensions of inputs that are computed from these.

    Raises:
        BoundedError: one program cannot serve all sizes; names the op.
        ModelError: the model cannot be read.
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM rejected a function.
    """
    model = Samples(source, inputs, derived)

    def described() -> Mapping[str, ModelOp]:
        with compiler_context() as context, ir.Location.unknown():
            shapes = model.shapes({name: values.high for name, values in buckets[-1].items()})
            return nodes_of(imported_at(model, context, shapes))

    def programs(recorder: FailureRecorder | None = None) -> list[Program]:
        return _programs(compilation, model, buckets, recorder or process_recorder())

    with explained(programs, compilation.target, described):
        return apart(programs) if compilation.setup.is_guarded else programs()


def _programs(
    compilation: Compilation,
    model: Samples,
    buckets: Sequence[Mapping[str, Range]],
    recorder: FailureRecorder | None,
) -> list[Program]:
    is_large = model.source.size * len(buckets) >= _LARGE
    processes = compilation.setup.options.codegen_threads if is_large else 1
    with kernel_pool(compilation.target, processes) as pool:
        try:
            return [*_RangeCompile(compilation, model, pool, recorder).programs(buckets)]
        except VaryingConstant:
            # Constants derived from coordinates, such as the centres of all cells of an image, may be computed at run
            # time.
            model = Samples(model.source, model.inputs, model.derived, keeps_ranges=True)
            return [*_RangeCompile(compilation, model, pool, recorder).programs(buckets)]


def _contents(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes | int]:
    """Returns a key of an array's contents; an array that repeats elements takes no memory and is not compared."""
    if not array.flags.c_contiguous:
        return array.dtype.name, array.shape, id(array)
    return array.dtype.name, array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8).data).digest()


@dataclass(frozen=True)
class _RangeCompile:
    """Compiles the programs of buckets.

    Attributes:
        compilation: compiles each program.
        model: snapshots of the model.
        pool: compiles the kernels.
        recorder: follows every pass if a failed compile is being repeated.
    """

    compilation: Compilation
    model: Samples
    pool: KernelPool
    recorder: FailureRecorder | None

    def programs(self, buckets: Sequence[Mapping[str, Range]]) -> Iterator[Program]:
        """Yields the program of each bucket."""
        known: dict[Any, np.ndarray] = {}
        for bucket in buckets:
            program = self._program(bucket, samples_for(self.model, bucket, buckets))
            # Programs that pack a weight in the same way share it.
            shared = {name: known.setdefault(_contents(array), array) for name, array in program.parameters.items()}
            yield replace(program, parameters=shared)

    def _program(self, ranges: Mapping[str, Range], samples: Sequence[Snapshot]) -> Program:
        with bound_model(self.model, ranges, samples, self.compilation.target, self.recorder) as bound:
            program = self.compilation.from_static(bound.module, bound.state, bound.nodes, self.pool)
            table = tuple(read_table(bound.module.operation))
        self.model.check(bound.extents, ranges)
        outputs = bound.extents[: len(program.outputs)]  # followed by the guards
        return replace(program, bounds=Bounds(dict(ranges), table, outputs, self.model.derived))


def samples_for(
    model: Samples, bucket: Mapping[str, Range], buckets: Sequence[Mapping[str, Range]]
) -> Sequence[Snapshot]:
    """Returns the snapshots from which the expressions of a bucket are inferred: those over all buckets if possible.

    Raises:
        BoundedError: one program cannot serve all sizes.
    """
    whole = {name: union_of([item[name] for item in buckets]) for name in bucket}
    # A size that is fixed in this bucket must not vary in the samples either.
    fixed = any(values.low == values.high and whole[name].low < whole[name].high for name, values in bucket.items())
    return model.over(bucket if fixed else whole)


@dataclass(frozen=True)
class BoundModel:
    """A model in the phase `import`, whose shapes are the upper bounds of ranges, correct for all sizes in them.

    Attributes:
        module: the module; the last input of its @main is a table of extents.
        state: the state of the compile, with the contents of the module's parameters.
        nodes: the model's nodes that it was built from.
        extents: the shapes of the outputs, as expressions over the sizes.
    """

    module: ir.Module
    state: CompileState
    nodes: Sequence[Any]
    extents: Sequence[Sequence[Expression]]


@contextmanager
def model_for_range(
    model: Samples, bucket: Mapping[str, Range], buckets: Sequence[Mapping[str, Range]], target: str
) -> Iterator[BoundModel]:
    """Imports a model for the ranges of a bucket, as its program is compiled from; see `bound_model`.

    Raises:
        BoundedError: one program cannot serve all sizes; names the op.
    """
    with ExitStack() as stack:
        try:
            samples = samples_for(model, bucket, buckets)
            bound = stack.enter_context(bound_model(model, bucket, samples, target))
        except VaryingConstant:
            model = Samples(model.source, model.inputs, model.derived, keeps_ranges=True)
            samples = samples_for(model, bucket, buckets)
            bound = stack.enter_context(bound_model(model, bucket, samples, target))
        yield bound


@contextmanager
def bound_model(
    model: Samples,
    ranges: Mapping[str, Range],
    samples: Sequence[Snapshot],
    target: str,
    recorder: FailureRecorder | None = None,
) -> Iterator[BoundModel]:
    """Imports a model for ranges of sizes, in a context that lives as long as the block.

    Samples the model at more sizes while some expression is undetermined; see `_bind_model` for the arguments.

    Raises:
        BoundedError: one program cannot serve all sizes; names the op.
    """
    for _ in range(_MAX_ROUNDS):
        with compiler_context() as context, ir.Location.unknown():
            try:
                bound = _bind_model(model, ranges, samples, context, target, recorder)
            except MoreSizes as error:
                missing = error.sizes
            else:
                yield bound
                return
        more = [model.at(sizes) for sizes in missing]
        samples = [*samples, *(sample for sample in more if sample.is_like((samples or more)[-1]))]
    raise BoundedError("numbers in the model depend on the sizes in no simple way")


def _bind_model(
    model: Samples,
    ranges: Mapping[str, Range],
    samples: Sequence[Snapshot],
    context: ir.Context,
    target: str,
    recorder: FailureRecorder | None = None,
) -> BoundModel:
    """Imports a model for ranges of sizes.

    Args:
        model: snapshots of the model.
        ranges: the ranges of the symbolic dimensions, by name.
        samples: snapshots over these ranges.
        context: the context of the module.
        target: the target's name.
        recorder: follows every pass if a failed compile is being repeated.

    Raises:
        BoundedError: one program cannot serve all sizes; names the op.
        MoreSizes: the samples do not determine all expressions.
    """
    sizes = _bounds(model, ranges, samples)
    shapes = model.shapes(sizes)
    imported = imported_at(model, context, shapes)
    module = imported.module
    to_sample(module, model, shapes)
    here = Snapshot.of(module, sizes)
    room = backend_of(target).memory_bytes()
    if room is not None:
        require_room(module, room)
    named = with_derived({name: _dim(name, values) for name, values in ranges.items()}, model.derived)
    symbols = [tuple(named[dim] if isinstance(dim, str) else dim for dim in info.shape) for info in model.inputs]
    limits = {name: (values.low, values.high, values.step) for name, values in ranges.items()}
    others = [sample for sample in samples if sample.sizes != sizes]
    state = CompileState(dict(imported.parameters), recorder=recorder)
    extents = bind_to_bounds(module, [here, *others], symbols, limits, state, typical_sizes(ranges))
    return BoundModel(module, state, imported.nodes, extents)


def _bounds(model: Samples, ranges: Mapping[str, Range], samples: Sequence[Snapshot]) -> dict[str, int]:
    """Returns the sizes to compile for: the upper bounds, or larger ones if equal bounds would merge dimensions.

    Zeros of 32 rows and zeros of 32 columns are one constant if both bounds are 32, and two at all other sizes.
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


def typical_sizes(ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """Returns representative sizes from the lower to the upper bounds, which tiles should suit."""
    found: list[dict[str, int]] = []
    for number in range(_INTERVALS + 1):
        sizes = {}
        for name, values in ranges.items():
            count = (values.high - values.low) // values.step
            sizes[name] = values.low + count * number // _INTERVALS * values.step
        if sizes not in found:
            found.append(sizes)
    return found


def _dim(name: str, values: Range) -> dims.Dim:
    return values.low if values.low == values.high else dims.symbol(name)
