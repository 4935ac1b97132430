"""Control flow on the host with ONNX semantics; the body of a loop is given as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...support.errors import RuntimeFailure

ControlBody = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Stacked:
    """Specification of a loop output that stacks one value per iteration.

    Attributes:
        kind: numpy name of the element type.
        shape: shape of one iteration's value, 0 for undeclared dimensions; used if there are no iterations.
        axis: the new axis.
        backwards: whether the last iteration comes first.
    """

    kind: str
    shape: tuple[int, ...]
    axis: int = 0
    backwards: bool = False

    def of(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Returns the stack of the values of all iterations."""
        if not values:
            return np.zeros((*self.shape[: self.axis], 0, *self.shape[self.axis :]), self.kind)
        return np.stack(values[::-1] if self.backwards else values, axis=self.axis)


@dataclass(frozen=True)
class Sliced:
    """Specification of a loop input of which each iteration takes one slice.

    Attributes:
        axis: axis to slice along.
        backwards: whether the first iteration takes the last slice.
    """

    axis: int = 0
    backwards: bool = False

    def slices(self, value: np.ndarray) -> list[np.ndarray]:
        """Returns all slices, in the order of the iterations."""
        parts = [np.ascontiguousarray(part) for part in np.moveaxis(value, self.axis, 0)]
        return parts[::-1] if self.backwards else parts


def single(value: Any, what: str) -> Any:
    """Returns the only element of an array.

    Raises:
        RuntimeFailure: `value` is not an array of one element.
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
    body: ControlBody,
) -> list[Any]:
    """Runs ONNX Loop: iterates while the condition holds, at most `limit` times.

    Args:
        limit: maximum number of iterations; None for any number.
        condition: whether to run the first iteration; None for true.
        carried: loop-carried values of the first iteration.
        stacks: specifications of the stacked outputs.
        body: takes the iteration's number, the condition and the carried values; returns the next condition, the next
            carried values, and the values to stack.

    Returns:
        The final carried values, then the stacks.
    """
    flag = np.array(True) if condition is None else condition
    most = None if limit is None else int(single(limit, "the iteration count of a Loop"))
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
    body: ControlBody,
) -> list[Any]:
    """Runs ONNX Scan: one iteration for each slice.

    Args:
        carried: loop-carried values of the first iteration.
        taken: inputs to slice.
        slicing: specifications of their slices.
        stacks: specifications of the stacked outputs.
        body: takes the carried values and a slice of each input; returns the next carried values and the values to
            stack.

    Returns:
        The final carried values, then the stacks.
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
