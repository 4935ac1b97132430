"""The gradients of samples, in eager PyTorch and from the compiled forward and backward graphs."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import stepwell
import torch
from torch.utils import _pytree as pytree

from .entries import Calls, Entry, Sample

BACKWARD = "backward: "
"""Prefix of what runs in torch in a backward graph."""


def has_gradient(sample: Sample) -> bool:
    """Returns whether a sample runs in eager mode and has a result that depends on a tensor that requires gradients."""
    calls = Calls([sample])
    try:
        results, inputs = _called(calls, calls.tensors)
        return bool(inputs) and any(_requires_gradient(item) for item in results) and bool(eager(calls))
    except Exception:  # samples that torch itself refuses are no test
        return False


def eager(calls: Calls, seed: int = 0) -> list[Any]:
    """Returns the results and gradients of calls in eager mode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pulled_back(calls, calls.tensors, seed)


def compiled(entry: Entry, calls: Calls) -> tuple[list[Any], list[str]]:
    """Returns the results and gradients of calls by `torch.compile`, and what runs in torch."""
    torch._dynamo.reset()
    run = torch.compile(calls, backend="stepwell", options={"cache": False, "fallback": "quiet"})
    made = pulled_back(run, calls.tensors)
    reasons = set()
    for graph in stepwell.torch_report().graphs:
        prefix = BACKWARD if graph.kind == "backward" else ""
        texts = [f"{item.op_type}: {item.reason}" for item in graph.on_torch] + [graph.note] * bool(graph.note)
        reasons |= {prefix + text for text in texts}
    return made, sorted(reasons)


def pulled_back(call: Callable[..., Any], tensors: Sequence[torch.Tensor], seed: int = 0) -> list[Any]:
    """Calls a function, and returns its results, which of them have gradients, and the gradients of the arguments.

    The gradients of the results are random numbers, the same in each call.
    """
    torch.manual_seed(seed)
    results, inputs = _called(call, tensors)
    smooth = [item for item in results if _requires_gradient(item)]
    random = torch.Generator().manual_seed(1)
    seeds = [torch.randn(item.shape, dtype=item.dtype, generator=random) for item in smooth]
    found = torch.autograd.grad(smooth, inputs, seeds, allow_unused=True, materialize_grads=True)
    plain = [item.detach() if isinstance(item, torch.Tensor) else item for item in results]
    return [*plain, [_requires_gradient(item) for item in results], *found]


def _called(call: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> tuple[list[Any], list[torch.Tensor]]:
    """Calls a function with copies of tensors; returns the results, and the copies that require gradients."""
    copies = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]
    return pytree.tree_leaves(call(*copies)), [item for item in copies if item.requires_grad]


def _requires_gradient(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.requires_grad
