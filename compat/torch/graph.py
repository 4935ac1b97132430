"""Compiled graphs with AOTAutograd's calling convention: they take and clear a list of arguments, and return a list."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from ...frontend.torch.calls import TensorCall
from ...frontend.torch.strides import accept_any_strides

_versions = operator.attrgetter("_version")
_address = torch.Tensor.data_ptr


class FrozenWeights:
    """The tensors that code was compiled for, and whether they are still the same.

    Writes through `Tensor.data` do not change a tensor's version, so they are not detected.
    """

    def __init__(self, weights: Mapping[int, torch.Tensor]) -> None:
        """Remembers the state of weights, by their positions among the arguments."""
        self._pick = _picker(list(weights))
        self._tensors = list(weights.values())  # keeps them alive, so that no other tensor gets the same address
        self._version = sum(map(_versions, self._tensors))
        self._addresses = list(map(_address, self._tensors))

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Returns whether the arguments are the same tensors as before, with unchanged contents."""
        tensors = self._tensors
        return (
            all(map(operator.is_, self._pick(arguments), tensors))
            and sum(map(_versions, tensors)) == self._version  # versions only grow
            and list(map(_address, tensors)) == self._addresses
        )


class Graph:
    """A graph of compiled pieces."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        calls: Mapping[str, TensorCall],
        weights: FrozenWeights | None = None,
        thaw: Callable[[], Graph | EagerGraph] | None = None,
    ) -> None:
        """Prepares calls.

        Args:
            module: the graph, whose pieces are submodules.
            calls: the pieces by name.
            weights: the tensors that are constants of the code.
            thaw: compiles the graph again with the weights as inputs.
        """
        self._module: Any = module
        self._weights, self._thaw = weights, thaw
        self._boxed_call = True  # of the object: wrappers copy its attributes
        self._thawed: Graph | EagerGraph | None = None
        self._piece, self._positions = _only_piece(module, calls)
        self._pick = _picker(self._positions)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pick": None, "_module": self._module if self._piece is None else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pick = _picker(self._positions)

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        """Computes the results; the list of arguments is cleared."""
        weights = self._weights
        if weights is not None and (self._thawed is not None or not weights.hold(arguments)):
            if self._thawed is None:
                assert self._thaw is not None
                self._thawed, self._module, self._piece = self._thaw(), None, None
            return self._thawed(arguments)
        if self._piece is not None:
            given = list(self._pick(arguments))
            arguments.clear()
            return self._piece.run(given)
        given = list(arguments)
        arguments.clear()
        return self._module(*given)


class EagerGraph:
    """A graph that torch runs, op by op."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        """Takes a graph, which is changed."""
        for part in module.modules():
            if isinstance(part, torch.fx.GraphModule):
                accept_any_strides(part.graph)
                part.recompile()
        self._module = module
        self._boxed_call = True  # of the object: wrappers copy its attributes

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        """Computes the results; the list of arguments is cleared."""
        given = list(arguments)
        arguments.clear()
        return self._module(*given)


def _picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Returns a function that picks the items at some positions."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return lambda items: [items[place] for place in positions]


def _only_piece(
    module: torch.fx.GraphModule, calls: Mapping[str, TensorCall]
) -> tuple[TensorCall | None, Sequence[int]]:
    """Returns the only piece of a graph, with the positions of its arguments; none if there is anything else."""
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    call = next((node for node in nodes if node.op == "call_module"), None)
    if call is None or any(node is not call and node.target is not operator.getitem for node in nodes):
        return None, ()
    results = cast(Sequence[Any], module.graph.output_node().args[0])
    places = [item.args[1] if isinstance(item, torch.fx.Node) and item in call.users else None for item in results]
    if places != list(range(len(nodes) - 1)) or not all(isinstance(item, torch.fx.Node) for item in call.args):
        return None, ()
    order = {node: place for place, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    return calls[str(call.target)], [order[item] for item in call.args]
