"""Prints diagnostics in the format of `mlir-opt`, with source line and caret, and checks expected ones in tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

from .bindings import ir
from .sources import SourceText

# The bindings create this class at start-up, so type checkers cannot see it.
MLIRError: Any = vars(ir)["MLIRError"]

_SEVERITIES = {
    ir.DiagnosticSeverity.ERROR: "error",
    ir.DiagnosticSeverity.WARNING: "warning",
    ir.DiagnosticSeverity.NOTE: "note",
    ir.DiagnosticSeverity.REMARK: "remark",
}
_COLOURS = {"error": "\x1b[0;1;31m", "warning": "\x1b[0;1;35m", "note": "\x1b[0;1;30m", "remark": "\x1b[0;1;34m"}
_PLAIN, _BOLD, _GREEN = "\x1b[0m", "\x1b[1m", "\x1b[0;1;32m"
_TAB = 8
"""Distance between tab stops, as in the diagnostics of LLVM (llvm/lib/Support/SourceMgr.cpp)."""
# MLIR's parser warns that it ignores resources of unknown tools; Stepwell keeps them, so the warning is wrong.
_RESOURCE_WARNING = "ignoring unknown external resources for "
_MOST_CALLS = 10
"""Maximum number of callers that are printed, as in MLIR (`callStackLimit` of SourceMgrDiagnosticHandler)."""


@contextmanager
def listening(context: ir.Context, handler: Callable[[ir.Diagnostic], bool]) -> Iterator[None]:
    """Attaches `handler` to the diagnostics of the context, and disables its multithreading, also after the block.

    A worker thread of MLIR that emits a diagnostic would wait for Python's lock, held by the thread waiting for it.
    """
    context.enable_multithreading(False)
    attached: Any = context.attach_diagnostic_handler(handler)
    with attached:
        yield


def report_violations(root: ir.Operation) -> bool:
    """Emits an error for each stepwell op that violates its invariants; returns whether there is any."""
    from ...dialects.verifier import violations  # imported late: IR without stepwell ops does not need the dialect

    found = list(violations(root))
    for violation in found:
        violation.location.emit_error(violation.message)
    return bool(found)


class FileLocation(NamedTuple):
    """The fields of a file location."""

    filename: str
    line: int
    column: int


def find_place(location: ir.Location) -> FileLocation | None:
    """The first file location inside `location`, if any."""
    return next(_places(location), None)


def _places(location: ir.Location) -> Iterator[FileLocation]:
    if location.is_a_file():
        yield FileLocation(location.filename, location.start_line, location.start_col)
    elif location.is_a_name():
        yield from _places(location.child_loc)
    elif location.is_a_callsite():
        yield from _places(location.callee)
        yield from _places(location.caller)
    elif location.is_a_fused():
        for part in location.locations:
            yield from _places(part)


def _call(location: ir.Location) -> ir.Location | None:
    """The first call site in a location, looking through names and fused locations."""
    if location.is_a_name():
        return _call(location.child_loc)
    if location.is_a_fused():
        return next((found for part in location.locations if (found := _call(part)) is not None), None)
    return location if location.is_a_callsite() else None


def _callers(location: ir.Location) -> Iterator[ir.Location]:
    """The callers of a location, innermost first, limited to the number that MLIR prints."""
    for _ in range(_MOST_CALLS):
        call = _call(location)
        if call is None:
            return
        location = call.caller
        yield location


class DiagnosticPrinter:
    """Prints the diagnostics of a context as they come; a handler for `Context.attach_diagnostic_handler`.

    Args:
        source: text that is being compiled.
        stream: stream to print to.
        hidden: severities that are not printed.
        has_colours: whether to print with the colours of a terminal.
    """

    def __init__(
        self, source: SourceText, stream: TextIO, hidden: tuple[str, ...] = (), has_colours: bool = False
    ) -> None:
        self._source, self._stream, self._hidden, self._has_colours = source, stream, hidden, has_colours
        self._others: dict[str, SourceText | None] = {}

    def __call__(self, diagnostic: ir.Diagnostic) -> bool:
        """Prints a diagnostic with its call stack and notes; returns True, which marks it as handled."""
        severity = _SEVERITIES[diagnostic.severity]
        if diagnostic.message.startswith(_RESOURCE_WARNING) or severity in self._hidden:
            return True
        shown = diagnostic.location
        self.print(shown, severity, diagnostic.message)
        for shown in _callers(diagnostic.location):
            self.print(shown, "note", "called from")
        for note in diagnostic.notes:
            self.print(note.location, "note", note.message, show_line=note.location != shown)
            shown = note.location
        return True

    def print(self, location: ir.Location, severity: str, message: str, show_line: bool = True) -> None:
        """Prints one message and, if `show_line` is set and the line is known, its source line."""
        place = find_place(location)
        if place is None:
            prefix = "" if str(location) == "loc(unknown)" else f"{location}: "
            self._write("<unknown>:0", severity, f"{prefix}{message}")
            return
        source = self._source_of(place.filename) if place.line and place.column else None
        title = self._source.title if place.filename == self._source.filename else place.filename
        line = source.line(place.line) if source is not None and show_line else None
        self._write(f"{title}:{place.line}:{place.column}", severity, message)
        if line is not None:
            self._stream.write(self._painted(_caret_block(line, place.column)))

    def point(self, line: int, column: int, severity: str, message: str, length: int = 1) -> None:
        """Prints a message about a position in the source itself, with `length` characters underlined."""
        self._write(f"{self._source.title}:{line}:{column}", severity, message)
        text = self._source.line(line)
        if text is not None:
            self._stream.write(self._painted(_caret_block(text, column, length)))

    def _write(self, place: str, severity: str, message: str) -> None:
        if not self._has_colours:
            self._stream.write(f"{place}: {severity}: {message}\n")
            return
        self._stream.write(
            f"{_BOLD}{place}: {_PLAIN}{_COLOURS[severity]}{severity}: {_PLAIN}{_BOLD}{message}\n{_PLAIN}"
        )

    def _painted(self, block: str) -> str:
        line, _, caret = block.partition("\n")
        return f"{line}\n{_GREEN}{caret}{_PLAIN}" if self._has_colours and caret else block

    def _source_of(self, filename: str) -> SourceText | None:
        """The source itself, or the file that a location names; None if that cannot be read."""
        if filename == self._source.filename:
            return self._source
        if filename not in self._others:
            try:
                with open(filename, "rb") as file:
                    self._others[filename] = SourceText(filename, filename, file.read())
            except (OSError, ValueError):
                self._others[filename] = None
        return self._others[filename]


def _caret_block(line: bytes, column: int, length: int = 1) -> str:
    """The line and, if it is ASCII, a caret under the column; tabs are expanded as in LLVM."""
    text = line.decode(errors="surrogateescape")
    if not line.isascii():
        return f"{text.expandtabs(_TAB)}\n"
    at = min(column - 1, len(line))
    marks = f"{' ' * at}^{'~' * (min(at + length, len(line)) - at - 1)}"
    widened, width = [], 0
    for place, mark in enumerate(marks):
        repeat = _TAB - width % _TAB if place < len(text) and text[place] == "\t" else 1
        widened.append(mark * repeat)
        width += repeat
    return f"{text.expandtabs(_TAB)}\n{''.join(widened)}\n"


class Expectation:
    """One `expected-error {{text}}` in a test.

    Args:
        severity: severity of the diagnostic.
        text: text that the message must contain.
        line: line of the diagnostic, counted from one; None if its location must be unknown.
        pattern: regular expression that the message must match, instead of containing the text.
        written_at: line and column of the comment.
    """

    def __init__(
        self, severity: str, text: str, line: int | None, pattern: re.Pattern[str] | None, written_at: tuple[int, int]
    ) -> None:
        self.severity, self.text, self.line = severity, text, line
        self.pattern, self.written_at, self.is_met = pattern, written_at, False

    def accepts(self, message: str) -> bool:
        """Returns whether the message fits the expectation, regardless of severity."""
        return self.text in message if self.pattern is None else self.pattern.search(message) is not None


_OP_NOTE = "see current operation: "
_DIRECTIVE = re.compile(
    r"expected-(?P<severity>error|note|remark|warning)(?P<regex>-re)? *"
    r"(?:@(?P<where>[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*)\}\}$"
)


def read_expectations(text: str, complain: Callable[[int, int, str, int], None]) -> list[Expectation]:
    """The expectations written in the comments of a test.

    Args:
        text: the test.
        complain: called for each invalid regular expression with line, column, message and the length to underline.
    """
    expectations: list[Expectation] = []
    waiting: list[Expectation] = []
    last_plain_line = 1
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        match = _DIRECTIVE.search(line.rstrip()) if "expected-" in line else None
        if match is None:
            for expectation in waiting:
                expectation.line = number
            waiting, last_plain_line = [], number
            continue
        try:
            expectation = _expectation(match, number)
        except re.error as error:
            # MLIR's own wording of the most frequent error.
            fault = "parentheses not balanced" if "parenthesis" in error.msg or "subpattern" in error.msg else error.msg
            complain(number, match.start() + 1, f"invalid regex: {fault}", len(match["text"]))
            continue
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
    """A pattern of literal text with regular expressions in double braces, as in FileCheck."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(f"(?:{part})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts)))


