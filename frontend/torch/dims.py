"""Symbolic dimensions of exported programs: the names that users gave them, and their ranges."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import bound_sympy

from .symbols import expression_of

if TYPE_CHECKING:
    from .signature import Signature

_UNBOUNDED = 1 << 31
"""Upper bound from which a size counts as unlimited; torch's own bound is the maximum of i64."""


def names_of_symbols(
    program: torch.export.ExportedProgram,
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> dict[sympy.Symbol, str]:
    """Returns the names of symbols whose dimension has one in `dynamic_shapes`, as in `Dim("batch")`."""
    if not isinstance(model, torch.nn.Module) or not dynamic_shapes:
        return {}
    bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    given = dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(bound, dynamic_shapes, strict=False))
    leaves: list[Any] = []
    for name, value in bound.items():
        leaves += _leaves(value, given.get(name))
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in _user_inputs(program)]
    found: dict[sympy.Symbol, str] = {}
    for node, dims in zip(inputs, leaves, strict=False):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        for axis, dim in dims:
            name = getattr(dim, "__name__", None)
            expression = expression_of(value.shape[axis])
            if isinstance(dim, torch.export.Dim) and name and isinstance(expression, sympy.Symbol):
                found.setdefault(expression, name)
    return found


def _user_inputs(program: torch.export.ExportedProgram) -> set[str]:
    return {name for name in program.graph_signature.user_inputs if isinstance(name, str)}


def _leaves(value: Any, dims: Any) -> Iterator[list[tuple[int, Any]]]:
    """Yields, for each tensor in a value, its named dimensions, each with the `Dim` or symbol that names it."""
    if isinstance(value, torch.Tensor):
        pairs = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
        yield [(axis, dim) for axis, dim in pairs if dim is not None]
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, dims.get(key) if isinstance(dims, Mapping) else None)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, dims[index] if isinstance(dims, list | tuple) else None)
    else:
        yield from ([] for _ in pytree.tree_leaves(value))


def is_by_data(size: sympy.Expr) -> bool:
    """Returns whether a size is a symbol that depends on contents of tensors."""
    return isinstance(size, sympy.Symbol) and symbol_is_type(size, SymT.UNBACKED_INT)


def ranges_of(program: torch.export.ExportedProgram, signature: Signature) -> dict[str, tuple[int, int | None]]:
    """Returns minimum and maximum of each symbol in the inputs, by name; None if there is no maximum."""
    found: dict[str, tuple[int, int | None]] = {}
    taken = {dim for info in signature.info("").inputs for dim in info.dims or ()}
    symbols = {str(signature.dim(symbol)): values for symbol, values in program.range_constraints.items()}
    by_data = {str(signature.dim(symbol)) for symbol in program.range_constraints if is_by_data(symbol)}
    opaque = {name: bound_sympy(item, dict(program.range_constraints)) for name, item in signature.opaque.items()}
    for name, values in {**symbols, **opaque}.items():
        low, high = (int(end) if isinstance(end, sympy.Integer) else None for end in (values.lower, values.upper))
        limit = None if high is None or high >= _UNBOUNDED else high
        if name in taken:
            # A size that depends on contents may be 0, and a range begins at 1: such sizes are compiled when they
            # occur.
            limit = None if name in by_data and not low else limit
            found[name] = (max(low or 0, 0), limit)
    return found
