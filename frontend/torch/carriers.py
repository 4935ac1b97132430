"""Sizes that only numbers give to a piece: tensors of these sizes tell them to its code, as shapes of inputs.

Code is compiled for the shapes of its inputs. A function such as `lambda x, n: x.sum() + torch.zeros(n)` has a size
that is in none of them. Its piece takes one more tensor, of `n` elements, which no op reads; a call makes it without
memory. If the piece takes only `1 - n`, as in `x[:, -n + 1 :]`, the call computes `n` from it.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_ELEMENT = torch.zeros((), dtype=torch.bool)


@dataclass(frozen=True)
class CarriedSize:
    """A size that follows from a number, and that a tensor carries: `factor * number + offset`.

    Attributes:
        place: the index of the number among the arguments.
        factor: 1 or -1.
        offset: the offset.
    """

    place: int
    factor: int = 1
    offset: int = 0

    def size(self, number: Any) -> Any:
        """Returns the size, for a number that may be symbolic."""
        return self.factor * number + self.offset

    def tensor(self, number: int) -> torch.Tensor:
        """Returns a tensor without memory of its own that has the size.

        Raises:
            RuntimeError: the size is negative.
        """
        return _ELEMENT.expand(self.size(number))


def add_carriers(graph: torch.fx.Graph, taken: Sequence[torch.fx.Node]) -> list[tuple[CarriedSize, torch.fx.Node]]:
    """Adds a placeholder to a graph, behind its others, for each size that it takes as a number only.

    Args:
        graph: the graph.
        taken: its placeholders that calls give.

    Returns:
        The size, with the index of the number among `taken`, and the new placeholder, for each.
    """
    known = {symbol for node in taken for symbol in _free(node) if isinstance(node.meta["val"], torch.Tensor)}
    used = {symbol for node in graph.nodes for symbol in _free(node) if _is_tensor_in(node.meta.get("val"))}
    numbers = [
        (place, node.meta["val"]) for place, node in enumerate(taken) if isinstance(node.meta["val"], torch.SymInt)
    ]
    made: list[tuple[CarriedSize, torch.fx.Node]] = []
    # A number that is a symbol determines it; one that is an expression may be left with no symbol to determine.
    for place, number in sorted(numbers, key=lambda item: not item[1].node.expr.is_Symbol):
        missing = number.node.expr.free_symbols - known
        carried = _carried(place, number)
        if missing & used and _may_be_size(carried.size(number)):
            known |= missing
            made.append((carried, _carrier(graph, f"{taken[place].name}_size", carried.size(number))))
    return made


def _carried(place: int, number: torch.SymInt) -> CarriedSize:
    """The size that a number determines: of `1 - n`, it is `n`; of other expressions, the number itself."""
    expression = number.node.expr
    for symbol in expression.free_symbols:
        factor = expression.coeff(symbol)
        offset = expression - factor * symbol
        if factor in (1, -1) and offset.is_Integer:
            return CarriedSize(place, int(factor), int(-factor * offset))
    return CarriedSize(place)


def _carrier(graph: torch.fx.Graph, name: str, size: Any) -> torch.fx.Node:
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    with graph.inserting_after(last):
        made = graph.placeholder(name)
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
