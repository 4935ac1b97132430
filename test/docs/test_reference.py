"""What is generated is up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stepwell.dialects.help import reference_page as reference_page_of_ops
from stepwell.passes.help import reference_page
from stepwell.passes.upstream import PIPELINES, anchor_of, class_name, upstream_passes
from stepwell.passes.upstream_names import find_class_name

ROOT = Path(__file__).parent.parent.parent


def test_reference_of_passes() -> None:
    page = (ROOT / "docs" / "reference" / "passes.md").read_text(encoding="utf-8")
    assert page == reference_page(), "run `python -m stepwell.passes.help > docs/reference/passes.md`"


def test_reference_of_ops() -> None:
    page = (ROOT / "docs" / "reference" / "ops.md").read_text(encoding="utf-8")
    assert page == reference_page_of_ops(), "run `python -m stepwell.dialects.help > docs/reference/ops.md`"


def test_upstream_pipelines_exist() -> None:
    assert all(anchor_of(name) for name in PIPELINES)


def test_class_names_of_upstream_passes() -> None:
    known = {name for name in upstream_passes() if class_name(name) != name}
    assert len(known) > 0.95 * len(upstream_passes()), "run `python -m stepwell.passes.upstream_names`"
    assert class_name("canonicalize") == find_class_name("canonicalize") == "Canonicalizer"


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
