"""Warnings that name the line of the caller of Stepwell."""

from __future__ import annotations

import sys
import warnings

from .errors import StepwellWarning


def warn(message: str, category: type[Warning] = StepwellWarning) -> None:
    """Issues a warning at the line of the code that called Stepwell."""
    warnings.warn(message, category, stacklevel=_users_level())


def _users_level() -> int:
    """Returns the `stacklevel` of the first caller of `warn` outside of the package; that of the last if none is."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