class DiagnosticVerifier:
    """Compares the diagnostics of a context with the expected ones; a handler for `attach_diagnostic_handler`.

    Args:
        source: the test.
        stream: stream to which mismatches are printed.
        only_expected: whether to ignore diagnostics without an expectation.
    """

    def __init__(self, source: SourceText, stream: TextIO, only_expected: bool = False) -> None:
        self._source, self._only_expected = source, only_expected
        self._printer = DiagnosticPrinter(source, stream)
        self.has_failed = False
        self._expectations = read_expectations(source.text, self._complain)

    def _complain(self, line: int, column: int, message: str, length: int) -> None:
        self._printer.point(line, column, "error", message, length)
        self.has_failed = True

    def __call__(self, diagnostic: ir.Diagnostic) -> bool:
        """Matches the diagnostic and its notes with the expectations; returns True, which marks it as handled."""
        if diagnostic.message.startswith(_RESOURCE_WARNING):
            return True
        self._process(diagnostic.location, _SEVERITIES[diagnostic.severity], diagnostic.message)
        for note in diagnostic.notes:
            # MLIR attaches the op itself to every error; `mlir-opt` disables that when it checks diagnostics.
            if not note.message.startswith(_OP_NOTE):
                self._process(note.location, "note", note.message)
        return True

    def finish(self) -> bool:
        """Reports expected diagnostics that were not produced; returns whether everything was as expected."""
        for expectation in self._expectations:
            if not expectation.is_met:
                message = f'expected {expectation.severity} "{expectation.text}" was not produced'
                self._complain(*expectation.written_at, message, len(expectation.text))
        return not self.has_failed

    def _process(self, location: ir.Location, severity: str, message: str) -> None:
        place = find_place(location)
        is_ours = place is None or place.filename == self._source.filename
        line = None if place is None else place.line
        here = [item for item in self._expectations if is_ours and item.line == line and item.accepts(message)]
        for expectation in here:
            if expectation.severity == severity:
                expectation.is_met = True
                return
        if here:
            message = f"'{severity}' diagnostic emitted when expecting a '{here[-1].severity}'"
            self._complain(*here[-1].written_at, message, 1)
        elif not self._only_expected:
            self._printer.print(location, "error", f"unexpected {severity}: {message}")
            self.has_failed = True
