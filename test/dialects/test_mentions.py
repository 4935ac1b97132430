"""An op is known in few files: its own, its importers', and one for each interface that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
OTHER_FOLDERS = ("bench", "build", "distribution", "docs", "examples", "test", ".")
MOST_FILES = 4


# Ops that other ops are not rewritten to: those are mentioned where that happens.
@pytest.mark.parametrize(
    "name", ["CumulativeOp", "HardSwishOp", "LogOp", "LstmOp", "RoiAlignOp", "RoiMaxPoolOp", "TakeRowsOp"]
)
def test_few_files_mention_an_op(name: str) -> None:
    mentions = [
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.rglob("*.py"))
        if not path.relative_to(ROOT).parts[0].startswith(OTHER_FOLDERS)
        # Packages only export it.
        and path.name != "__init__.py"
        and re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))
    ]
    assert any(path.startswith("dialects/") for path in mentions)
    # Each frontend has handlers of its own.
    others = [path for path in mentions if not path.startswith("frontend/")]
    assert len(others) <= MOST_FILES, mentions
