"""Gradients of gradients of compiled graphs: PyTorch computes the backward pass again, op by op.

AOTAutograd compiles a backward graph that is not differentiable itself, and raises an error at its own derivative. With
`create_graph=True`, the backward pass here is that of the graph that Dynamo captured, run in PyTorch.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

_ATTRIBUTE = "stepwell_again"
"""Attribute of a node of autograd: how to compute its outputs again."""


@dataclass(frozen=True)
class Again:
    """A call of a compiled graph, which PyTorch can repeat.

    Attributes:
        graph: the graph that Dynamo captured.
        arguments: those of the call.
        versions: their versions after the call; None for those that the call itself changed, and for other values.
        outputs: the places of results among those of the node of autograd, by their places among those of the graph.
        report: is called before the graph runs in PyTorch.
    """

    graph: Callable[..., Any]
    arguments: Sequence[Any]
    versions: Sequence[int | None]
    outputs: dict[int, int]
    report: Callable[[], None]

    def backward(self, node: Any, given: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        """Returns differentiable gradients of the inputs of a node, from those of its outputs.

        Raises:
            RuntimeError: an argument was changed in place since the call.
        """
        for argument, version in zip(self.arguments, self.versions, strict=True):
            if version is not None and argument._version != version:
                shape = list(argument.shape)
                raise RuntimeError(
                    f"an input of shape {shape} of a compiled graph has been modified by an inplace operation since "
                    "the call, so that gradients of its gradients cannot be computed"
                )
        self.report()
        with torch.enable_grad():
            # Copies, because the graph may change its arguments in place a second time.
            inputs = [item if _is_leaf(item) else _copied(item) for item in self.arguments]
            results = self.graph(*inputs)
            pairs = [(results[place], given[index]) for place, index in self.outputs.items()]
            reached = [(result, gradient) for result, gradient in pairs if gradient is not None]
            wanted = [item for item in self.arguments if isinstance(item, torch.Tensor) and item.requires_grad]
            made, slopes = ([pair[column] for pair in reached] for column in (0, 1))
            found = torch.autograd.grad(made, wanted, slopes, create_graph=True, allow_unused=True)
        edges = [get_gradient_edge(item) for item in wanted]
        by_edge = {(edge.node, edge.output_nr): gradient for edge, gradient in zip(edges, found, strict=True)}
        following = iter(edge for edge in node.next_functions if edge[0] is not None)
        return tuple(by_edge[next(following)] if needed else None for needed in node.needs_input_grad)


def repeatable(
    compiled: Callable[..., Any], graph: Callable[..., Any], report: Callable[[], None]
) -> Callable[..., Any]:
    """Returns a compiled graph whose gradients can be differentiated.

    Args:
        compiled: what AOTAutograd made of the graph.
        graph: the graph that Dynamo captured, without random ops.
        report: is called when the graph runs in PyTorch.
    """

    def call(*arguments: Any) -> Any:
        before = [_version(item) for item in arguments]
        results = compiled(*arguments)
        node = next((item.grad_fn for item in results if _is_compiled(item)), None)
        if node is None:
            return results
        differentiable = {place: item for place, item in enumerate(results) if _has_gradient(item)}
        # Views of arguments, and of values in the graph, have nodes of their own. Types under autocast are those of the
        # call, and the backward pass is outside of it.
        if not torch.is_autocast_enabled("cpu") and all(item.grad_fn is node for item in differentiable.values()):
            after = [_version(item) for item in arguments]
            versions = [now if now == then else None for now, then in zip(after, before, strict=True)]
            outputs = {place: item.output_nr for place, item in differentiable.items()}
            setattr(node, _ATTRIBUTE, Again(graph, arguments, versions, outputs, report))
            _extend(type(node)._forward_cls)
        return results

    return call


def _extend(function: Any) -> None:
    """Makes a function of autograd that AOTAutograd made differentiate its own backward pass."""
    plain = function.backward
    if getattr(plain, "is_extended", False):
        return

    def backward(node: Any, *given: Any) -> Any:
        again = getattr(node, _ATTRIBUTE, None)
        if again is None:
            return plain(node, *given)
        if torch.is_grad_enabled():
            return again.backward(node, given[0] if function.boxed_grads_call else given)
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            setattr(node, _ATTRIBUTE, None)  # as saved tensors, the arguments are released
        return plain(node, *given)

    backward.is_extended = True  # type: ignore[attr-defined]
    function.backward = staticmethod(backward)


def _is_compiled(value: Any) -> bool:
    return _has_gradient(value) and hasattr(getattr(type(value.grad_fn), "_forward_cls", None), "compiled_bw")


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def _version(value: Any) -> int | None:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None


def _is_leaf(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or (value.is_leaf and value.requires_grad)


def _copied(value: torch.Tensor) -> torch.Tensor:
    return value.clone() if value.requires_grad else value.detach().clone()
