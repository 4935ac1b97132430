"""Expressions over sizes: parsing, evaluation, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.sizes.expressions import evaluate, evaluate_all, names_in, parse_expression, substitute, text_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n + m", 9),
        ("n - m - 1", 4),
        ("2*n + m // 2", 15),
        ("(n + 1) * (m - 1)", 8),
        ("x.0 + 1", 6),
        ("in - a:b", 2),
        ("_0 + _1", 7),
        ("7", 7),
        (" n\n+ m ", 9),
        ("n % 4 + -1 * m", 1),
        ("min(n, 512) + max (m, in, 3)", 11),
        ("min + max(min, 1)", 12),
    ],
)
def test_expressions_are_read_as_people_write_them(text: str, value: int) -> None:
    sizes = {"n": 7, "m": 2, "x.0": 5, "in": 4, "a:b": 2, "_0": 3, "_1": 4, "min": 6}
    found = parse_expression(text)
    assert evaluate(found, sizes) == value
    assert evaluate(parse_expression(text_of(found)), sizes) == value
    many = evaluate_all(found, {name: np.full(2, size) for name, size in sizes.items()})
    np.testing.assert_array_equal(np.broadcast_to(many, 2), [value] * 2)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "m +",
            "m ** 2",
            "m / 2",
            "-n",
            "m) + 1",
            "n m",
            "n(m)",
            "min()",
            "min(n, key=m)",
            "1.5",
            "1_0",
            "0x10",
            "n # m",
            "'n'",
            "²",
        ),
        *("n := 1", "n < m", "min()", "min(n, key=m)", "(" * 450 + "n" + ")" * 450),
    ],
)
def test_negative_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an expression over dimensions: write names, whole numbers"):
        parse_expression(text)


def test_negative_long_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 1000 characters, but this one has 1200"):
        parse_expression("(m" * 600)


def test_names_are_replaced() -> None:
    found = parse_expression("past + n * 2")
    assert list(names_in(found)) == ["past", "n"]
    assert text_of(substitute(found, {"past": ["+", "m", 1]})) == "(m + 1) + (n * 2)"


def test_expressions_are_evaluated() -> None:
    sizes = {"n": 7, "m": 3}
    assert evaluate(["floordiv", ["+", "n", -1], 2], sizes) == 3
    assert evaluate(["*", ["ceildiv", "n", 2], ["mod", "n", "m"]], sizes) == 4
    assert evaluate(["max", ["min", "n", 5], "m"], sizes) == 5
    for wrong in ("k", ["**", 1, 2], ["+", 1], 1.5, None):
        with pytest.raises(ValueError, match="is not an expression over n, m"):
            evaluate(wrong, sizes)  # type: ignore[arg-type]
