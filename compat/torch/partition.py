"""Partition of the joint graph of a training step into forward and backward graph, within a budget of memory.

Values that the backward graph needs are saved, or computed again in it, as `memory_budget` allows.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch._functorch import partitioners
from torch.utils import flop_counter

from ...machines.machine import Machine
from ...passes.differentiation.step_plan import PRODUCTS, RepeatedOps, StepOp, StepPlan, nanoseconds
from ...runtime.recomputation import ForwardValue, Recomputation
from ...support.short_repr import size_of

_Node = torch.fx.Node
Modules = tuple[torch.fx.GraphModule, torch.fx.GraphModule]

_REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "var_mean", "_softmax", "_log_softmax", "native_layer_norm")
_NORMS = ("native_batch_norm", "_native_batch_norm_legit_functional", "native_group_norm", "cumsum")


@dataclass
class BudgetPartition:
    """A function that divides joint graphs, as `partition_fn` of AOTAutograd.

    Attributes:
        budget: bytes of the values of a step, or, up to 1, a fraction of what they take if none is computed again.
        machine: the machine by whose rates times are estimated.
        report: is given what is kept and what is computed again.
        refuse: is given the reason why the budget is not met.
    """

    budget: int | float
    machine: Machine
    report: Callable[[Recomputation], None]
    refuse: Callable[[str], None]

    def __call__(self, joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **more: Any) -> Modules:
        """Divides a graph; see `torch._functorch.partitioners.default_partition`."""
        joint.graph.eliminate_dead_code()
        static = more.get("static_lifetime_input_indices") or []
        info = partitioners.classify_nodes(joint, static, num_fwd_outputs)
        reason = _obstacle(joint.graph) if info.required_bw_nodes else "it has no backward pass"
        if reason is not None:
            self.refuse(f"memory_budget has no effect on a graph, since {reason}")
            return partitioners.default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)
        results = cast(Sequence[Any], joint.graph.output_node().args[0])
        gradients = [item for item in results[num_fwd_outputs:] if isinstance(item, _Node)]
        step = _Step(joint.graph, set(info.required_fw_nodes), gradients, self.machine)
        choice, allowed, without = self._chosen(step)
        self.report(step.recomputation(choice, allowed, without))
        forward, backward = partitioners._extract_fwd_bwd_modules(
            joint,
            step.saved(choice.ops),
            saved_sym_nodes=[],
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_nodes=info.static_lifetime_input_nodes,
        )
        for module in (forward, backward):
            module.graph.eliminate_dead_code(is_impure_node=partitioners.is_not_collective)
        return forward, partitioners.reordering_to_mimic_autograd_engine(backward)

    def _chosen(self, step: _Step) -> tuple[RepeatedOps, int, int]:
        """The cheapest choice within the budget, or that of the smallest peak; the budget; the peak without choices."""
        choices = step.plan.choices()
        without = choices[0].peak
        budget = self.budget
        allowed = budget if isinstance(budget, int) and budget > 1 else int(budget * without)
        choice = next((item for item in choices if item.peak <= allowed), choices[-1])
        if choice.peak > allowed:
            self.refuse(
                f"memory_budget is {size_of(allowed)}, but the step takes about {size_of(choice.peak)} even if much is "
                "computed again"
            )
        return choice, allowed, without


class _Step:
    """The ops of a joint graph, the forward pass first."""

    def __init__(
        self, graph: torch.fx.Graph, required: set[_Node], gradients: Sequence[_Node], machine: Machine
    ) -> None:
        nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        early = required | {node for item in required for node in item.users if node.target is operator.getitem}
        forward = [node for node in nodes if node in early]
        self.nodes = [*forward, *(node for node in nodes if node not in early)]
        self._forward = len(forward)
        self._place = {node: place for place, node in enumerate(self.nodes)}
        returned = set(graph.output_node().all_input_nodes)
        self._returned = gradients
        ops = [_described(node, self._place, node in returned, machine) for node in self.nodes]
        self.plan = StepPlan(ops, len(forward), holds_kept=True)

    def saved(self, repeated: Iterable[int]) -> list[_Node]:
        """The values that the forward pass saves: inputs of the graph too, if the backward pass reads them."""
        again = self._again(repeated)
        late = [self.nodes[place] for place in again] + self.nodes[self._forward :]
        found = dict.fromkeys(item for node in late for item in node.all_input_nodes)
        # Gradients may be values of the forward pass themselves.
        found |= dict.fromkeys(self._returned)
        return [node for node in found if self._is_saved(node, again)]

    def _is_saved(self, node: _Node, again: set[int]) -> bool:
        place = self._place.get(node)
        if place is None:
            return not str(node.target).startswith("tangents")
        return place < self._forward and place not in again and isinstance(node.meta.get("val"), torch.Tensor)

    def _again(self, repeated: Iterable[int]) -> set[int]:
        """The ops that are computed again, without results of ops with several of which the others are kept."""
        chosen = set(repeated)
        parts = {place for place in chosen if self.nodes[place].target is operator.getitem}
        return chosen - {place for place in parts if self._place[self.nodes[place].all_input_nodes[0]] not in chosen}

    def recomputation(self, choice: RepeatedOps, budget: int, without: int) -> Recomputation:
        """The report of a choice."""
        again, plan = self._again(choice.ops), self.plan
        values = tuple(
            ForwardValue(
                _name(self.nodes[place]), plan.bytes_of(place), plan.time_of(place) * 1e-9, place in again, why
            )
            for place, why in plan.reasons(replace(choice, ops=frozenset(again))).items()
            if plan.bytes_of(place)
        )
        return Recomputation(budget, choice.peak, without, choice.nanoseconds * 1e-9, values)


def _obstacle(graph: torch.fx.Graph) -> str | None:
    """The reason why nothing in a graph can be computed again; None if there is none."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return "sizes vary"
        if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
            return "sizes vary"
        if node.meta.get("recompute") is not None:
            return "the model chooses itself what is computed again"
        if node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload | _BUILT_IN):
            return f"it has the op '{node.target}'"
    return None


