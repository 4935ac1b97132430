"""The backend of `torch.compile`: `torch.compile(model, backend="stepwell")`, found by its entry point."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.exported_program import _override_composite_implicit_decomp
from torch.utils._python_dispatch import _disable_current_modes

from ...driver.api import compile_piece
from ...driver.serving.torch_faults import (
    REQUESTED,
    StrictCompiler,
    around_failures,
    everything,
    raising_causes,
    reason_of,
)
from ...driver.serving.torch_specializer import report_fallbacks
from ...frontend.torch import record
from ...frontend.torch.calls import TensorCall
from ...frontend.torch.division import Division, divide
from ...frontend.torch.effects import drop_assertions, drop_options
from ...frontend.torch.live import Whole
from ...frontend.torch.program import kept_composites, python_decompositions
from ...frontend.torch.steps import CompiledPiece
from ...frontend.torch.updates import update_in_place
from ...runtime.executable import Executable
from ...runtime.host.fallback import Fallback, FallbackWarning
from ...runtime.recomputation import Recomputation
from ...support.errors import StepwellWarning
from ...support.heap import release_free_memory
from ...support.warning import warn
from ...support.wording import quantity
from ...targets.registry import target_of
from . import cache_artifacts  # noqa: F401  # entries of the cache are artifacts of torch
from .ahead import CompileGraph, is_ahead, saving
from .graph import EagerGraph, FrozenWeights, Graph
from .higher_order import repeatable
from .partition import BudgetPartition
from .release import release, release_compiler
from .settings import Settings
from .sums import merge_sums

config.allow_rnn = True  # the backend compiles LSTM and GRU, at which Dynamo would break graphs otherwise


def stepwell(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; see docs/pytorch.md.

    Args:
        module: the graph.
        example_inputs: the arguments of the first call.
        mode: the argument of `torch.compile`.
        options: "freezing", "release_weights", "memory_budget", "target", and the fields of `stepwell.Options`.

    Raises:
        OptionError: a mode or an option is unknown, or has a value that is not allowed.
    """
    compiler = _Compiler(module, example_inputs, Settings.of(mode, options))
    has_gradients = torch.is_grad_enabled() and any(
        isinstance(item, torch.Tensor) and item.requires_grad for item in example_inputs
    )
    wrapped = saving if is_ahead() else _unchanged
    backend = aot_autograd(
        fw_compiler=wrapped(compiler.forward),
        bw_compiler=wrapped(compiler.backward),
        inference_compiler=wrapped(compiler.inference),
        decompositions=python_decompositions(),
        keep_inference_input_mutations=True,
        **compiler.partition(),
    )
    # A composite that stays whole has no derivative, and no rule for batches.
    keeps_composites = not has_gradients and not _transforms(module)
    try:
        with _override_composite_implicit_decomp(kept_composites()) if keeps_composites else _without_onednn():
            compiled = backend(module, example_inputs)
    except (*REQUESTED, TorchDynamoException):
        raise
    except Exception as error:  # of a rule that decomposes an op, or of AOTAutograd
        if compiler.is_strict or is_ahead():
            raise
        return compiler.untraced(module, error)
    can_repeat = has_gradients and not (compiler.is_strict or is_ahead() or compiler.is_random)
    return repeatable(compiled, module, compiler.report_repeated) if can_repeat else compiled


def _unchanged(compile_graph: CompileGraph) -> CompileGraph:
    return compile_graph


_TRANSFORMS = frozenset({"_grad_increment_nesting", "_jvp_increment_nesting", "_vmap_increment_nesting", "grad"})
"""Functions in Dynamo's graphs with which the transforms of `torch.func` begin, and `torch.autograd.grad`."""


