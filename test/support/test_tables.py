"""Tables as text."""

from __future__ import annotations

from stepwell.support.tables import aligned


def test_numbers_are_aligned_to_the_right() -> None:
    assert aligned(("name", "time"), [("a", "1 ms"), ("longer", "10 ms")], {1}) == (
        "name     time\na        1 ms\nlonger  10 ms"
    )


def test_markup_is_text() -> None:
    assert aligned(("name",), [("[red]",)]) == "name\n[red]"
