"""Names of public classes: each is unique in the product, so that a name alone tells which class is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
OTHER_FOLDERS = ("bench", "build", "distribution", "docs", "examples", "test")


def test_no_two_public_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        if relative.parts[0].startswith((*OTHER_FOLDERS, ".")):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(relative))
    assert places
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
