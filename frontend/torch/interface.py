"""Facts about a program that calls need, kept in the cache: a later process need not decompose the program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .signature import Input, Output


@dataclass(frozen=True)
class CallInterface:
    """Inputs and outputs of a program, and the facts that decide how it is compiled.

    Attributes:
        inputs: its placeholders in order.
        outputs: its results in order.
        ranges: minimum and maximum of each symbolic dimension of the inputs; None if there is no maximum.
        needs_pieces: True if its code is in pieces even though all of its ops have code.
    """

    inputs: Sequence[Input]
    outputs: Sequence[Output]
    ranges: Mapping[str, tuple[int, int | None]]
    needs_pieces: bool

    def text(self) -> str:
        """Returns it as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str | bytes) -> CallInterface:
        """Reads what `text` returned."""
        record = json.loads(text)
        return CallInterface(
            [Input(**item) for item in record["inputs"]],
            [Output(**item) for item in record["outputs"]],
            {name: (low, high) for name, (low, high) in record["ranges"].items()},
            record["needs_pieces"],
        )
