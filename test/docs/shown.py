"""Comparison of an output with the one that a page shows."""

from __future__ import annotations

import re

# The number of passes changes with the compiler.
MEASURED = re.compile(
    r"\b\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)? (?:threads?|passes|[num]?s|[kMG]?B|%)(?!\w)"
    r"|\b\d[\d,]*\.\d+(?:e[-+]?\d+)?|\b\d+e[-+]?\d+(?![0-9a-z])|(?:\b|_)[0-9a-f]{8,}(?![0-9a-z])"
)


def prints(shown: str, output: str) -> bool:
    """Returns whether an output matches the one shown."""
    lines = [_pattern(line) for line in shown.splitlines() if line.strip()]
    text = "".join(f"{_plain(line)}\n" for line in output.splitlines() if line.strip())
    return re.fullmatch("".join(lines), text) is not None


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in _plain(line).split("...")) + r"\n"


def _plain(line: str) -> str:
    return " ".join(MEASURED.sub("#", line).split())
