"""The page of the architecture, its drawing and the glossary agree with the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from stepwell.driver.route import Phase, phases_of
from stepwell.passes.infra.entry_points import ENTRY_POINT_GROUPS

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
TERM = re.compile(r"^\| \*\*(.*?)\*\* \| (.*) \| (.*) \|$", re.MULTILINE)

_spec = importlib.util.spec_from_file_location("architecture_drawing", DOCS / "architecture_drawing.py")
assert _spec is not None and _spec.loader is not None
drawing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(drawing)


def test_drawing_has_the_layers_and_imports_of_the_code() -> None:
    svg = drawing.SVG.read_text(encoding="utf-8")
    layers = [names.split() for names in re.findall(r'data-layer="([^"]*)"', svg)]
    arrows = {tuple(names.split()) for names in re.findall(r'data-arrow="([^"]*)"', svg)}
    imports = drawing.imports()[0]
    expected = {pair for pair in imports if pair[1] not in drawing.common(imports)}
    is_current = (layers, arrows) == (drawing.layers(), expected)
    assert is_current, "run `python docs/architecture_drawing.py`"
    rooms = [room for layer in drawing.layers() for room in layer]
    assert all(rooms.index(room) < rooms.index(other) for room, other in imports)


def test_page_has_all_rooms_from_the_top_down() -> None:
    listed = re.findall(r"^\| \[`(\w+)/`\]", PAGE, re.MULTILINE)
    assert listed == [room for layer in drawing.layers() for room in layer]


@pytest.mark.parametrize("phases", [phases_of("cpu"), phases_of("cuda:sm_80")[3:]], ids=["cpu", "gpu"])
def test_page_has_the_phases(phases: tuple[Phase, ...]) -> None:
    table = "\n".join(_row(phase) for phase in phases)
    assert f"|---|---|---|\n{table}\n\n" in PAGE, f"the table of docs/architecture.md should be\n{table}"


def test_page_names_the_groups_of_entry_points() -> None:
    assert [group for group in ENTRY_POINT_GROUPS if f"`{group}`" not in PAGE] == []


def test_glossary_is_sorted_and_linked() -> None:
    rows = TERM.findall((DOCS / "glossary.md").read_text(encoding="utf-8"))
    terms = [re.sub(r"\W", "", term).lower() for term, _, _ in rows]
    assert len(terms) > 20 and terms == sorted(terms)
    assert [term for term, _, links in rows if "](" not in links] == []


def _row(phase: Phase) -> str:
    invariant = (phase.check.__doc__ or "").partition("\n")[0].removeprefix("Checks that ").removesuffix(".")
    return f"| `{phase.name}` | {phase.summary} | {invariant} |"
