"""Error messages for stepwell ops in custom assembly form, which MLIR's parser rejects without a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .bindings import ir
from .diagnostics import MLIRError

_CUSTOM_FORM = re.compile(rb"^[ \t]*(?:%[^\n=]*=[ \t]*)?(stepwell\.\w+)", re.MULTILINE)


def find_custom_form(text: bytes) -> tuple[int, int, str] | None:
    """The line and column (from one) of the first stepwell op in custom form, and a message; None if there is none."""
    found = _CUSTOM_FORM.search(text)
    if found is None:
        return None
    start, name = found.start(1), found[1].decode()
    line, column = text.count(b"\n", 0, start) + 1, start - text.rfind(b"\n", 0, start)
    return line, column, f"'{name}' has no custom form: write \"{name}\"(...) : (...) -> (...)"


@contextmanager
def reported_custom_forms(filename: str, text: bytes) -> Iterator[None]:
    """Emits an error if parsing `text` inside the `with` block fails without a diagnostic."""
    context = ir.Context.current
    assert context is not None
    has_error = False

    def look(diagnostic: ir.Diagnostic) -> bool:
        nonlocal has_error
        has_error |= diagnostic.severity == ir.DiagnosticSeverity.ERROR
        return False

    handler: Any = context.attach_diagnostic_handler(look)
    try:
        yield
    except MLIRError:
        found = None if has_error else find_custom_form(text)
        if found is not None:
            line, column, message = found
            ir.Location.file(filename, line, column, context).emit_error(message)
        raise
    finally:
        handler.detach()
