"""Fixtures of the op layer's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects


@pytest.fixture
def context() -> Iterator[ir.Context]:
    """A context that knows the dialect, entered together with an unknown location."""
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        yield context
