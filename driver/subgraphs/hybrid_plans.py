"""Hybrid plans of a model: which of its nodes run on the host if it cannot be compiled as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.host.fallback import Fallback, FallbackWarning, summary
from ...runtime.host.step import HostNode, HostStepError
from ...runtime.hybrid.plan import ExecutionPlan, HostStep, NativeStep, PlanStep
from ...support.warning import warn
from ...support.wording import quantity
from ..options import Options
from ..sources.onnx import OnnxSource
from ..sources.source import ModelSource
from .subgraph_source import SubgraphSource

if TYPE_CHECKING:
    from ...frontend.errors import ModelError, NodeError, UnsupportedError
    from ...frontend.onnx.fallback.partition import Subgraph
    from ...frontend.onnx.reading.model import Model
    from ...lowering.llvm_to_object.codegen import CodegenError
    from ...passes.infra.base import PassError
    from ...passes.infra.runner import PassFailure


@dataclass(frozen=True)
class HybridPlanner:
    """Divides a model into subgraphs that are compiled and nodes on the host.

    Attributes:
        source: the model.
        names: the names of its inputs.
        options: the options of the compile.
        target: the target of the compile, for errors.
    """

    source: ModelSource | SubgraphSource
    names: tuple[str, ...]
    options: Options
    target: str

    @property
    def may_run_in_steps(self) -> bool:
        """True for ONNX models, unless intermediate IR or kernels of the whole model are looked at or replaced."""
        is_onnx = isinstance(self.source, SubgraphSource | OnnxSource)
        return is_onnx and self.options.reached is None and not self.options.substitutes

    @property
    def _model(self) -> Model:
        assert isinstance(self.source, SubgraphSource | OnnxSource), "only models of ONNX run in steps"
        return self.source.model

    @property
    def _was_inlined(self) -> bool:
        return isinstance(self.source, OnnxSource) and self.source.has_functions

    def is_valid(self, error: NodeError) -> bool:
        """Returns whether ONNX itself accepts the node that an error is about."""
        from ...frontend.onnx.fallback import partition

        if not self.may_run_in_steps or error.position is None:
            return False
        if self._was_inlined:
            return True  # the error recurs, with the position that the node has then
        return partition.accepts(self._model, error)

    def with_host_nodes(self, error: UnsupportedError | NodeError) -> ExecutionPlan:
        """Returns a hybrid plan with the node of an error, and others that cannot be compiled, on the host.

        Raises:
            UnsupportedError: a node can run nowhere, or none may run on the host.
        """
        from ...frontend.errors import SizedByData
        from ...frontend.onnx.fallback import partition

        if not self.may_run_in_steps:
            raise error
        model = self._model
        last = partition.sized_by_data(model, error)
        is_cut = isinstance(error, SizedByData) and any(error.value in model.proto.graph.node[i].output for i in last)
        on_host = partition.nodes_on_host(model, None if self._was_inlined or is_cut else error)
        plan = self._plan_of(partition.partition(model, on_host, last - on_host.keys()))
        repeats = any(set(step.inputs) == set(self.names) for step in plan.steps) and not is_cut
        if not plan.fallbacks and not self._was_inlined and repeats:
            raise error  # it would recur
        self._check_host(plan, error)
        return plan

    def around_failure(self, error: PassError | PassFailure | CodegenError) -> ExecutionPlan:
        """Returns a hybrid plan with the node at which the compiler failed on the host.

        If the error names no node, the model is cut into two subgraphs, one of which will fail again.
        """
        from ...frontend.onnx.fallback import partition
        from ...passes.ir.locations import names_in

        model, names = self._model, names_in(getattr(error, "location", None))
        on_host = partition.nodes_that_failed(model, names, error)
        return self._plan_of(partition.partition(model, on_host) if on_host else partition.halves(model))

    def all_on_host(self, reason: str) -> ExecutionPlan:
        """Returns a plan with every node on the host, for a given reason."""
        from ...frontend.onnx.fallback import partition

        model = self._model
        nodes = {
            index: partition.fallback_of(model, index, reason, "size")
            for index, node in enumerate(model.proto.graph.node)
            if node.op_type != "Constant"
        }
        return self._plan_of(partition.partition(model, nodes))

    def _plan_of(self, cuts: Sequence[Subgraph]) -> ExecutionPlan:
        from ...frontend.onnx.fallback import bodies, partition

        model = self._model
        steps: list[PlanStep] = []
        for cut in cuts:
            if cut.fallback is None:
                steps.append(NativeStep(cut.inputs, cut.outputs, cut.nodes))
                continue
            control = bodies.control_steps(model, cut, cut.fallback)
            host = [HostStep(cut.inputs, cut.outputs, partition.host_model(model, cut), cut.fallback)]
            steps += control or host
        plan = ExecutionPlan(self.names, tuple(output.name for output in model.proto.graph.output), tuple(steps))
        missing = plan.missing()
        if missing is not None:
            from ...frontend.errors import ModelError

            raise ModelError(f"reads or returns '{missing}', which no input, weight or node provides").at(
                model=model.name
            )
        return plan

    def report(self, plan: ExecutionPlan) -> None:
        """Reports which nodes run on the host.

        Raises:
            UnsupportedError: no node may.
        """
        found = plan.fallbacks
        if not found or self.options.fallback == "quiet":
            return
        if self.options.fallback == "error":
            from ...frontend.errors import UnsupportedError

            reason = f"{quantity(len(found), 'node')} cannot be compiled, and none may run on the host"
            raise UnsupportedError.of_nodes(reason, found, model=self.source.name, target=self.target)
        total = sum(len(step.nodes) if isinstance(step, NativeStep) else 1 for step in plan.steps)
        warn(f"{self.source.name}: {summary(found, total)}", FallbackWarning)

    def _check_host(self, plan: ExecutionPlan, error: ModelError) -> None:
        """Checks that every node on the host can run there.

        Raises:
            UnsupportedError: some cannot; the message names all of them.
        """
        missing: list[Fallback] = []
        for step in plan.steps:
            if isinstance(step, HostStep):
                try:
                    HostNode(step.model, step.fallback.node).check()
                except HostStepError:
                    missing.append(step.fallback)
        if missing:
            from ...frontend.errors import UnsupportedError

            reason = "has nodes that can neither be compiled nor run on the host"
            raise UnsupportedError.of_nodes(reason, missing, model=self.source.name, target=self.target) from error
