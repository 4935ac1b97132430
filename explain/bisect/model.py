"""Bisects a model: one level after the other, for the whole model or for each compiled subgraph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from ...driver.compile.compilation import phase_of
from ...driver.compile.ranges import bound_model
from ...driver.context import compiler_context
from ...driver.options import Options
from ...driver.serving.specializer import Specializer
from ...driver.setup import Setup
from ...driver.sources.onnx import OnnxSource
from ...driver.sources.source import ModelSource
from ...driver.state import state_for
from ...driver.subgraphs.subgraph_source import SubgraphSource
from ...frontend.errors import ModelError, NeedsContents
from ...frontend.imported import ImportedModel
from ...frontend.onnx.reading.model import Model
from ...passes.kernel.demand import TABLE_INPUT
from ...runtime.hybrid.loaded_plan import LoadedPlan
from ...runtime.hybrid.plan import Kinds, NativeStep
from ...runtime.hybrid.runners import SubgraphCode
from ...runtime.program import Program, Shape
from ...runtime.specialization.interfaces import ByContents, Contents, HybridModel, Known
from ...support.errors import StepwellError
from .comparison import Tolerance, noise_of
from .graph import Stage, check_graph, stages_of
from .importing import check_import, first_not_finite
from .kernels import check_kernels, check_program
from .native import NativeCompiler
from .range_view import ChosenRange, RangeView, range_of
from .references import REFERENCES, ReferenceError, default_reference, values_of
from .result import Bisection, Fault, Level

Say = Callable[[str], None]


@dataclass(frozen=True)
class Bisector:
    """Bisects models.

    Attributes:
        target: the target's name.
        reference: the source of expected values: "onnxruntime" or "numpy"; None for the first that is installed.
        rtol: the relative error that counts as rounding; None for a default for each element type.
        winograd: as in `Options`.
        dims: ranges of sizes, as in `Options`: the program for the range of the inputs' sizes is examined; {} for the
            program for their shapes alone.
        step: called with a description of each step.
    """

    target: str = "cpu"
    reference: str | None = None
    rtol: float | None = None
    winograd: bool = True
    step: Say = lambda text: None
    dims: Mapping[str, Any] = field(default_factory=dict)

    def bisect(self, source: ModelSource, inputs: Mapping[str, np.ndarray]) -> Bisection:
        """Finds the first cause of wrong numbers in a model.

        Args:
            source: the model.
            inputs: the model's inputs, by name.

        Raises:
            ModelError: the model cannot be read.
            PassFailure, PassError, CodegenError: it cannot be compiled.
            RangesError: no program can serve the ranges.
            InputError: a range is wrong, or does not contain the inputs' sizes.
        """
        chosen = range_of(source, self.dims, inputs, self.target)
        if chosen is not None:
            bisection, _ = self.bisect_whole(source, inputs, chosen)
            return bisection
        names = tuple(info.name for info in source.interface()[0])
        setup = Setup(self.target, Options(winograd=self.winograd, fallback="quiet"))
        specializer = Specializer(source, names, setup)
        shapes = tuple(inputs[name].shape for name in names)
        contents: dict[int, np.ndarray] = {}
        self.step("compiling")
        made = specializer(shapes, contents)
        while isinstance(made, ByContents):
            contents |= {position: inputs[names[position]] for position in made.positions}
            made = specializer(shapes, contents)
        if isinstance(made, Program):
            bisection, _ = self.bisect_whole(source, inputs)
            return bisection
        assert isinstance(made, LoadedPlan)
        return self._in_steps(specializer, made, [inputs[name] for name in names])

    def bisect_all(self, source: ModelSource, sets: Sequence[Mapping[str, np.ndarray]]) -> Bisection:
        """Finds the first cause of wrong numbers for any of several sets of inputs, tried in order.

        Raises:
            ModelError, PassFailure, PassError, CodegenError: see `bisect`.
        """
        total = Bisection()
        for inputs in sets:
            total.add(self.bisect(source, inputs))
            if total.fault is not None:
                break
        return total

    def _in_steps(self, specializer: Specializer, plan: LoadedPlan, values: Sequence[np.ndarray]) -> Bisection:
        total = Bisection()
        with contextlib.suppress(_Stop):
            LoadedPlan(plan.plan, _compiler(self, specializer, total)).run(values, 1)
        return total

    def bisect_whole(
        self, source: ModelSource | SubgraphSource, inputs: Mapping[str, np.ndarray], chosen: ChosenRange | None = None
    ) -> tuple[Bisection, list[np.ndarray]]:
        """Bisects a model (or a subgraph) that is compiled as a whole; also returns its expected outputs.

        With a range of sizes, the program for the range is compared with the model imported at the inputs' sizes.
        """
        tolerance, found = Tolerance(self.rtol), Bisection()
        with compiler_context() as context, ir.Location.unknown():
            imported = self._imported(source, context, inputs)
            order = [info.name for info in imported.info.inputs]
            arrays = [inputs[name] for name in order]
            if isinstance(source, SubgraphSource | OnnxSource):
                found.levels.append(level := Level("import"))
                fault = self._check_import(source, imported, inputs, tolerance, level)
                if fault is not None:
                    found.fault = fault
                    level.blame(fault)
                    fault.inputs = {name: inputs[name] for name in order}
                    return found, []
            phase = phase_of(imported.module, self.target)
            if phase not in ("import", "graph"):
                reason = f"a module in the phase '{phase}' cannot be interpreted: give one in the phase import or graph"
                raise ModelError(reason).at(model=source.name)
            self.step("the passes on the graph")
            with self._stages(imported, arrays, chosen) as stages:
                want = self._compare(stages, arrays, tolerance, found)
            _name_inputs(found.fault, order)
        return found, want

    @contextlib.contextmanager
    def _stages(
        self, imported: ImportedModel, arrays: Sequence[np.ndarray], chosen: ChosenRange | None
    ) -> Iterator[list[Stage]]:
        """Yields the imported model, and the model after every pass."""
        without = () if self.winograd else ("stepwell-choose-winograd",)
        module, parameters = imported.module, imported.parameters
        if chosen is None:
            shapes: list[Shape] = [array.shape for array in arrays]
            yield stages_of(module, parameters, shapes, self.target, without)
            return
        first = Stage("import", None, module.operation.clone(), parameters)
        with bound_model(chosen.model, chosen.bucket, self.target) as (ranged, bounds):
            view = RangeView(chosen.sizes, bounds.outputs)
            yield [first, *stages_of(ranged.module, ranged.parameters, None, self.target, without, view)]

    def _compare(
        self, stages: Sequence[Stage], arrays: Sequence[np.ndarray], tolerance: Tolerance, found: Bisection
    ) -> list[np.ndarray]:
        """Compares all stages, kernels and programs with the first stage; returns the expected outputs."""
        found.levels.append(level := Level("graph"))
        want, noise, found.fault = check_graph(stages, arrays, tolerance, level, self.step)
        native = NativeCompiler(state_for(self.target))
        if found.fault is None:
            found.levels.append(level := Level("kernel"))
            found.fault = check_kernels(stages[-1], arrays, native, tolerance, level, self.step)
        if found.fault is None:
            found.levels.append(level := Level("program"))

            def rounding() -> Sequence[np.ndarray]:
                return noise if noise is not None else noise_of(stages[0].outputs, arrays)

            found.fault = check_program(stages[-1], arrays, want, rounding, native, tolerance, level, self.step)
        if found.fault is not None:
            level.blame(found.fault)
        return want

    def _imported(
        self, source: ModelSource | SubgraphSource, context: ir.Context, inputs: Mapping[str, np.ndarray]
    ) -> Any:
        shapes = {name: array.shape for name, array in inputs.items()}
        held: dict[str, np.ndarray] = {}
        while True:
            try:
                return source.import_into(context, shapes, held)
            except NeedsContents as error:
                if not error.inputs or set(error.inputs) <= set(held):
                    raise
                held |= {name: inputs[name] for name in error.inputs}

    def _check_import(
        self,
        source: OnnxSource | SubgraphSource,
        imported: Any,
        inputs: Mapping[str, np.ndarray],
        tolerance: Tolerance,
        level: Level,
    ) -> Fault | None:
        try:
            values = self._values(source.model, inputs)
        except ReferenceError as error:
            level.note = f"not compared: {error}"
            return None
        level.not_finite = first_not_finite(source.model, inputs, values)
        return check_import(source.model, imported, inputs, values, tolerance, level, self.step)

    def _values(self, model: Model, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the model's expected values, by the given reference or else the first that can run the model."""
        first = self.reference or default_reference()
        self.step(f"every value by {first}")
        try:
            return values_of(model, inputs, first)
        except ReferenceError:
            if self.reference is not None or first == REFERENCES[-1]:
                raise
        self.step(f"every value by {REFERENCES[-1]}")
        return values_of(model, inputs, REFERENCES[-1])


