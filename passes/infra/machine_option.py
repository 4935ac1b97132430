"""The option `machine` of passes: a description in place of the machine that the compile is for."""

from __future__ import annotations

from ...machines import names
from ...machines.machine import Machine
from .base import PassError
from .state import DEFAULT_TARGET, CompileState

WHOLE_ROWS = f"{DEFAULT_TARGET}+vector_bytes={1 << 40}"
"""A machine with vectors so wide that every row of a weight fits into one."""


def machine_of(text: str, state: CompileState) -> Machine:
    """Returns the machine of the compile, or the one with a text, as `machines.names.parse` reads it.

    Raises:
        PassError: the text names no machine, or is malformed.
    """
    try:
        return names.parse(text) if text else state.machine
    except names.MachineError as error:
        raise PassError(str(error)) from None
