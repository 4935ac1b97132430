"""Formats of model files by suffix; a program in the cache is found without the importers."""

from __future__ import annotations

from pathlib import Path

_SUFFIXES: dict[str, tuple[str, ...]] = {}
"""The suffixes of each format: those built in (`driver/sources`), and those of other packages (`frontend/registry.py`).
"""


def add_format(name: str, suffixes: tuple[str, ...]) -> None:
    """Makes the suffixes of a format known.

    Raises:
        ValueError: another format has the name or one of the suffixes.
    """
    if name in _SUFFIXES:
        raise ValueError(f"two frontends are called '{name}'")
    for other, taken in _SUFFIXES.items():
        shared = set(taken) & set(suffixes)
        if shared:
            raise ValueError(f"the frontends '{other}' and '{name}' both import {sorted(shared)[0]} files")
    _SUFFIXES[name] = suffixes


def format_of(path: Path) -> str:
    """Returns the name of the format of a file by its suffix; "onnx" for other suffixes."""
    return next((name for name, suffixes in _SUFFIXES.items() if path.suffix in suffixes), "onnx")


def known_suffixes() -> tuple[str, ...]:
    """Returns the suffixes of all known formats, in alphabetical order."""
    return tuple(sorted(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes))
