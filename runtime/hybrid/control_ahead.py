"""Control flow on the host, prepared before a run: compiles bodies for the types of their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..program import TensorInfo
from ..specialization.interfaces import UNKNOWN, Known
from .foresight import Ahead, ContentsAhead, StepRunner
from .plan import ControlStep

_MAX_ITERATIONS = 4
"""Maximum number of iterations in which the types of carried values are followed until they stay the same."""

_COUNT = Known(TensorInfo("", np.dtype(np.int64), ()))
_CONDITION = Known(TensorInfo("", np.dtype(np.bool_), ()))


def prepare_control(
    step: ControlStep, bodies: Sequence[StepRunner], inputs: Sequence[Known], ahead: Ahead, contents: ContentsAhead
) -> list[Known]:
    """Compiles the bodies of a control-flow node.

    Args:
        step: the node.
        bodies: its bodies.
        inputs: the types of the step's inputs.
        ahead: the preparation that this is part of.
        contents: the contents of the step's inputs.

    Returns:
        The types of the step's outputs; unknown if they depend on the number of iterations.
    """
    types = {"": UNKNOWN, **dict(zip(step.inputs, inputs, strict=True))}
    prepared = _Bodies(step, bodies, types, ahead, contents)
    operands = [types[name] for name in step.operands]
    if step.operator == "If":
        results = [_common(pair) for pair in zip(*(prepared.run(index, []) for index in range(2)), strict=True)]
    elif step.operator == "Loop":
        condition = operands[1] if len(operands) > 1 and step.operands[1] else _CONDITION
        states = prepared.follow([condition, *operands[2:]], [_COUNT], [], ignored=1)
        results = [*states[1 : 1 + step.carried], *[UNKNOWN] * len(step.stacks)]
    else:
        slices = [_slice(kind, how.axis) for kind, how in zip(operands[step.carried :], step.slicing, strict=True)]
        states = prepared.follow(operands[: step.carried], [], slices)
        lengths = [_length(kind, how.axis) for kind, how in zip(operands[step.carried :], step.slicing, strict=True)]
        stacked = [
            _stack(kind, how.axis, lengths[0] if lengths else None)
            for kind, how in zip(states[step.carried :], step.stacks, strict=True)
        ]
        results = [*states[: step.carried], *stacked]
    known = dict(zip(step.results, results, strict=False))
    return [known.get(name, UNKNOWN) for name in step.outputs]


class _Bodies:
    """The bodies of a control-flow node, prepared for the types of their own inputs."""

    def __init__(
        self,
        step: ControlStep,
        bodies: Sequence[StepRunner],
        types: Mapping[str, Known],
        ahead: Ahead,
        contents: ContentsAhead,
    ) -> None:
        self._bodies, self._types, self._ahead = bodies, types, ahead
        self._places = {name: position for position, name in enumerate(step.inputs)}
        self._contents = contents

    def run(self, index: int, own: Sequence[Known]) -> list[Known]:
        """Prepares one body; returns the types of its outputs."""
        body = self._bodies[index]
        names = body.step.inputs
        around = [self._types[name] for name in names[len(own) :]]

        def contents(position: int) -> np.ndarray | None:
            return None if position < len(own) else self._contents(self._places[names[position]])

        return body.prepare([*own, *around], self._ahead, contents)

    def follow(
        self, states: Sequence[Known], before: Sequence[Known], behind: Sequence[Known], ignored: int = 0
    ) -> list[Known]:
        """Prepares the only body, iteration by iteration, until the carried types stay the same.

        Args:
            states: types of the values carried into the first iteration.
            before: inputs of the body before these.
            behind: inputs of the body after these.
            ignored: number of leading states that are not results of the node.

        Returns:
            The types of the body's outputs: the carried values, then the values to stack. All are unknown if the
            carried types change from iteration to iteration, or between no iteration and one.
        """
        given, changes = list(states), False
        results: list[Known] = []
        for _ in range(_MAX_ITERATIONS):
            results = self.run(0, [*before, *given, *behind])
            carried = results[: len(given)]
            if any(known.info is None for known in carried):
                return [UNKNOWN] * len(results)
            if [_shape(known) for known in carried] == [_shape(known) for known in given]:
                return [UNKNOWN] * len(results) if changes else results
            before_round, after_round = (list(map(_shape, items[ignored:])) for items in (given, carried))
            changes = changes or before_round != after_round
            given = list(carried)
        names = " and ".join(f"'{name}'" for name in self._bodies[0].step.outputs[: len(given)])
        self._ahead.missing.append((self._bodies[0], f"the shapes of {names} change from iteration to iteration"))
        return [UNKNOWN] * len(results)


def _shape(known: Known) -> object:
    return None if known.info is None else (known.info.dtype, known.info.shape)


def _common(pair: Sequence[Known]) -> Known:
    """Returns the type that both branches give a value; unknown if they differ."""
    first, second = pair
    return first if _shape(first) == _shape(second) else UNKNOWN


def _slice(known: Known, axis: int) -> Known:
    if known.info is None or not -len(known.info.shape) <= axis < len(known.info.shape):
        return UNKNOWN
    shape = list(known.info.shape)
    del shape[axis]
    return Known(replace(known.info, shape=tuple(shape)))


def _length(known: Known, axis: int) -> int | None:
    if known.info is None or not -len(known.info.shape) <= axis < len(known.info.shape):
        return None
    return int(known.info.shape[axis])


def _stack(known: Known, axis: int, length: int | None) -> Known:
    """Returns the type of a stack of `length` values of one type; unknown if empty: then the declared shape applies."""
    if known.info is None or not length:
        return UNKNOWN
    shape = list(known.info.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, length)
    return Known(replace(known.info, shape=tuple(shape)))
