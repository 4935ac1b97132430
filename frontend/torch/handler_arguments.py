"""The arguments of a node as its handler takes them."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import inspect
import keyword
from collections.abc import Mapping
from typing import Any, cast

import torch

from ..errors import UnsupportedError
from .node import arguments_of
from .registry import AtenHandler
from .tensors import numpy_dtype

_IGNORED = frozenset(
    {
        # Where and how a tensor is stored.
        *("layout", "device", "pin_memory", "memory_format", "non_blocking"),
        # Properties of the type of the result, which torch computes.
        *("dtype", "size", "half_to_float", "implicit", "output_size", "out_int32"),
        # Values that only a backward pass reads, and choices between equal algorithms.
        *("padding_idx", "scale_grad_by_freq", "sparse", "sparse_grad", "cudnn_enable", "cudnn_enabled"),
        *("sorted", "stable", "momentum", "compute_mode"),
    }
)
"""Arguments that do not matter to a handler that does not take them."""


def given_to(handler: AtenHandler, fx: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> dict[str, Any]:
    """Returns the arguments that a handler takes; others must have their defaults.

    Raises:
        UnsupportedError: one does not.
    """
    taken = inspect.signature(handler).parameters
    given = arguments_of(fx)
    found = {}
    for declared in cast(Any, fx.target)._schema.arguments:
        name = "input" if declared.name == "self" else declared.name
        name = "input" if name in ("a", "x") and name not in taken else name
        name = f"{name}_" if keyword.iskeyword(name) else name
        value = given[declared.name]
        if name in taken:
            found[name] = converted(value, values)
        elif name not in ("input", *_IGNORED) and value != declared.default_value:
            raise UnsupportedError(f"argument '{declared.name}' is not supported")
    return found


def converted(value: Any, values: Mapping[torch.fx.Node, Any]) -> Any:
    """Returns an argument of a node as its handler takes it."""
    if isinstance(value, torch.fx.Node):
        return values[value]
    if isinstance(value, list | tuple):
        return [converted(item, values) for item in value]
    if isinstance(value, torch.dtype):
        return numpy_dtype(value)
    return value
