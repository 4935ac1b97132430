"""Compiles one program for a range of sizes: imports the model with symbolic sizes, and compiles it at their bounds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...dialects.dims import Dim, limits_of, named
from ...dialects.types import TensorSpec, tensor_type
from ...frontend.errors import NeedsContents, NeedsShapes, NodeError
from ...frontend.imported import ImportedModel
from ...passes.infra.failure import ModelOp
from ...passes.infra.runner import PassFailure
from ...passes.ir.functions import body_of, main_function, update_type
from ...passes.ranges.errors import RangesError
from ...passes.ranges.pipelines import ranges_pipeline
from ...runtime.program import Program, TensorInfo
from ...sizes.algebra import UndecidedError
from ...sizes.assumptions import assuming
from ...sizes.bounds import Bounds, with_derived
from ...sizes.expressions import Expression
from ...sizes.ranges import Range
from ...targets.registry import backend_of
from ..child_process import in_child_process
from ..context import compiler_context
from ..failure_recorder import FailureRecorder, process_recorder
from ..failures.reproducers import explained, nodes_of
from ..sources.source import ModelSource
from ..state import state_for
from ..subgraphs.subgraph_source import SubgraphSource
from ..workers.pool import KernelPool, kernel_pool
from .compilation import Compilation
from .program import bounds_of

__all__ = ["RangesError", "compile_ranged"]

_LARGE = 32
"""Number of ops, counted once for each bucket, from which a model takes longer to compile than a process to start.

It is lower than for static models, because an op becomes kernels of several versions.
"""


def compile_ranged(
    compilation: Compilation,
    source: ModelSource | SubgraphSource,
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
        RangesError: one program cannot serve all sizes; names the op.
        ModelError: the model cannot be read.
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM rejected a function.
    """
    model = RangedModel(source, inputs, derived)

    def described() -> Mapping[str, ModelOp]:
        with compiler_context(compilation.loads_all) as context, ir.Location.unknown():
            return nodes_of(model.imported(context, buckets[-1]))

    def programs(recorder: FailureRecorder | None = None) -> list[Program]:
        return _programs(compilation, model, buckets, recorder or process_recorder())

    with explained(programs, compilation.target, described):
        return in_child_process(programs, compilation.reporter) if compilation.setup.is_guarded else programs()


def _programs(
    compilation: Compilation,
    model: RangedModel,
    buckets: Sequence[Mapping[str, Range]],
    recorder: FailureRecorder | None,
) -> list[Program]:
    is_large = model.source.size * len(buckets) >= _LARGE
    processes = compilation.setup.options.codegen_threads if is_large else 1
    with kernel_pool(processes, may_start=compilation.plugins == "") as pool:
        return [*_RangeCompile(compilation, model, pool, recorder).programs(buckets)]


def _contents(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes | int]:
    """Returns a key of an array's contents; the identity of an array that repeats elements, which takes no memory."""
    if not array.flags.c_contiguous:
        return array.dtype.name, array.shape, id(array)
    return array.dtype.name, array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8).data).digest()


