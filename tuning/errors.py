"""Errors of the tuner."""

from __future__ import annotations

from ..support.errors import StepwellError


class TuningError(StepwellError):
    """A model cannot be tuned, or what was found cannot be used; the message says why and what to do."""
