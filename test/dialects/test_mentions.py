"""An op is known in few files: its own, its importers', and one for each interface that it has."""

from __future__ import annotations

import re

import pytest

from ..product_files import product_texts

MOST_FILES = 4


# Ops that other ops are not rewritten to: those are mentioned where that happens.
@pytest.mark.parametrize(
    "name", ["CumulativeOp", "HardSwishOp", "LogOp", "LstmOp", "RoiAlignOp", "RoiMaxPoolOp", "TakeRowsOp"]
)
def test_few_files_mention_an_op(name: str) -> None:
    mentions = [
        path
        for path, text in product_texts().items()
        if not path.endswith("__init__.py") and re.search(rf"\b{name}\b", text)  # packages only export it
    ]
    assert any(path.startswith("dialects/") for path in mentions)
    # Each frontend has handlers of its own, and losses are made of ops, as models are.
    others = [path for path in mentions if not path.startswith(("frontend/", "training/"))]
    assert len(others) <= MOST_FILES, mentions
