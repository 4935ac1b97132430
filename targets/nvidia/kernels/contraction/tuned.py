"""The schedule that a tuner gave a kernel, before launches are formed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir import ir

from .....dialects import discardable
from .....lowering.linalg_to_vector.schedules.base import given_parameters

PARTS = "parts"
"""The parameter that is the number of parts of the sums, which another launch adds up; 1 for no split."""


def tuned_numbers(kernel: ir.Operation) -> Mapping[str, Any] | None:
    """Returns the parameters of a tuned kernel that differ from the default schedule; None if it is not tuned."""
    recorded = discardable.SCHEDULE.read(kernel)
    if not isinstance(recorded, ir.DictAttr) or recorded["name"] != ir.StringAttr.get("tuned"):
        return None
    return given_parameters(kernel)
