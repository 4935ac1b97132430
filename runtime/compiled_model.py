"""A model and its code, before it is callable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..sizes.ranges import Range
from ..support.short_repr import short_repr
from .artefact.reader import Artefact, ArtefactSource
from .hybrid.loaded_plan import LoadedPlan
from .program import Program, TensorInfo
from .specialization.interfaces import HybridModel, Specialize

if TYPE_CHECKING:
    from .execution.recorder import CallRecorder


@short_repr
@dataclass(frozen=True)
class CompiledModel:
    """The parts that an `Executable` makes callable.

    Attributes:
        inputs: the model's inputs, in order.
        outputs: the model's outputs, in order.
        programs: the code compiled so far.
        specialize: compiles for further input shapes, given in input order, and contents; None without a compiler.
        name: the model's name.
        source: the model itself, for `save`; None if it cannot be stored in one file.
        steps: the steps of the model if some of its nodes run on the host.
        ranges: the sizes that calls may have, by the names of dynamic dimensions; if empty, those that the programs
            for ranges of sizes serve.
        unranged: why no program serves the requested ranges of sizes; empty if one does, or none were requested.
    """

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    programs: Sequence[Program] = ()
    specialize: Specialize | None = None
    name: str = "model"
    source: ArtefactSource | None = None
    steps: HybridModel | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)
    unranged: str = ""

    @staticmethod
    def of(
        stored: Artefact,
        specialize: Specialize | None = None,
        source: ArtefactSource | None = None,
        recorder: CallRecorder | None = None,
    ) -> CompiledModel:
        """Returns the model of an artefact.

        Args:
            stored: the artefact.
            specialize: compiles further code; None without a compiler.
            source: the model itself, for `save`.
            recorder: records runs of its steps.
        """
        steps = None
        if stored.plan is not None:
            compile_subgraph, foresight = (
                getattr(specialize, name, None) for name in ("compile_subgraph", "foresight")
            )
            steps = LoadedPlan(stored.plan, compile_subgraph, stored.name, recorder, foresight)
        return CompiledModel(stored.inputs, stored.outputs, stored.programs, specialize, stored.name, source, steps)
