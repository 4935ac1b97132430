"""Control flow on the host, by ONNX's rules; what a round does is given as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import RuntimeFailure

Body = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Stacked:
    """What a round gives to be stacked with what the others give.

    Attributes:
        kind: numpy's name of the element type.
        shape: the shape of what one round gives, 0 where that is not declared; for stacks of no rounds.
        axis: the new axis.
        backwards: whether the last round comes first.
    """

    kind: str
    shape: tuple[int, ...]
    axis: int = 0
    backwards: bool = False

    def of(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """The stack."""
        if not values:
            return np.zeros((*self.shape[: self.axis], 0, *self.shape[self.axis :]), self.kind)
        return np.stack(values[::-1] if self.backwards else values, axis=self.axis)


@dataclass(frozen=True)
class Sliced:
    """What rounds take slices of, one each.

    Attributes:
        axis: along which axis.
        backwards: whether the first round takes the last slice.
    """

    axis: int = 0
    backwards: bool = False

    def slices(self, value: np.ndarray) -> list[np.ndarray]:
        """All slices, in the order of the rounds."""
        parts = [np.ascontiguousarray(part) for part in np.moveaxis(value, self.axis, 0)]
        return parts[::-1] if self.backwards else parts


def single(value: Any, what: str) -> Any:
    """The one element of an array.

    Raises:
        RuntimeFailure: it is none, or has more or fewer.
    """
    if not isinstance(value, np.ndarray) or value.size != 1:
        shown = f"of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise RuntimeFailure(f"{what} must be one number, but is {shown}")
    return value.item()


def loop(
    limit: np.ndarray | None,
    condition: np.ndarray | None,
    carried: Sequence[Any],
    stacks: Sequence[Stacked],
    body: Body,
) -> list[Any]:
    """Loop: rounds as long as the condition holds, at most `limit` of them.

    Args:
        limit: how many rounds at most; None for any number.
        condition: whether there is a first round; None for yes.
        carried: what the first round starts from.
        stacks: what is made of what the rounds give beside.
        body: takes the round's number, the condition and what is carried; gives the next condition, what is carried on,
            and what is stacked.

    Returns:
        What is carried at the end, and the stacks.
    """
    flag = np.array(True) if condition is None else condition
    most = None if limit is None else int(single(limit, "the number of rounds of a Loop"))
    values, count = list(carried), 0
    given: list[list[Any]] = [[] for _ in stacks]
    while bool(single(flag, "the condition of a Loop")) and (most is None or count < most):
        flag, *results = body([np.array(count, np.int64), flag, *values])
        values = results[: len(values)]
        for store, value in zip(given, results[len(values) :], strict=True):
            store.append(value)
        count += 1
    return [*values, *(stack.of(store) for stack, store in zip(stacks, given, strict=True))]


def scan(
    carried: Sequence[Any],
    taken: Sequence[np.ndarray],
    slicing: Sequence[Sliced],
    stacks: Sequence[Stacked],
    body: Body,
) -> list[Any]:
    """Scan: a round for each slice.

    Args:
        carried: what the first round starts from.
        taken: what is sliced.
        slicing: how.
        stacks: what is made of what the rounds give beside.
        body: takes what is carried and a slice of each; gives what is carried on, and what is stacked.

    Returns:
        What is carried at the end, and the stacks.
    """
    values = list(carried)
    given: list[list[Any]] = [[] for _ in stacks]
    parts = [how.slices(value) for how, value in zip(slicing, taken, strict=True)]
    if len(set(map(len, parts))) > 1:
        raise RuntimeFailure(f"a Scan takes inputs of one length, but they have {', '.join(map(str, map(len, parts)))}")
    for slices in zip(*parts, strict=True):
        results = body([*values, *slices])
        values = list(results[: len(values)])
        for store, value in zip(given, results[len(values) :], strict=True):
            store.append(value)
    return [*values, *(stack.of(store) for stack, store in zip(stacks, given, strict=True))]
