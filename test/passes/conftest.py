"""Fixtures of the tests of passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects


@pytest.fixture
def context() -> Iterator[ir.Context]:
    """A context that knows the stepwell dialect, entered for the test."""
    context = ir.Context()
    load_dialects(context)
    with context:
        yield context
