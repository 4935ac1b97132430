"""The environment variables that Stepwell reads (docs/environment.md). An invalid value of any of them is an error.

`STEPWELL_DROP_IN` is read by compat/start.py alone, which loads nothing else of Stepwell.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from .errors import InputError

OFF, ON = ("0", "off", "false", "no"), ("", "1", "on", "true", "yes", "require")
"""The values of `STEPWELL_CACHE`, in any case; an empty value counts as unset."""

SIMULATE = "simulate"
"""The value of `STEPWELL_CUDA` that runs GPU programs on the simulator."""

FAMILY = "family"
"""The value of `STEPWELL_MACHINE` that ignores what was measured."""

DEFAULT_CACHE_MEGABYTES = 4096
"""Maximum size of the cache."""
_MAX_DIGITS = 15
"""Maximum number of digits of a number of megabytes: a choice beyond any disk."""
_SHOWN = 40
"""Number of characters of a wrong value that a message shows."""


class VariableError(InputError):
    """An environment variable has an invalid value; the message lists the allowed ones."""


def cache() -> str:
    """Returns `STEPWELL_CACHE` in lower case: one of `OFF` or `ON`.

    Raises:
        VariableError: it has another value.
    """
    text = _value("STEPWELL_CACHE").lower()
    allowed = (*OFF, *ON)
    return text if text in allowed else _refuse("STEPWELL_CACHE", f"one of {', '.join(filter(None, allowed))}")


def cache_megabytes() -> int:
    """Returns `STEPWELL_CACHE_MEGABYTES`; 4096 by default.

    Raises:
        VariableError: it is not a number of megabytes.
    """
    text = os.environ.get("STEPWELL_CACHE_MEGABYTES", str(DEFAULT_CACHE_MEGABYTES))
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        _refuse("STEPWELL_CACHE_MEGABYTES", "a whole number")
    return int(text)


def is_simulated() -> bool:
    """Returns whether `STEPWELL_CUDA` selects the GPU simulator.

    Raises:
        VariableError: it has another value.
    """
    return bool(_one_of("STEPWELL_CUDA", "", SIMULATE))


def debug_level() -> int:
    """Returns `STEPWELL_DEBUG`: 0 (the default) to 4.

    Raises:
        VariableError: it has another value.
    """
    return int(_one_of("STEPWELL_DEBUG", "", "0", "1", "2", "3", "4") or 0)


def is_guarded() -> bool:
    """Returns whether `STEPWELL_GUARDED` asks for a child process for each compile.

    Raises:
        VariableError: it is neither 0 nor 1.
    """
    return _one_of("STEPWELL_GUARDED", "", "0", "1") == "1"


def ignores_figures() -> bool:
    """Returns whether `STEPWELL_MACHINE` asks for the figures of the processor's family instead of measured ones.

    Raises:
        VariableError: it has an invalid value.
    """
    given_figures()
    return _value("STEPWELL_MACHINE") == FAMILY


def given_figures() -> dict[str, float]:
    """Returns the figures that `STEPWELL_MACHINE` gives, as `l2_bytes=1048576+l2_latency=30`; {} if it gives none.

    Raises:
        VariableError: it has an invalid value.
    """
    text, found = _value("STEPWELL_MACHINE"), {}
    for part in [] if text in ("", FAMILY) else text.split("+"):
        name, _, number = part.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            _refuse("STEPWELL_MACHINE", f"{FAMILY}, or figures as l2_bytes=1048576+l2_latency=30")
    return found


def poison() -> int | None:
    """Returns `STEPWELL_POISON`: the byte to fill memory with; None by default.

    Raises:
        VariableError: it is not a byte.
    """
    text = _value("STEPWELL_POISON")
    if not text:
        return None
    try:
        value = int(text, 16)
    except ValueError:
        value = -1
    return value if 0 <= value <= 0xFF else _refuse("STEPWELL_POISON", "a byte in hexadecimal, such as ff")


def reproducers() -> str:
    """Returns `STEPWELL_REPRODUCERS`: a folder, 0 for none, or "" for the default.

    Raises:
        VariableError: it is a file.
    """
    text = _value("STEPWELL_REPRODUCERS")
    if text not in ("", "0") and Path(text).exists() and not Path(text).is_dir():
        _refuse("STEPWELL_REPRODUCERS", "a folder, or 0 for none")
    return text


CHECKS: tuple[Callable[[], object], ...] = (
    cache,
    cache_megabytes,
    is_simulated,
    debug_level,
    is_guarded,
    ignores_figures,
    poison,
    reproducers,
)


def check() -> None:
    """Checks all variables except those of the onnxruntime drop-in, which checks them itself.

    Raises:
        VariableError: a variable has an invalid value.
    """
    for read in CHECKS:
        read()


def _value(name: str) -> str:
    return os.environ.get(name, "")


def _one_of(name: str, *allowed: str) -> str:
    text = _value(name)
    return text if text in allowed else _refuse(name, f"one of {', '.join(filter(None, allowed))}, or unset")


def _refuse(name: str, expected: str) -> NoReturn:
    raise VariableError(f"{name} is {_value(name)[:_SHOWN]!r}, and must be {expected}")
