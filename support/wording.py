"""Wording of messages."""

from __future__ import annotations

from collections.abc import Sequence

_IRREGULAR = {"axis": "axes", "index": "indices", "matrix": "matrices"}


def quantity(number: object, noun: str) -> str:
    """Returns a number, or a symbol for one, with its noun: "1 kernel", "2 kernels", "n entries"."""
    return f"{number} {noun}" if str(number) == "1" else f"{number} {plural(noun)}"


def listed(items: Sequence[object], most: int = 8) -> str:
    """Returns the items of a list in a sentence: "1, 2 and 3"; beyond `most` of them, the first ones and "..."."""
    shown = [*map(str, items[:most]), *(["..."] if len(items) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def plural(noun: str) -> str:
    """Returns the plural of a noun phrase, whose last word is inflected: "model inputs"."""
    head, space, last = noun.rpartition(" ")
    if last in _IRREGULAR:
        ending = _IRREGULAR[last]
    elif last.endswith(("s", "x", "ch", "sh")):
        ending = f"{last}es"
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        ending = f"{last[:-1]}ies"
    else:
        ending = f"{last}s"
    return f"{head}{space}{ending}"


def duration(seconds: float) -> str:
    """Formats a time in the unit that keeps it short."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        number = seconds * factor
        if number >= 1 or unit == "us":
            # Larger numbers would be written with an exponent.
            return f"{number:.3g} {unit}" if number < 999.5 else f"{number:.0f} {unit}"
    return ""
