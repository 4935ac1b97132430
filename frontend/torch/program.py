"""Captures PyTorch modules as graphs of ATen ops, and reads `.pt2` files.

Ops with a handler stay whole, composites such as `scaled_dot_product_attention` included; all others are decomposed by
torch's own rules until only ops with handlers, or ops without a rule, are left.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._export.utils import _is_preservable_cia_op, _special_op_to_preserve_cia
from torch.export._remove_effect_tokens_pass import _remove_effect_tokens

from ..errors import ModelError
from . import ops as _registered  # noqa: F401  (importing the package registers the handlers)
from .decompositions import RULES
from .layer_rules import LAYER_RULES
from .list_rules import LIST_RULES
from .registry import complex_handler_for, handler_for, supported_overloads

_WITHOUT_RULE = frozenset(
    {
        *("aten.complex.default", "aten.polar.default"),
        *("aten.diagonal_scatter.default", "aten.as_strided_scatter.default"),
    }
)
"""Ops whose rules write into memory, which a functional graph cannot."""

_RANDOM = torch.Tag.nondeterministic_seeded


def is_program(model: Any) -> bool:
    """Returns whether a model is a module of torch, or an exported one."""
    return isinstance(model, torch.nn.Module | torch.export.ExportedProgram)


def captured(
    model: Any, args: tuple[Any, ...] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> torch.export.ExportedProgram:
    """Captures a module by `torch.export` in its current mode (evaluation or training); returns an exported program.

    Raises:
        ModelError: the module cannot be exported; the message is torch's.
    """
    if isinstance(model, torch.export.ExportedProgram):
        if args is not None or kwargs or dynamic_shapes is not None:
            raise ModelError("an exported program has its own example arguments and dynamic shapes: give neither")
        return model
    if args is None and not kwargs:
        raise ModelError("a module needs example arguments, with which it is exported: compile(module, args=(...,))")
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(model, args or (), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    except Exception as error:  # user code runs, and torch raises errors of many classes
        reason = str(error).strip().split("\n\nThe error above occurred")[0]
        raise ModelError(f"torch.export failed with {type(error).__name__}: {reason}") from error


def read_program(contents: bytes | Path) -> torch.export.ExportedProgram:
    """Reads a `.pt2` file that `torch.export.save` wrote.

    Raises:
        ModelError: it is damaged, or no such file.
    """
    try:
        with quiet():
            return torch.export.load(io.BytesIO(contents) if isinstance(contents, bytes) else contents)
    except Exception as error:  # a damaged archive fails in many ways
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise ModelError(f"is not a program that torch.export.save wrote: {type(error).__name__}: {reason}") from error


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decomposes ops without handlers as far as torch has rules for them.

    Raises:
        ModelError: torch fails to.
    """
    try:
        with quiet():
            # Effects keep their order without tokens: no op is moved past one that torch runs.
            return _remove_effect_tokens(program.run_decompositions(decompositions()))
    except Exception as error:  # rules are Python code
        raise ModelError(f"torch cannot decompose the program: {type(error).__name__}: {error}") from error


def decompositions() -> Any:
    """Returns torch's rules for ops without handlers."""
    table = torch.export.default_decompositions()
    for op in list(table):
        if handler_for(str(op)) is not None:
            table.pop(op)
    for op, rule in decomposition_table.items():
        if isinstance(op, torch._ops.OpOverload) and op not in table and _may_decompose(op):
            table[op] = rule
    table.update(LAYER_RULES)
    table.update(LIST_RULES)
    return table


def python_decompositions() -> dict[torch._ops.OpOverload, Any]:
    """Returns the rules in Python for ops without handlers, torch's and ours, for AOTAutograd."""
    found = {op: rule for op, rule in decomposition_table.items() if isinstance(op, torch._ops.OpOverload)}
    found |= {**RULES, **LAYER_RULES, **LIST_RULES}
    return {op: rule for op, rule in found.items() if _may_decompose(op)}


def kept_composites() -> dict[torch._ops.OpOverload, Any]:
    """Returns the composite ops with handlers; torch can be told not to decompose these."""
    packets = (overload.split(".") for overload in supported_overloads())
    found = [getattr(getattr(torch.ops.aten, name), kind) for space, name, kind in packets if space == "aten"]
    return {op: _special_op_to_preserve_cia for op in found if _is_preservable_cia_op(op)}


def can_import(op: torch._ops.OpOverload) -> bool:
    """Returns whether an op has a handler, or a rule by which torch decomposes it further."""
    is_known = handler_for(str(op)) is not None or complex_handler_for(str(op)) is not None
    return is_known or (op in decomposition_table and _may_decompose(op))


def _may_decompose(op: torch._ops.OpOverload) -> bool:
    is_known = handler_for(str(op)) is not None or str(op) in _WITHOUT_RULE
    return op.namespace == "aten" and not is_known and _RANDOM not in op.tags


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses warnings of torch about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