def _name_inputs(fault: Fault | None, order: Sequence[str]) -> None:
    """Names the inputs of a fault as the model does; the table of a range follows them."""
    if fault is not None and fault.level in ("graph", "program"):
        names = [*order, TABLE_INPUT][: len(fault.inputs)]
        fault.inputs = dict(zip(names, fault.inputs.values(), strict=True))


class _Subgraph(HybridModel):
    """Takes the place of a subgraph's code: bisects it for its inputs, and returns the expected outputs."""

    def __init__(self, bisector: Bisector, source: SubgraphSource, names: Sequence[str], total: Bisection) -> None:
        self._bisector, self._source, self._names, self._total = bisector, source, names, total

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """Computes the outputs for some inputs."""
        inputs = dict(zip(self._names, values, strict=True))
        found, outputs = self._bisector.bisect_whole(self._source, inputs)
        self._total.levels += found.levels
        if found.fault is not None:
            self._total.fault = found.fault
            raise _Stop
        return list(outputs)

    def prepare(self, inputs: Sequence[Known], contents: Contents | None = None) -> list[Known]:
        """Predicts nothing before a run."""
        return []


class _Stop(StepwellError):
    """Raised when a fault was found, to skip the rest of the model."""


def _compiler(
    bisector: Bisector, specializer: Specializer, total: Bisection
) -> Callable[[NativeStep, Kinds], SubgraphCode]:
    def compile_subgraph(step: NativeStep, kinds: Kinds) -> SubgraphCode:
        code = specializer.compile_subgraph(step, kinds)
        subgraph = code.specialize
        assert isinstance(subgraph, Specializer) and isinstance(subgraph.source, SubgraphSource)
        source = subgraph.source

        def specialize(shapes: tuple[Shape, ...], contents: Contents, why: str) -> Program | ByContents | HybridModel:
            made = subgraph(shapes, contents, why)
            if isinstance(made, LoadedPlan):
                return LoadedPlan(made.plan, _compiler(bisector, subgraph, total))
            return made if isinstance(made, ByContents) else _Subgraph(bisector, source, step.inputs, total)

        return SubgraphCode(specialize, code.on_host, code.compile_subgraph)

    return compile_subgraph
