"""Figures of this machine, as fields of `machines.machine.Machine`: sizes of caches, and measured rates and times.

`stepwell-bench machine` measures them and keeps them in the cache; code for the target `cpu` then uses them.
`STEPWELL_MACHINE=family` ignores them, and `STEPWELL_MACHINE=l2_bytes=1048576` replaces some.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ...support import environment
from ...support.cores import available_cores
from .. import processor
from ..cache.cache import Cache, default_cache
from ..cache.keys import key_of

_KIND, _VERSION = "machine", "1"
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_PRIVATE = (1, 2)
"""Levels of caches that belong to one core."""


@dataclass(frozen=True)
class MachineFigures:
    """Measured figures.

    Attributes:
        figures: numbers by the fields of `Machine`.
        is_disturbed: whether other processes used the machine, so that rates are too low and times too long.
    """

    figures: Mapping[str, float]
    is_disturbed: bool = False


def keep(measured: MachineFigures, cache: Cache | None) -> bool:
    """Stores figures for later compiles, unless they are disturbed or there is no cache; returns whether it did so."""
    if cache is None or measured.is_disturbed:
        return False
    cache.put(_KIND, _key(), json.dumps(asdict(measured)).encode())
    figures.cache_clear()
    return True


def kept(cache: Cache | None) -> dict[str, float]:
    """Returns the figures in a cache; {} if there are none."""
    data = None if cache is None else cache.get(_KIND, _key())
    return {} if data is None else dict(json.loads(bytes(data))["figures"])


@functools.cache
def figures() -> Mapping[str, float]:
    """Returns the known figures of this machine, by fields of `Machine`: sizes of its caches, kept and given figures.

    Raises:
        VariableError: `STEPWELL_MACHINE` has an invalid value.
    """
    measured = {} if environment.ignores_figures() else kept(default_cache())
    return {**cache_bytes(), **measured, **environment.given_figures()}


def text() -> str:
    """Returns `figures` as text, for keys of caches."""
    return " ".join(f"{name}={value!r}" for name, value in sorted(figures().items()))


def cache_bytes() -> dict[str, int]:
    """Returns the sizes of the data caches that one core sees, by fields of `Machine`.

    A virtual machine reports the last level of its host, which it shares with others: that is left out.
    """
    is_virtual = processor.is_virtual()
    return {f"l{level}_bytes": size for level, size in reported_caches().items() if level in _PRIVATE or not is_virtual}


def reported_caches() -> dict[int, int]:
    """Returns the sizes in bytes of the first CPU's data caches by level; {} if the system does not report them."""
    found: dict[int, int] = {}
    for folder in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue  # containers may hide them
        if kind != "Instruction" and level in ("1", "2", "3") and size.endswith("K"):
            found[int(level)] = int(size[:-1]) << 10
    return found


def _key() -> str:
    return key_of(_VERSION, *sorted(processor.features() or ()), str(available_cores()))