@dataclass(frozen=True)
class RangedModel:
    """A model to compile for ranges of sizes.

    Attributes:
        source: the model.
        inputs: its inputs.
        derived: the dimensions of inputs that are computed from others.
    """

    source: ModelSource | SubgraphSource
    inputs: Sequence[TensorInfo]
    derived: Mapping[str, Expression]

    def shapes(self, sizes: Mapping[str, Dim]) -> dict[str, tuple[Any, ...]]:
        """Returns the inputs' shapes by name, for given sizes of the symbolic dimensions."""
        known = with_derived(sizes, self.derived)
        return {
            info.name: tuple(known[dim] if isinstance(dim, str) else dim for dim in info.shape) for info in self.inputs
        }

    @contextmanager
    def assumed(self, ranges: Mapping[str, Range]) -> Iterator[dict[str, tuple[Any, ...]]]:
        """Yields the inputs' symbolic shapes, whose sizes are in these ranges inside of the context."""
        with assuming(limits_of(_limits(ranges))):
            yield self.shapes({name: _dim(name, values) for name, values in ranges.items()})

    def imported(self, context: ir.Context, ranges: Mapping[str, Range]) -> ImportedModel:
        """Imports the model for ranges of sizes, in the phase `import`.

        Raises:
            RangesError: the contents of an input decide on sizes, or an op can't take symbolic sizes.
            ModelError: the model cannot be read.
        """
        try:
            with self.assumed(ranges) as shapes:
                imported = self.source.import_into(context, shapes, {})
        except NeedsContents as error:
            raise RangesError(f"the contents of an input decide on sizes: {error}") from error
        except (NodeError, NeedsShapes) as error:
            raise RangesError(str(error)) from error
        discardable.RANGES.write(imported.module.operation, _limits(ranges))
        self._bind_inputs(main_function(imported.module.operation), shapes)
        return imported

    def _bind_inputs(self, main: ir.Operation, shapes: Mapping[str, tuple[Any, ...]]) -> None:
        """Gives the arguments of @main their symbolic shapes, which the text of a module does not have."""
        for argument, info in zip(body_of(main).arguments, self.inputs, strict=True):
            argument.set_type(tensor_type(TensorSpec(shapes[info.name], info.dtype)))
        update_type(main)


@dataclass(frozen=True)
class _RangeCompile:
    """Compiles the programs of buckets.

    Attributes:
        compilation: compiles each program.
        model: the model.
        pool: compiles the kernels.
        recorder: follows every pass if a failed compile is being repeated.
    """

    compilation: Compilation
    model: RangedModel
    pool: KernelPool
    recorder: FailureRecorder | None

    def programs(self, buckets: Sequence[Mapping[str, Range]]) -> Iterator[Program]:
        """Yields the program of each bucket."""
        known: dict[Any, np.ndarray] = {}
        for bucket in buckets:
            program = self._program(bucket)
            # Programs that pack a weight in the same way share it.
            shared = {name: known.setdefault(_contents(array), array) for name, array in program.parameters.items()}
            yield replace(program, parameters=shared)

    def _program(self, ranges: Mapping[str, Range]) -> Program:
        with compiler_context(self.compilation.loads_all) as context, ir.Location.unknown():
            imported = self.model.imported(context, ranges)
            state = self.compilation.state(parameters=dict(imported.parameters), recorder=self.recorder)
            with undecided():
                program, bounds = self.compilation.for_ranges(imported.module, state, imported.nodes, self.pool)
        outputs = bounds.outputs[: len(program.outputs)]  # followed by the guards
        # An attribute does not keep the order in which the user names the sizes.
        ordered = {name: bounds.ranges[name] for name in ranges}
        return replace(program, bounds=replace(bounds, ranges=ordered, outputs=outputs, derived=self.model.derived))


@contextmanager
def bound_model(model: RangedModel, ranges: Mapping[str, Range], target: str) -> Iterator[tuple[ImportedModel, Bounds]]:
    """Imports a model for ranges of sizes and binds it to them, in a context that lives as long as the block.

    The module is in the phase `import`, and has the shapes at the upper bounds.

    Raises:
        RangesError: one program cannot serve all sizes; names the op.
    """
    with compiler_context() as context, ir.Location.unknown():
        imported = model.imported(context, ranges)
        state = state_for(target, parameters=dict(imported.parameters))
        with undecided():
            ranges_pipeline(backend_of(target).memory_bytes() or 0).run(imported.module, verify=False, state=state)
        yield imported, bounds_of(imported.module.operation)


@contextmanager
def undecided() -> Iterator[None]:
    """Raises `RangesError` for the failure of a pass whose reason is that sizes vary."""
    try:
        yield
    except PassFailure as error:
        if isinstance(error.__cause__, RangesError):
            raise error.__cause__ from error
        if isinstance(error.__cause__, UndecidedError):
            raise RangesError(error.reason, error.location) from error
        raise


def _limits(ranges: Mapping[str, Range]) -> dict[str, tuple[int, int, int]]:
    return {name: (values.low, values.high, values.step) for name, values in ranges.items()}


def _dim(name: str, values: Range) -> Dim:
    return values.low if values.low == values.high else named(name)