_BUILT_IN = type(operator.getitem)


def _described(node: _Node, places: dict[_Node, int], is_returned: bool, machine: Machine) -> StepOp:
    reads = [places[item] for item in node.all_input_nodes if item in places]
    overload = node.target if isinstance(node.target, torch._ops.OpOverload) else None
    if overload is None or _is_view(overload):
        size = 0 if is_returned else _bytes(node)
        return StepOp(reads, size, 0.0, None, node.op == "get_attr", overload is not None or bool(reads))
    kind = _kind(overload)
    results = _results(node)
    moved = sum(map(_bytes, {*node.all_input_nodes, *results}))
    width = next((item.meta["val"].element_size() for item in results), 4)
    is_random = torch.Tag.nondeterministic_seeded in overload.tags
    return StepOp(
        reads,
        0 if is_returned else sum(map(_bytes, results)),
        nanoseconds(machine, kind, _flops(node, kind), moved, width),
        kind,
        is_free=not reads and not node.all_input_nodes and not is_random,
        can_repeat=not (is_random or overload._schema.is_mutable),
    )


def _kind(overload: torch._ops.OpOverload) -> str:
    """The class of the kernel that computes an op."""
    name = overload._schema.name.removeprefix("aten::")
    if overload.overloadpacket in flop_counter.flop_registry:
        kinds = {"attention": "attention", "conv": "convolution"}
        return next((kind for part, kind in kinds.items() if part in name), "contraction")
    if torch.Tag.pointwise in overload.tags or name == "_to_copy":
        return "elementwise"
    return "reduction" if name in (*_REDUCTIONS, *_NORMS) else "movement"


def _flops(node: _Node, kind: str) -> float:
    values = torch.fx.node.map_arg((node.args, node.kwargs), lambda item: item.meta["val"])
    if kind in PRODUCTS:
        count = flop_counter.flop_registry[node.target.overloadpacket]  # type: ignore[union-attr]
        return count(*values[0], **values[1], out_val=node.meta["val"])
    return sum(item.meta["val"].numel() for item in _results(node))


def _is_view(overload: torch._ops.OpOverload) -> bool:
    """Returns whether an op only describes the memory of its operand anew."""
    return overload.is_view and not overload._schema.is_mutable


def _results(node: _Node) -> list[_Node]:
    """The nodes of the tensors that an op returns."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node]
    return [user for user in node.users if isinstance(user.meta.get("val"), torch.Tensor)]


def _bytes(node: _Node) -> int:
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _name(node: _Node) -> str:
    """The module of the model, and the op."""
    stack: Sequence[Any] = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0].removeprefix("L['self'].").removeprefix("L['self']") if stack else ""
    return f"{path} {node.name}".strip()
