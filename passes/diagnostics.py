"""Diagnostics as `mlir-opt` prints them, with the source line and a caret, and the check of expected ones in tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from mlir import ir

from ..dialects.verifier import violations
from .reproducer import PARSER_WARNING
from .sources import Source

# The bindings make this class as they start, where type checkers do not see it.
MLIRError: Any = vars(ir)["MLIRError"]

_SEVERITIES = {
    ir.DiagnosticSeverity.ERROR: "error",
    ir.DiagnosticSeverity.WARNING: "warning",
    ir.DiagnosticSeverity.NOTE: "note",
    ir.DiagnosticSeverity.REMARK: "remark",
}


@contextmanager
def listening(context: ir.Context, handler: Callable[[ir.Diagnostic], bool]) -> Iterator[None]:
    """Lets `handler` have the diagnostics of the context, whose work is done by one thread from here on.

    Another thread of MLIR's would wait for Python's lock, which the thread that waits for it holds.
    """
    context.enable_multithreading(False)
    attached: Any = context.attach_diagnostic_handler(handler)
    with attached:
        yield


def report_violations(root: ir.Operation) -> bool:
    """Emits an error for each stepwell op that breaks its rules; returns whether there is any."""
    found = list(violations(root))
    for violation in found:
        violation.location.emit_error(violation.message)
    return bool(found)


@dataclass(frozen=True)
class Place:
    """A file location taken apart."""

    filename: str
    line: int
    column: int


def find_place(location: ir.Location) -> Place | None:
    """The first file location inside `location`, if any."""
    return next(_places(location), None)


def _places(location: ir.Location) -> Iterator[Place]:
    if location.is_a_file():
        yield Place(location.filename, location.start_line, location.start_col)
    elif location.is_a_name():
        yield from _places(location.child_loc)
    elif location.is_a_callsite():
        yield from _places(location.callee)
        yield from _places(location.caller)
    elif location.is_a_fused():
        for part in location.locations:
            yield from _places(part)


class DiagnosticPrinter:
    """Prints the diagnostics of a context as they come; a handler for `Context.attach_diagnostic_handler`."""

    def __init__(self, source: Source, stream: TextIO) -> None:
        self._source, self._stream = source, stream
        self.had_error = False

    def __call__(self, diagnostic: ir.Diagnostic) -> bool:
        """Prints a diagnostic with its call stack and notes, and says that it is dealt with."""
        if diagnostic.message == PARSER_WARNING:
            return True
        self.had_error |= diagnostic.severity == ir.DiagnosticSeverity.ERROR
        location = diagnostic.location
        self.print(location, _SEVERITIES[diagnostic.severity], diagnostic.message)
        while location.is_a_callsite():
            location = location.caller
            self.print(location, "note", "called from")
        shown = diagnostic.location
        for note in diagnostic.notes:
            self.print(note.location, "note", note.message, show_line=note.location != shown)
            shown = note.location
        return True

    def print(self, location: ir.Location, severity: str, message: str, show_line: bool = True) -> None:
        """Prints one message with, if asked and known, the line of source that it is about."""
        place = find_place(location)
        if place is None:
            prefix = "" if str(location) == "loc(unknown)" else f"{location}: "
            self._stream.write(f"<unknown>:0: {severity}: {prefix}{message}\n")
            return
        is_ours = place.filename == self._source.filename
        title = self._source.title if is_ours else place.filename
        self._stream.write(f"{title}:{place.line}:{place.column}: {severity}: {message}\n")
        line = self._source.line(place.line) if is_ours and show_line else None
        if line is not None:
            self._stream.write(f"{_caret_block(line, place.column)}\n")


def _caret_block(line: str, column: int) -> str:
    """The line and a caret under its column, tabs widened as LLVM does."""
    indent = len(line[: column - 1].expandtabs(8))
    return f"{line.expandtabs(8)}\n{' ' * indent}^"


@dataclass
class Expectation:
    """One `expected-error {{text}}` in a test."""

    severity: str
    text: str
    line: int | None
    pattern: re.Pattern[str] | None
    written_at: tuple[int, int]
    is_met: bool = field(default=False)

    def accepts(self, message: str) -> bool:
        """Whether the message is what was meant, whatever its severity."""
        return self.text in message if self.pattern is None else self.pattern.search(message) is not None


_OP_NOTE = "see current operation: "
_DIRECTIVE = re.compile(
    r"expected-(?P<severity>error|note|remark|warning)(?P<regex>-re)? *"
    r"(?:@(?P<where>[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*?)\}\}(?=\s*$|[^}].*?expected-|\s*//)"
)


def read_expectations(text: str) -> list[Expectation]:
    """The expectations that are written in the comments of a test.

    Raises:
        re.error: the regular expression of an `expected-...-re` is wrong.
    """
    expectations: list[Expectation] = []
    waiting: list[Expectation] = []
    last_plain_line = 1
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        found = list(_DIRECTIVE.finditer(line.rstrip()))
        if not found:
            for expectation in waiting:
                expectation.line = number
            waiting, last_plain_line = [], number
        for match in found:
            expectation = _expectation(match, number)
            if match["where"] == "above":
                expectation.line = last_plain_line
            elif match["where"] == "below":
                expectation.line = len(lines)
                waiting.append(expectation)
            expectations.append(expectation)
    return expectations


def _expectation(match: re.Match[str], number: int) -> Expectation:
    where = match["where"] or "+0"
    line = None if where == "unknown" else number + int(where) if where[0] in "+-" else number
    pattern = _regex_of(match["text"]) if match["regex"] else None
    return Expectation(match["severity"], match["text"], line, pattern, (number, match.start() + 1))


def _regex_of(text: str) -> re.Pattern[str]:
    """Literal text with regular expressions in double braces, as FileCheck has it."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(f"(?:{part})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts)))


