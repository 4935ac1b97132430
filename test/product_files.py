"""The files of the product, each read once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
_OTHER_FOLDERS = ("bench", "build", "distribution", "docs", "examples", "test", ".")


def product_paths() -> Iterator[Path]:
    """Yields the paths of the product's modules, relative to the root."""
    for folder in ROOT.iterdir():
        if folder.is_dir() and not folder.name.startswith(_OTHER_FOLDERS):
            yield from (path.relative_to(ROOT) for path in folder.rglob("*.py"))


@cache
def product_texts() -> dict[str, str]:
    """Returns the text of each module of the product by its path from the root."""
    return {str(path): (ROOT / path).read_text(encoding="utf-8") for path in sorted(product_paths())}
