"""Identifies failures: by the pass or kind of error, and the message without incidental parts.

Reducing changes names, shapes and numbers, so these do not identify a failure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_SHAPE = re.compile(r"(?<![\w.])(?:(?:\d+|\?)x)+(?=[\w!?])")
_ADDRESS = re.compile(r"(?<!\w)0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\?)(?![\w])")
_LIST = re.compile(r"#(?:\s*,\s*#)+,?")
_SYMBOL = re.compile(r"[@%^][\w.$#-]+")
_PLACE = re.compile(r"loc\((?:\"[^\"]*\"|[^()]|\([^()]*\))*\)|\"[^\"\n]*\":\d+:\d+:?")
_ASSERTION = re.compile(
    r"Assertion [`'](?P<text>.*)' failed|(?P<error>LLVM ERROR: .*)|(?P<fatal>Fatal Python error: .*)"
)
_QUOTED = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")


@dataclass(frozen=True)
class FailureSignature:
    """One failure of a model.

    Attributes:
        kind: "pass", "error", "host" (a node without native code), "crash", "time", "memory", "numbers" or "command".
        where: the pass, the class of the exception, or the operator; "" if unknown.
        message: the message, in one line.
        pattern: the message without names, numbers and shapes.
        place: the reported locations in the model, which contain the names of its nodes.
    """

    kind: str
    where: str
    message: str
    pattern: str
    place: str = ""

    def is_like(self, other: FailureSignature) -> bool:
        """Returns whether both are the same failure, perhaps at different nodes."""
        return (self.kind, self.where, self.pattern) == (other.kind, other.where, other.pattern)

    @property
    def text(self) -> str:
        """The failure in one line, which `--match` searches."""
        head = {"pass": f"pass '{self.where}' failed", "crash": "crash", "time": "no end", "memory": "out of memory"}
        start = head.get(self.kind, self.where)
        if self.kind in ("crash", "time", "memory") and self.where:
            start += f" in {self.where}"
        return ": ".join(part for part in (start, self.message) if part)

    def record(self) -> dict[str, str]:
        """Its fields, for JSON."""
        return {"kind": self.kind, "where": self.where, "message": self.message, "pattern": self.pattern}


def failure(kind: str, where: str, message: str, names: Collection[str] = (), place: str = "") -> FailureSignature:
    """Creates a failure from the first line of a message; `names` are those of nodes and values."""
    lines = message.strip().splitlines()
    line = lines[0].strip() if lines else ""
    return FailureSignature(kind, where, line, normalised(line, names), place)


def normalised(message: str, names: Collection[str] = ()) -> str:
    """Removes locations, shapes, numbers and names from a message.

    "'stepwell.add' op takes tensor<3x?xf32> at %12" --> "'stepwell.add' op takes tensor<#xf32> at %"
    """
    text = message.partition("see current operation")[0]
    known = set(names)

    def unnamed(match: re.Match[str]) -> str:
        inner = match[1] if match[1] is not None else match[2]
        return "'*'" if inner in known else match[0]

    text = _PLACE.sub("loc", text)
    text = _QUOTED.sub(unnamed, text)
    text = _SYMBOL.sub(lambda match: match[0][0], text)
    text = _SHAPE.sub("#x", _ADDRESS.sub("#", text))
    text = _LIST.sub("#", _NUMBER.sub("#", text))
    return " ".join(text.split())


def crash_message(signal_name: str, output: str) -> str:
    """Returns the message that identifies a crash: the assertion or fatal error that was printed, else the signal."""
    found = _ASSERTION.search(output)
    if found is None:
        return signal_name
    return next(text for text in (found["text"], found["error"], found["fatal"]) if text is not None)
