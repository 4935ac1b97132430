"""Report of the values that a training step keeps for its backward pass, and of those that it computes again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..support.short_repr import size_of
from ..support.tables import aligned
from ..support.wording import quantity


@dataclass(frozen=True)
class ForwardValue:
    """A value of the forward pass that the backward pass needs.

    Attributes:
        node: the op of the model that computes it.
        bytes: its size.
        seconds: estimated time of computing it again.
        is_repeated: whether it is computed again, not kept.
        why: the reason.
    """

    node: str
    bytes: int
    seconds: float
    is_repeated: bool
    why: str = ""


@dataclass(frozen=True)
class Recomputation:
    """A plan of the memory of a training step.

    Attributes:
        budget: the bytes that were allowed for values between forward and backward pass, and all others in the step.
        peak: the bytes that the step takes for them.
        without: the bytes that it would take if nothing were computed again.
        seconds: estimated time of all that is computed again.
        values: the values that the backward pass needs, and others that are computed again for these.
    """

    budget: int
    peak: int
    without: int
    seconds: float
    values: tuple[ForwardValue, ...]

    @property
    def kept(self) -> tuple[ForwardValue, ...]:
        """The values that are kept."""
        return tuple(value for value in self.values if not value.is_repeated)

    @property
    def repeated(self) -> tuple[ForwardValue, ...]:
        """The values that are computed again."""
        return tuple(value for value in self.values if value.is_repeated)

    def record(self) -> dict[str, Any]:
        """Returns the plan as a record for JSON."""
        return asdict(self)

    @staticmethod
    def read(record: Mapping[str, Any]) -> Recomputation:
        """Reads the record that JSON made of it.

        Raises:
            KeyError, ValueError, TypeError: it is not such a record.
        """
        values = tuple(
            ForwardValue(
                str(value["node"]),
                int(value["bytes"]),
                float(value["seconds"]),
                bool(value["is_repeated"]),
                str(value["why"]),
            )
            for value in record["values"]
        )
        budget, peak, without = (int(record[name]) for name in ("budget", "peak", "without"))
        return Recomputation(budget, peak, without, float(record["seconds"]), values)

    def __str__(self) -> str:
        kept = sum(value.bytes for value in self.kept)
        head = (
            f"peak {size_of(self.peak)} of {size_of(self.budget)} allowed; {size_of(self.without)} if nothing were "
            f"computed again\n{quantity(len(self.kept), 'value')} kept, {size_of(kept)}; "
            f"{quantity(len(self.repeated), 'value')} computed again, in about {self.seconds * 1e3:.3g} ms"
        )
        ordered = sorted(self.values, key=lambda value: (not value.is_repeated, -value.bytes))
        rows = [
            [
                value.node,
                "again" if value.is_repeated else "kept",
                size_of(value.bytes),
                f"{value.seconds * 1e6:.3g} us",
                value.why,
            ]
            for value in ordered
        ]
        return f"{head}\n{aligned(['node', 'value', 'size', 'time to compute', 'why'], rows, numbers=(2, 3))}"