class DiagnosticVerifier:
    """Compares the diagnostics of a context with the expected ones; a handler for `attach_diagnostic_handler`."""

    def __init__(self, source: Source, stream: TextIO, only_expected: bool = False) -> None:
        self._source, self._only_expected = source, only_expected
        self._printer = DiagnosticPrinter(source, stream)
        self._expectations = read_expectations(source.text)
        self._stream = stream
        self.has_failed = False

    def __call__(self, diagnostic: ir.Diagnostic) -> bool:
        """Looks for an expectation of the diagnostic and of each of its notes, and says that it is dealt with."""
        if diagnostic.message == PARSER_WARNING:
            return True
        self._process(diagnostic.location, _SEVERITIES[diagnostic.severity], diagnostic.message)
        for note in diagnostic.notes:
            # MLIR adds the op itself to every error; `mlir-opt` turns that off where diagnostics are checked.
            if not note.message.startswith(_OP_NOTE):
                self._process(note.location, "note", note.message)
        return True

    def finish(self) -> bool:
        """Reports what was expected and did not come; returns whether all was as expected."""
        for expectation in self._expectations:
            if not expectation.is_met:
                message = f'expected {expectation.severity} "{expectation.text}" was not produced'
                self._report(expectation, message)
        return not self.has_failed

    def _process(self, location: ir.Location, severity: str, message: str) -> None:
        place = find_place(location)
        line = place.line if place is not None and place.filename == self._source.filename else None
        here = [item for item in self._expectations if item.line == line and item.accepts(message)]
        for expectation in here:
            if expectation.severity == severity:
                expectation.is_met = True
                return
        if here:
            self._report(here[-1], f"'{severity}' diagnostic emitted when expecting a '{here[-1].severity}'")
        elif not self._only_expected:
            self._printer.print(location, "error", f"unexpected {severity}: {message}")
            self.has_failed = True

    def _report(self, expectation: Expectation, message: str) -> None:
        line, column = expectation.written_at
        text = self._source.line(line) or ""
        self._stream.write(f"{self._source.title}:{line}:{column}: error: {message}\n{_caret_block(text, column)}\n")
        self.has_failed = True
