"""Rules by which PyTorch decomposes ops on lists of tensors, such as the `foreach` steps of optimisers."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

_PREFIX = "aten::_foreach_"
_SPECIAL: Mapping[str, Callable[..., torch.Tensor]] = {
    "clamp_max": torch.minimum,
    "clamp_min": torch.maximum,
    "copy": lambda own, other, non_blocking=False: other.to(own.dtype).expand_as(own).clone(),
    "max": torch.amax,
    "norm": lambda own, ord=2, dtype=None: torch.linalg.vector_norm(own, ord, dtype=dtype),
    "powsum": lambda own, ord=2, dtype=None: own.to(dtype or own.dtype).abs().pow(ord).sum(),
    "zero": torch.zeros_like,
}
"""Functions of one tensor of a list for ops that are no functions of `torch` by the same name."""
_BOUNDS = {"clamp_max": torch.clamp_max, "clamp_min": torch.clamp_min, "maximum": torch.clamp_min}
_BOUNDS["minimum"] = torch.clamp_max
"""Functions of one tensor of a list and a number, by ops whose functions of two tensors take no number."""
_SCALED = {"addcdiv": torch.div, "addcmul": torch.mul}
"""By ops that add `value` times a function of two tensors: that function."""


def _names() -> Iterator[str]:
    for name in torch._C._dispatch_get_all_op_names():
        plain, _, kind = name.partition(".")
        if plain.startswith(_PREFIX) and not plain.endswith("_") and "out" not in kind.split("_"):
            yield name


def _function(name: str, kind: str) -> Callable[..., torch.Tensor]:
    if name in _BOUNDS and kind.startswith("Scalar"):
        return _BOUNDS[name]
    if name in _SCALED:
        return functools.partial(_add_scaled, _SCALED[name])
    return _SPECIAL.get(name) or getattr(torch, name)


def _add_scaled(
    function: Callable[..., torch.Tensor], own: torch.Tensor, first: torch.Tensor, second: torch.Tensor, value: Any = 1
) -> torch.Tensor:
    return own + value * function(first, second)


def _rule(op: torch._ops.OpOverload) -> Callable[..., list[torch.Tensor]]:
    """Returns a rule that calls a function for each place of the lists of an op; other arguments are those of all."""
    function = _function(op._schema.name.removeprefix(_PREFIX), op._overloadname)
    kinds = [str(argument.type) for argument in op._schema.arguments]
    listed = [kind.startswith("List[") for kind in kinds]
    # A tensor of numbers has one for each place.
    split = op._schema.name.removeprefix(_PREFIX) in _SCALED and op._overloadname == "Tensor"

    def rule(*given: Any, **named: Any) -> list[torch.Tensor]:
        arguments = [*given[:-1], given[-1].unbind()] if split else list(given)
        is_list = [*listed[: len(given) - split], *([True] if split else [])]
        count = len(next(item for item, many in zip(arguments, is_list, strict=True) if many))
        columns = [item if many else [item] * count for item, many in zip(arguments, is_list, strict=True)]
        return [function(*row, **named) for row in zip(*columns, strict=True)]

    return rule


def _overload(name: str) -> torch._ops.OpOverload:
    plain, _, kind = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, plain), kind or "default")


LIST_RULES: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    op: _rule(op) for op in (_overload(name) for name in sorted(_names()))
}
"""The rules by op."""
