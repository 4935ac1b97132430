"""The error for models that cannot be compiled for a range of sizes."""

from __future__ import annotations

from ..infra.base import PassError


class RangesError(PassError):
    """A model contains something that cannot be compiled for a range of sizes; the message says what."""
