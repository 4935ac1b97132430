"""Expected diagnostics are read from comments, and diagnostics are printed, as in `mlir-opt`."""

from __future__ import annotations

import io

import pytest
from mlir import ir
from stepwell.passes.infra.diagnostics import DiagnosticPrinter, DiagnosticVerifier, listening, read_expectations
from stepwell.passes.infra.sources import SourceText, split_source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("op // expected-error {{a}}", [("error", "a", 1)]),
        ("// expected-error@+1 {{a}}\nop", [("error", "a", 2)]),
        ("\nop\n// expected-warning@-1 {{a}}", [("warning", "a", 2)]),
        ("op\n// expected-note@above {{a}}\n// expected-remark@above {{b}}", [("note", "a", 1), ("remark", "b", 1)]),
        ("// expected-error@below {{a}}\n// expected-note@below {{b}}\nop", [("error", "a", 3), ("note", "b", 3)]),
        ("// expected-error@unknown {{a}}", [("error", "a", None)]),
        ("op // expected-error {{a}} expected-note {{b}}", [("error", "a}} expected-note {{b", 1)]),
        ("op // expected-error@+0 {{a {{b}} c}}", [("error", "a {{b}} c", 1)]),
        ("op // expected-error {{a}} {{b}}", [("error", "a}} {{b", 1)]),
        ("op // no directive", []),
    ],
)
def test_directives(text: str, expected: list[tuple[str, str, int | None]]) -> None:
    assert [(item.severity, item.text, item.line) for item in read_expectations(text, complain)] == expected


def complain(line: int, column: int, message: str, length: int) -> None:
    pytest.fail(f"{line}:{column}: {message}, {length} characters")


def test_regular_expressions_stand_in_double_braces() -> None:
    (expectation,) = read_expectations("// expected-error-re {{rank {{[0-9]+}} (of 3.)}}", complain)
    assert expectation.accepts("it has rank 12 (of 3.)!")
    assert not expectation.accepts("it has rank x (of 3.)")
    assert not expectation.accepts("it has rank 1 (of 3!)")


def emitted(handler_class: type, source: SourceText, location: str, message: str) -> tuple[str, object]:
    """Returns the output of a handler when an error is emitted at a location."""
    stream = io.StringIO()
    context = ir.Context()
    context.emit_error_diagnostics = True
    handler = handler_class(source, stream)
    with context, listening(context, handler):
        ir.Module.parse(f"module {{ }} {location}").operation.location.emit_error(message)
    return stream.getvalue(), handler


SOURCE = SourceText("model.mlir", "shown.mlir", b"first\n\tsecond line\n")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ('loc("model.mlir":2:2)', "shown.mlir:2:2: error: oh\n        second line\n        ^\n"),
        ('loc("named"("model.mlir":1:3))', "shown.mlir:1:3: error: oh\nfirst\n  ^\n"),
        ('loc(fused["a", "model.mlir":1:1])', "shown.mlir:1:1: error: oh\nfirst\n^\n"),
        ('loc("other.mlir":9:9)', "other.mlir:9:9: error: oh\n"),
        ('loc("just a name")', '<unknown>:0: error: loc("just a name"): oh\n'),
        ("loc(unknown)", "<unknown>:0: error: oh\n"),
        (
            'loc(callsite("model.mlir":1:1 at "model.mlir":2:2))',
            "shown.mlir:1:1: error: oh\nfirst\n^\nshown.mlir:2:2: note: called from\n        second line\n        ^\n",
        ),
    ],
)
def test_printing(location: str, expected: str) -> None:
    assert emitted(DiagnosticPrinter, SOURCE, location, "oh")[0] == expected


def test_an_unexpected_diagnostic_fails_and_is_shown() -> None:
    text, verifier = emitted(DiagnosticVerifier, SOURCE, 'loc("model.mlir":1:1)', "oh")
    assert text.startswith("shown.mlir:1:1: error: unexpected error: oh\nfirst\n")
    assert isinstance(verifier, DiagnosticVerifier)
    assert not verifier.finish()


def test_a_part_starts_with_the_rest_of_its_marker_line_and_keeps_its_place() -> None:
    misses: list[tuple[int, int]] = []
    source = SourceText("f", "f", b"a\n// ----- x\nb\n// -----\nc\n// ---\n")
    parts = list(split_source(source, "// -----", lambda line, column: misses.append((line, column))))
    assert [part.text for part in parts] == ["a\n", f"\n{' ' * 8} x\nb\n", f"\n\n\n{' ' * 8}\nc\n// ---\n"]
    assert [part.title for part in parts] == ["f"] * 3
    assert [part.line(5) for part in parts] == [b"c"] * 3
    assert misses == [(6, 7)]
