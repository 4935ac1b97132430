"""Checks for invalid data: an index outside of its dimension, an integer divided by zero.

A check is a guard of a program. Its text names the node, so that artefacts and the cache keep the name too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...support.errors import DataError, GuardError

if TYPE_CHECKING:
    from ..program import Program

_PREFIX = "data: "
DIVISIONS = ("Div", "Mod")
"""Operators whose divisors are checked; the other operators' indices are checked."""


@dataclass(frozen=True)
class DataCheck:
    """A condition on the data of one node.

    Attributes:
        node: the node's name.
        op_type: its operator.
        input: the model's input that holds the indices; empty if they are computed.
        extents: the extents that bound the indices: one, or one for each element of an index tuple (GatherND,
            ScatterND); empty if they vary.
    """

    node: str
    op_type: str
    input: str = ""
    extents: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The check as the text of a guard."""
        return _PREFIX + json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> DataCheck | None:
        """Parses the text of a guard; returns None if it guards a branch of the model."""
        if not text.startswith(_PREFIX):
            return None
        fields = json.loads(text[len(_PREFIX) :])
        return DataCheck(fields["node"], fields["op_type"], fields["input"], tuple(fields["extents"]))

    def error(self, inputs: Mapping[str, object]) -> DataError:
        """Returns the error of a call that violated the condition.

        Args:
            inputs: the inputs of the call, in which the index is looked up.
        """
        where = f"node '{self.node}' ({self.op_type})"
        if self.op_type in DIVISIONS:
            return DataError(f"{where}: an integer is divided by zero", self.node, self.op_type)
        index, extent = self._first_outside(inputs.get(self.input))
        subject = "an index" if index is None else f"index {index}"
        extent = self.extents[0] if extent is None and len(self.extents) == 1 else extent
        allowed = "its dimension" if extent is None else f"[{-extent}, {extent - 1}]"
        return DataError(f"{where}: {subject} is outside of {allowed}", self.node, self.op_type, index, extent)

    def _first_outside(self, indices: object) -> tuple[int | None, int | None]:
        """Returns the first index outside of its extent, and that extent; None for each that is unknown."""
        if not self.extents or not isinstance(indices, np.ndarray):
            return None, None
        # If the input was reshaped in the model, its last dimension need not hold the index tuples of GatherND.
        if len(self.extents) > 1 and indices.shape[-1:] != (len(self.extents),):
            return None, None
        extents = np.broadcast_to(self.extents, np.broadcast_shapes(indices.shape, (len(self.extents),)))
        values = np.broadcast_to(indices, extents.shape)
        outside = (values < -extents) | (values >= extents)
        if not outside.any():
            return None, None
        place = np.unravel_index(int(outside.argmax()), outside.shape)
        return int(values[place]), int(extents[place])


def checked_in(programs: Iterable[Program]) -> Literal[True, "inputs"]:
    """Returns the option `checked` for further shapes of programs: all data if the programs check computed data."""
    checks = [check for program in programs for text in program.guards if (check := DataCheck.parse(text)) is not None]
    return "inputs" if all(check.input for check in checks) else True


def guard_error(text: str, inputs: Mapping[str, object]) -> GuardError:
    """Returns the error of a call that violated a guard."""
    parts = text.split(f"; {_PREFIX}")  # branches of an If join their guards
    checks = [DataCheck.parse(part if place == 0 else _PREFIX + part) for place, part in enumerate(parts)]
    errors = [GuardError(text) if check is None else check.error(inputs) for check in checks]
    return errors[0] if len(errors) == 1 else DataError(", or ".join(map(str, errors)))
