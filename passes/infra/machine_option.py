"""The option `machine` of passes: the text of a description, as `machines.names.parse` reads it."""

from __future__ import annotations

from ...machines import names
from ...machines.machine import Machine
from .base import PassError

DEFAULT = "x86-64-v4"
"""The machine of a pass that is run alone."""

WHOLE_ROWS = f"{DEFAULT}+vector_bytes={1 << 40}"
"""A machine with vectors so wide that every row of a weight fits into one."""


def machine_of(text: str) -> Machine:
    """Returns the machine that a pass was given.

    Raises:
        PassError: the text names no machine, or is malformed.
    """
    try:
        return names.parse(text)
    except names.MachineError as error:
        raise PassError(str(error)) from None
