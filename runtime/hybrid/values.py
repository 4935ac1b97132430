"""Values of hybrid models: when they are released, and which of them share memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .plan import ExecutionPlan, NativeStep


def last_uses(plan: ExecutionPlan) -> list[list[str]]:
    """Returns, for each step, the values that are not needed after it."""
    needed, released = set(plan.outputs), []
    for step in reversed(plan.steps):
        names = {*step.inputs, *step.outputs} - needed
        released.append(sorted(names))
        needed |= names
    return released[::-1]


def unshared_outputs(plan: ExecutionPlan) -> set[str]:
    """Returns the outputs whose memory is not shared: compiled code produced them, and no host node received them."""
    made = {name for step in plan.steps if isinstance(step, NativeStep) for name in step.outputs}
    return made - {name for step in plan.steps if not isinstance(step, NativeStep) for name in step.inputs}


def identities(values: Sequence[Any]) -> Iterator[int]:
    """Yields the identities of values and of the items of sequences."""
    for value in values:
        yield id(value)
        if isinstance(value, list):
            yield from identities(value)


def unshared(value: Any, given: set[int]) -> Any:
    """Returns a value that shares no memory with the caller's inputs or earlier outputs."""
    if isinstance(value, list):
        return [unshared(item, given) for item in value]
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, np.ndarray) and (id(value) in given or value.base is not None or not value.flags.writeable):
        return value.copy()
    return value
