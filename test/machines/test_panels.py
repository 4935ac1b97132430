"""Widths of panels for a machine's registers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.machines.families import FAMILIES
from stepwell.machines.panels import choose_panel

WIDE = FAMILIES["x86-64-v4"]


@pytest.mark.parametrize(
    ("columns", "rows", "panel"),
    [(384, 128, 48), (256, 128, 32), (24, 128, 24), (256, 1, 128), (48, 128, 48), (64, 16, 32), (64, 14, 32)],
)
def test_choose_panel(columns: int, rows: int, panel: int) -> None:
    assert choose_panel(WIDE, columns, 16, rows) == panel


def test_choose_panel_without_a_tail() -> None:
    assert choose_panel(WIDE, 1024, 16, 512) == 48
    assert choose_panel(WIDE, 1024, 16, 512, even=True) == 32


def test_three_registers_only_where_there_are_many() -> None:
    assert choose_panel(FAMILIES["x86-64-v3"], 384, 8, 128) == 16
    assert choose_panel(FAMILIES["aarch64"], 384, 4, 128) == 8


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 4096), st.integers(1, 512), st.booleans())
def test_panels_fit_the_registers(name: str, columns: int, rows: int, even: bool) -> None:
    machine = FAMILIES[name]
    lanes = machine.lanes(4)
    panel = choose_panel(machine, columns, lanes, rows, even=even)
    assert 1 <= panel <= 8 * lanes