def _transforms(module: torch.fx.GraphModule) -> bool:
    """Returns whether a graph computes derivatives or batches itself, even where gradients are disabled around it."""
    graphs = (item.graph for item in module.modules() if isinstance(item, torch.fx.GraphModule))
    names = (getattr(node.target, "__name__", "") for graph in graphs for node in graph.nodes)
    return not _TRANSFORMS.isdisjoint(names)


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    """Lets PyTorch decompose LSTM into ops with derivatives: AOTAutograd fails at those of oneDNN's LSTM."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


stepwell.reset = record.reset  # type: ignore[attr-defined]  # torch._dynamo.reset calls it


@dataclass(frozen=True)
class _Captured:
    """A graph of AOTAutograd that is to be compiled.

    Attributes:
        module: the graph.
        name: its name in messages.
        entry: its record.
        frozen: placeholders whose contents are constants of the code, by name.
        static: the parameters and buffers among the placeholders, each with its tensor that never changes.
    """

    module: torch.fx.GraphModule
    name: str
    entry: record.GraphRecord
    frozen: Mapping[str, torch.Tensor]
    static: Mapping[str, torch.Tensor | None]


class _Compiler:
    """Compiles the graphs that AOTAutograd makes of one graph of Dynamo.

    Attributes:
        is_random: whether the forward graph draws random numbers.
    """

    def __init__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], settings: Settings) -> None:
        self._settings, self._name = settings, _name_of(module)
        self._traces: dict[int, str] = {}  # of the forward graph
        self.is_random = False
        self._is_repeated = False
        self._plan: Recomputation | None = None
        self._weights = {
            index: value
            for index, (node, value) in enumerate(zip(module.graph.find_nodes(op="placeholder"), inputs, strict=False))
            if _is_weight(node) and isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        }

    @property
    def is_strict(self) -> bool:
        """True if a graph that cannot be compiled is an error."""
        return self._settings.setup.options.fallback == "error"

    def untraced(self, module: torch.fx.GraphModule, error: Exception) -> Callable[..., Any]:
        """Reports a graph of Dynamo that cannot be traced further, and runs it in torch."""
        entry = record.add(record.GraphRecord(self._name, "untraced"))
        self._in_torch(module, self._name, entry, error)
        return module.forward

    def report_repeated(self) -> None:
        """Reports that PyTorch computes a backward pass again, because its gradients are differentiated; once."""
        if self._is_repeated:
            return
        self._is_repeated = True
        text = "PyTorch runs forward and backward pass op by op where gradients are differentiated (create_graph=True)"
        record.add(record.GraphRecord(self._name, "higher order", note=text))
        if self._settings.setup.options.fallback != "quiet":
            warn(f"{self._name}: {text}", FallbackWarning)

    def partition(self) -> dict[str, Any]:
        """The arguments of AOTAutograd by which a budget of memory divides a training step."""
        budget = self._settings.memory_budget
        if budget is None:
            return {}

        def report(plan: Recomputation) -> None:
            self._plan = plan

        def refuse(reason: str) -> None:
            warn(f"{self._name}: {reason}", StepwellWarning)

        return {"partition_fn": BudgetPartition(budget, target_of(self._settings.setup.target).machine, report, refuse)}

    def inference(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph without gradients."""
        return self._compiled(module, "inference", self._settings.freezing and not is_ahead())

    def forward(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles the forward graph of a training step, whose weights are inputs."""
        traced = (node for node in module.graph.nodes if "seq_nr" in node.meta and "stack_trace" in node.meta)
        tags = [tag for node in module.graph.nodes for tag in getattr(node.target, "tags", ())]
        self.is_random = torch.Tag.nondeterministic_seeded in tags
        self._traces = {node.meta["seq_nr"]: node.meta["stack_trace"] for node in traced}
        return self._compiled(module, "forward", False)

    def backward(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles the backward graph of a training step, whose weights are inputs."""
        for node in module.graph.nodes:
            if not node.meta.get("stack_trace") and (trace := self._traces.get(node.meta.get("seq_nr"))):
                node.meta["stack_trace"] = trace  # autograd numbers the ops of a step
        if merge_sums(module.graph):
            module.recompile()
        return self._compiled(module, "backward", False)

    def _compiled(self, module: torch.fx.GraphModule, kind: str, freezing: bool) -> Callable[..., Any]:
        name = self._name if kind == "inference" else f"{self._name}, {kind}"
        entry = record.add(record.GraphRecord(name, kind))
        entry.recomputation = self._plan if kind == "forward" else None
        start = time.perf_counter()
        static = self._static(module)
        found = {item: weight for item, weight in static.items() if weight is not None} if freezing else {}
        made = self._graph_or_eager(_Captured(module, name, entry, found, static))
        release_free_memory()
        if self._settings.release_weights:
            release_compiler()
        entry.seconds = time.perf_counter() - start
        return made

    def _graph_or_eager(self, captured: _Captured) -> Graph | EagerGraph:
        try:
            with _disable_current_modes():  # weights are real tensors
                return self._graph(captured)
        except REQUESTED:
            raise
        except Exception as error:  # an error of the compiler must not end the user's program
            if self.is_strict:
                raise
            return self._in_torch(captured.module, captured.name, captured.entry, error)

    def _graph(self, captured: _Captured) -> Graph:
        module, name, entry = captured.module, captured.name, captured.entry
        setup = self._settings.setup
        if entry.kind != "inference":
            # Sums over varying dimensions, such as those of gradients of weights, are slow, so each size is compiled
            # separately.
            setup = setup.changed(ranges=False)
        whole = torch.fx.GraphModule(module, _copied(module.graph))
        drop_assertions(whole.graph)
        drop_options(whole.graph)
        entry.in_place = update_in_place(whole.graph)
        compiler = StrictCompiler(lambda piece: compile_piece(piece, setup))

        def divided(found: Mapping[str, Fallback]) -> tuple[Division, dict[str, Executable]]:
            graph = torch.fx.GraphModule(whole, _copied(whole.graph))
            division = divide(graph, Whole(name, _ranges()), captured.frozen, found, captured.static)
            return division, {piece: compiler(program) for piece, program in division.pieces.items()}

        if self.is_strict:
            division, executables = raising_causes(divided, {})
        else:
            division, executables = around_failures(divided, whole.graph.nodes, compiler)
        report_fallbacks(name, division.fallbacks, setup)
        calls = {}
        for piece, program in division.pieces.items():
            entry.pieces[program.name] = executables[piece]
            calls[piece] = TensorCall(executables[piece], program, self._reporter_of(entry, program.name))
            division.graph.set_submodule(piece, CompiledPiece(calls[piece]))
        entry.fallbacks = division.fallbacks
        if not (frozen := captured.frozen):
            return Graph(division.graph, calls)
        released = release(frozen.values()) if self._settings.release_weights else 0
        places = {node.name: place for place, node in enumerate(module.graph.find_nodes(op="placeholder"))}
        weights = FrozenWeights({places[item]: weight for item, weight in frozen.items()})
        entry.note = f"{len(frozen)} weights are constants"
        if released:
            entry.note += f", and {released >> 20} MiB of their memory is released"

        def thawed() -> Graph | EagerGraph:
            record_of = record.add(record.GraphRecord(name, entry.kind, note="a frozen weight has changed"))
            text = "a frozen weight has changed, so that the code for constant weights is dropped"
            warn(f"{name}: {text}, and new code takes the weights as inputs", record.FreezingWarning)
            return self._graph_or_eager(replace(captured, entry=record_of, frozen={}))

        return Graph(division.graph, calls, weights, thawed)

    def _reporter_of(self, entry: record.GraphRecord, piece: str) -> Callable[[Exception], None] | None:
        """Returns what reports calls of a piece that fail; none if they are to raise errors."""
        fallback = self._settings.setup.options.fallback

        def report(error: Exception) -> None:
            text = f"{piece}: PyTorch ran the ops of a call, since its code failed: {reason_of(error)}"
            if text not in entry.note:
                entry.note = f"{entry.note}\n  {text}".strip()
                if fallback != "quiet":
                    warn(text, FallbackWarning)

        return None if self.is_strict else report

    def _in_torch(
        self, module: torch.fx.GraphModule, name: str, entry: record.GraphRecord, error: Exception
    ) -> EagerGraph:
        """Reports an error that no division of the graph avoids, and runs the graph in torch."""
        reason = reason_of(error)
        entry.note = f"runs in PyTorch, op by op: {reason}\n{''.join(traceback.format_exception(error)).rstrip()}"
        entry.fallbacks = tuple(everything(module.graph.nodes, error).values())
        text = f"{name}: all {quantity(len(entry.fallbacks), 'op')} run in PyTorch: {reason}"
        warn(f"{text}; this is a bug, please report it with the traceback in torch_report()", FallbackWarning)
        return EagerGraph(module)

    def _static(self, module: torch.fx.GraphModule) -> dict[str, torch.Tensor | None]:
        """Returns the parameters and buffers among the placeholders, each with its tensor that never changes."""
        found: dict[str, torch.Tensor | None] = {}
        for node in module.graph.find_nodes(op="placeholder"):
            source = node.meta.get("desc")
            weight = self._weights.get(source.idx) if isinstance(source, PlainAOTInput) else None
            if weight is None:
                continue
            is_written = any(_writes(user, node) for user in node.users)
            found[node.name] = None if is_written or weight.is_inference() else weight
        return found


def _writes(user: torch.fx.Node, node: torch.fx.Node) -> bool:
    target = user.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable and user.args[:1] == (node,)


def _is_weight(node: torch.fx.Node) -> bool:
    return bool((node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type"))


def _ranges() -> Mapping[Any, Any]:
    """The ranges of the symbolic sizes of the graph that is compiled now."""
    context = TracingContext.try_get()
    shapes = None if context is None or context.fake_mode is None else context.fake_mode.shape_env
    return {} if shapes is None else dict(shapes.var_to_range)


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(graph, {}))
    return copied


def _name_of(module: torch.fx.GraphModule) -> str:
    """The name of the outermost module in a graph, or of its function."""
    for node in module.graph.nodes:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        if stack:
            kind = stack[0][1]
            return kind.rpartition(".")[2] if isinstance(kind, str) else kind.__name__
        if node.meta.get("stack_trace"):
            return node.meta["stack_trace"].rstrip().splitlines()[0].rpartition(" in ")[2] or "graph"
    return "graph"
