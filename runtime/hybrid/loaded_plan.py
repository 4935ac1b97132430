"""Models that run in steps.

Values are numpy arrays, or represent other types: lists for sequences, None for an empty optional, dicts for maps,
object arrays for strings. A subgraph is compiled for the shapes of its inputs at run time, as whole models are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sizes.deduced import DeducedSizes
from ..host.fallback import Fallback
from ..program import Program, TensorInfo
from ..specialization.interfaces import Known, RangesAhead
from ..specialization.specialization import Specializations
from .ahead_for_ranges import AheadForRanges
from .foresight import Ahead, Foresight
from .plan import ExecutionPlan
from .runners import HostShare, NativeRunner, RunnerContext, StoredModel, SubgraphCompiler, quoted, runner_of
from .values import identities, last_uses, unshared, unshared_outputs

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder


class LoadedPlan(StoredModel):
    """A plan, ready to run. Calls may come from any number of threads at once."""

    def __init__(
        self,
        plan: ExecutionPlan,
        compile_subgraph: SubgraphCompiler | None,
        name: str = "model",
        recorder: CallRecorder | None = None,
        foresight: Foresight | None = None,
    ) -> None:
        """Loads a plan.

        Args:
            plan: the steps.
            compile_subgraph: compiles subgraphs; None without a compiler.
            name: the model's name, for messages.
            recorder: records runs; None if nothing is recorded.
            foresight: knows types of values before a run; None if unavailable.
        """
        self.plan = plan
        self._foresight = foresight
        self._missing: dict[tuple, list[tuple[NativeRunner, str]]] = {}

        def load(inner: ExecutionPlan, compile_inner: SubgraphCompiler | None, known: Foresight | None) -> LoadedPlan:
            return LoadedPlan(inner, compile_inner, name, recorder, known)

        context = RunnerContext(compile_subgraph, name, recorder, load)
        self._runners = [runner_of(step, context) for step in plan.steps]
        self._order = [
            (runner, step.inputs, step.outputs, released)
            for runner, step, released in zip(self._runners, plan.steps, last_uses(plan), strict=True)
        ]
        self._exclusive = unshared_outputs(plan)

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """Runs the steps one after the other."""
        known = dict(zip(self.plan.inputs, values, strict=True))
        given = set(identities(values))
        missing = self._missing.get(_shapes_of(values), []) if self._missing else []
        runs = [runner.runs for runner, _ in missing]
        for runner, inputs, names, released in self._order:
            results = runner.run([known[name] for name in inputs], threads)
            known.update(zip(names, results, strict=True))
            for name in released:
                del known[name]
        outputs = []
        for name in self.plan.outputs:
            value = known[name]
            outputs.append(value if name in self._exclusive and id(value) not in given else unshared(value, given))
            given.update(identities(outputs[-1:]))
        if missing:  # the run has compiled the subgraphs it reached
            left = [item for item, count in zip(missing, runs, strict=True) if item[0].runs == count]
            if left:
                self._missing[_shapes_of(values)] = left
            else:
                self._missing.pop(_shapes_of(values), None)
        return outputs

    def prepare(self, inputs: Sequence[Known], contents: Mapping[int, np.ndarray] | None = None) -> list[Known]:
        """Compiles everything that the inputs' types and shapes determine.

        Args:
            inputs: the inputs' types.
            contents: contents of some inputs, by position.

        Returns:
            The outputs' types.
        """
        names = self.plan.inputs
        values = {names[position]: array for position, array in (contents or {}).items()}
        ahead = Ahead(self.plan, self._runners, self._foresight, dict(zip(names, inputs, strict=True)), values)
        outputs = ahead.prepare()
        key = tuple(() if known.info is None else known.info.shape for known in inputs)
        self._missing[key] = [(runner, reason) for runner, reason in ahead.missing if isinstance(runner, NativeRunner)]
        return outputs

    def prepare_ranges(self, inputs: Sequence[TensorInfo | None], sizes: DeducedSizes) -> RangesAhead:
        """Compiles everything that the inputs' types and ranges of sizes determine."""
        ahead = AheadForRanges(sizes)
        return RangesAhead(ahead.prepare(self.plan, self._runners, inputs), ahead.reasons)

    @property
    def uncompiled(self) -> list[str]:
        """A reason for each subgraph without code, or without code for inputs that were prepared."""
        reasons = [reason for missing in self._missing.copy().values() for _, reason in missing]
        reported = {id(runner) for missing in self._missing.copy().values() for runner, _ in missing}
        for runner in self._natives():
            if id(runner) not in reported and not any(code.own_programs or code.steps for code in runner.codes()):
                reasons.append(f"no run has reached the subgraph that computes {quoted(runner.step.outputs)}")
        for code in self._codes():
            reasons += code.steps.uncompiled if isinstance(code.steps, LoadedPlan) else []
        return list(dict.fromkeys(reasons))

    def _natives(self) -> Iterator[NativeRunner]:
        for runner in self._runners:
            yield from [runner] if isinstance(runner, NativeRunner) else runner.bodies

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code of all subgraphs compiled so far."""
        return tuple(program for code in self._codes() for program in code.programs)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host, in execution order; those within subgraphs as far as they are known."""
        found: list[Fallback] = []
        for runner in self._runners:
            found += [] if isinstance(runner, NativeRunner) else [runner.step.fallback]
            found += dict.fromkeys(item for code in runner.codes() if code.steps for item in code.steps.fallbacks)
        return tuple(found)

    @property
    def share(self) -> HostShare:
        """The share of the runs so far that was done on the host."""
        total = HostShare()
        for runner in self._runners:
            seconds = runner.nanoseconds / 1e9
            total.seconds += seconds
            if isinstance(runner, NativeRunner):
                total.ops += len(runner.step.nodes)
            else:
                total.ops += 1
                total.host_ops += 1
                total.host_seconds += seconds
            for code in runner.codes():
                if isinstance(code.steps, LoadedPlan):
                    total.host_ops += code.steps.share.host_ops
                    total.host_seconds += code.steps.share.host_seconds
        return total

    def stored(self) -> ExecutionPlan:
        """Returns the plan with all code compiled so far, for an artefact."""
        return replace(self.plan, steps=tuple(runner.stored() for runner in self._runners))

    def _codes(self) -> Iterator[Specializations]:
        for runner in self._runners:
            yield from runner.codes()


def _shapes_of(values: Sequence[Any]) -> tuple:
    return tuple([value.shape if isinstance(value, np.ndarray) else () for value in values])
