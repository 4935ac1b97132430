"""Generated pages are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stepwell.dialects.attribute_help import reference_page as reference_page_of_attributes
from stepwell.dialects.help import reference_page as reference_page_of_ops
from stepwell.passes.help import reference_page
from stepwell.passes.infra.upstream import PIPELINES, anchor_of, class_name, upstream_passes
from stepwell.passes.infra.upstream_names import find_class_name

ROOT = Path(__file__).parent.parent.parent


def test_reference_of_passes() -> None:
    page = (ROOT / "docs" / "reference" / "passes.md").read_text(encoding="utf-8")
    assert page == reference_page(), "run `python -m stepwell.passes.help > docs/reference/passes.md`"


def test_reference_of_ops() -> None:
    page = (ROOT / "docs" / "reference" / "ops.md").read_text(encoding="utf-8")
    assert page == reference_page_of_ops(), "run `python -m stepwell.dialects.help > docs/reference/ops.md`"


def test_reference_of_attributes() -> None:
    page = (ROOT / "docs" / "reference" / "attributes.md").read_text(encoding="utf-8")
    command = "python -m stepwell.dialects.attribute_help > docs/reference/attributes.md"
    assert page == reference_page_of_attributes(), f"run `{command}`"


def test_upstream_pipelines_exist() -> None:
    assert all(anchor_of(name) for name in PIPELINES)


def test_class_names_of_upstream_passes() -> None:
    known = {name for name in upstream_passes() if class_name(name) != name}
    assert len(known) > 0.95 * len(upstream_passes()), "run `python -m stepwell.passes.infra.upstream_names`"
    assert class_name("canonicalize") == find_class_name("canonicalize") == "Canonicalizer"


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    for link in links:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_the_index_lists_every_page() -> None:
    folder = ROOT / "docs"
    links = {(folder / link).resolve() for link in LINK.findall((folder / "README.md").read_text(encoding="utf-8"))}
    assert [page for page in folder.rglob("*.md") if page.name != "README.md" and page.resolve() not in links] == []


def _anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as repository viewers form them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
