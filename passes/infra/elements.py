"""Elements of pipelines: passes in Python, upstream passes, and nested elements; each has a textual form.

A string may hold one element or several separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .base import Pass
from .discovery import find_pass
from .options import PipelineError, make_pass, print_options, split_balanced

_ELEMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True)
class Upstream:
    """A pass or pass pipeline of MLIR itself, with its options as text."""

    name: str
    options: str = ""

    def __str__(self) -> str:
        return f"{self.name}{{{self.options}}}" if self.options else self.name


@dataclass(frozen=True, init=False)
class Nested:
    """Passes that run on each op called `anchor` directly inside the current op."""

    anchor: str
    elements: tuple[PassElement, ...]

    def __init__(self, anchor: str, elements: Iterable[PassElement | str]) -> None:
        object.__setattr__(self, "anchor", anchor)
        object.__setattr__(self, "elements", tuple(parsed(elements)))

    @classmethod
    def parse(cls, text: str) -> Nested:
        """Parses the textual form, `anchor(element,...)`.

        Raises:
            PipelineError: the text is invalid, or names an unknown pass or option of a Python pass.
        """
        match = _ELEMENT.fullmatch(text.strip())
        rest = match["rest"].strip() if match else ""
        if match is None or not rest.startswith("(") or not rest.endswith(")"):
            raise PipelineError(
                "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'"
            )
        return cls(match["name"], [rest[1:-1]])

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(print_element, self.elements))})"


PassElement = Pass | Upstream | Nested


def print_element(element: PassElement) -> str:
    """The textual form of one element."""
    if not isinstance(element, Pass):
        return str(element)
    options = print_options(element)
    return f"{element.name}{{{options}}}" if options else element.name


def parse_elements(text: str) -> list[PassElement]:
    """Parses elements separated by commas.

    Raises:
        PipelineError: the text is invalid, or names an unknown option of a Python pass.
    """
    return [_parse_element(piece) for piece in split_balanced(text, ",".__eq__)]


def parsed(elements: Iterable[PassElement | str]) -> Iterable[PassElement]:
    """Yields the elements; a string may hold several."""
    for element in elements:
        if isinstance(element, str):
            yield from parse_elements(element)
        else:
            yield element


def _parse_element(text: str) -> PassElement:
    match = _ELEMENT.fullmatch(text)
    if match is None:
        raise PipelineError(f"expected a pass name, but found '{text}'")
    name, rest = match["name"], match["rest"].strip()
    if rest.startswith("(") and rest.endswith(")"):
        return Nested(name, [rest[1:-1]])
    if rest and not (rest.startswith("{") and rest.endswith("}")):
        raise PipelineError(f"expected '{{options}}' or '(passes)' after '{name}', but found '{rest}'")
    options = rest[1:-1].strip()
    python_pass = find_pass(name)
    return Upstream(name, options) if python_pass is None else make_pass(python_pass, options)
