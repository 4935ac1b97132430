"""Sizes that only numbers give to a piece: tensors of these sizes tell them to its code, as shapes of inputs.

Code is compiled for the shapes of its inputs. A function such as `lambda x, n: x.sum() + torch.zeros(n)` has a size
that is in none of them. Its piece takes one more tensor, of `n` elements, which no op reads; a call makes it without
memory.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_ELEMENT = torch.zeros((), dtype=torch.bool)


def add_carriers(graph: torch.fx.Graph, taken: Sequence[torch.fx.Node]) -> list[tuple[int, torch.fx.Node]]:
    """Adds a placeholder to a graph, behind its others, for each size that it takes as a number only.

    Args:
        graph: the graph.
        taken: its placeholders that calls give.

    Returns:
        The index of the number among `taken`, and the new placeholder, for each.
    """
    known = {symbol for node in taken for symbol in _free(node) if isinstance(node.meta["val"], torch.Tensor)}
    used = {symbol for node in graph.nodes for symbol in _free(node) if _is_tensor_in(node.meta.get("val"))}
    numbers = [(place, node) for place, node in enumerate(taken) if _may_be_size(node.meta["val"])]
    made: list[tuple[int, torch.fx.Node]] = []
    # A number that is a symbol determines it; one that is an expression may be left with no symbol to determine.
    for place, node in sorted(numbers, key=lambda item: not item[1].meta["val"].node.expr.is_Symbol):
        missing = set(_free(node)) - known
        if missing & used:
            known |= missing
            made.append((place, _carrier(graph, node)))
    return made


def carrying(size: int) -> torch.Tensor:
    """Returns a tensor without memory of its own that has a size.

    Raises:
        RuntimeError: the size is negative.
    """
    return _ELEMENT.expand(size)


def _carrier(graph: torch.fx.Graph, number: torch.fx.Node) -> torch.fx.Node:
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    with graph.inserting_after(last):
        made = graph.placeholder(f"{number.name}_size")
    size = number.meta["val"]
    mode = next(value.fake_mode for node in graph.nodes for value in _tensors(node.meta.get("val")))
    with mode:
        made.meta = {"val": torch.empty((size,), dtype=_ELEMENT.dtype)}
    return made


def _may_be_size(value: Any) -> bool:
    """Returns whether a number is symbolic and, in the first call, not negative."""
    return isinstance(value, torch.SymInt) and (value.node.hint is None or value.node.hint >= 0)


def _free(node: torch.fx.Node) -> set[Any]:
    """The symbols in a number, or in the sizes of tensors."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return set(value.node.expr.free_symbols)
    sizes = [size for tensor in _tensors(value) for size in tensor.shape if isinstance(size, torch.SymInt)]
    return {symbol for size in sizes for symbol in size.node.expr.free_symbols}


def _is_tensor_in(value: Any) -> bool:
    return bool(_tensors(value))


def _tensors(value: Any) -> list[FakeTensor]:
    return [item for item in (value if isinstance(value, tuple | list) else (value,)) if isinstance(item, FakeTensor)]
