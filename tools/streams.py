"""Standard streams for tools: open, and able to print every name."""

from __future__ import annotations

import io
import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_SHOWS_FILES = ("surrogateescape", "utf-8")


def open_streams() -> None:
    """Opens closed standard streams on the null device.

    Python sets a closed stream to None, which cannot be printed to. Worse, the next file that is opened gets its
    number: messages of native code would be written into a model or the cache.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is not None:
            continue
        if not _is_open(number):
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  open for the life of the process


def show_all_names() -> None:
    """Makes stdout escape characters that its encoding lacks: names in models and of files may be any bytes."""
    if isinstance(sys.stdout, io.TextIOWrapper) and (sys.stdout.errors, sys.stdout.encoding) != _SHOWS_FILES:
        sys.stdout.reconfigure(errors="backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
