"""Pass options: types, defaults, printing, errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from stepwell.passes.help import option_helps, summary_of
from stepwell.passes.infra.base import Pass
from stepwell.passes.infra.elements import parse_elements
from stepwell.passes.infra.options import PipelineError, make_pass, parse_options, print_options, type_name


@dataclass(frozen=True)
class EveryOptionPass(Pass):
    """Do nothing. In many ways.

    Attributes:
        count: how often,
            and how hard.
        mode: which way.
    """

    name = "test-every-option"
    count: int = 1
    ratio: float = 0.5
    verbose: bool = False
    label: str = ""
    sizes: tuple[int, ...] = ()
    names: tuple[str, ...] = ("a",)
    mode: Literal["fast", "exact"] = "fast"
    limit: int | None = None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EveryOptionPass()),
        ("count=-3 ratio=1e-3", EveryOptionPass(count=-3, ratio=1e-3)),
        ("verbose", EveryOptionPass(verbose=True)),
        ("verbose=true", EveryOptionPass(verbose=True)),
        ("label='two words'", EveryOptionPass(label="two words")),
        ("sizes=1,2,3", EveryOptionPass(sizes=(1, 2, 3))),
        ("sizes={1,2}  names={x}", EveryOptionPass(sizes=(1, 2), names=("x",))),
        ("names={}", EveryOptionPass(names=())),
        ("mode=exact limit=4", EveryOptionPass(mode="exact", limit=4)),
    ],
)
def test_text_and_fields_say_the_same(text: str, expected: EveryOptionPass) -> None:
    parsed = make_pass(EveryOptionPass, text)
    assert parsed == expected
    assert make_pass(EveryOptionPass, print_options(parsed)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuont=1", "has no option 'cuont'; did you mean 'count'"),
        ("verbose=maybe", "must be bool, but is 'maybe'"),
        ("ratio=x", "must be float, but is 'x'"),
        ("sizes=1,x", "must be list of int, but is '1,x'"),
        ("mode=slow", "must be fast or exact, but is 'slow'"),
        ("count", "needs a value: count=<int>"),
        ("label='open", "missing '"),
    ],
)
def test_wrong_options_are_named(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make_pass(EveryOptionPass, text)


def test_an_option_without_default_must_be_given() -> None:
    @dataclass(frozen=True)
    class NeedyPass(Pass):
        name = "test-needy"
        must: int

    NeedyPass.__annotations__["must"] = int
    with pytest.raises(PipelineError, match="'test-needy' needs the option 'must'"):
        make_pass(NeedyPass, "")


def test_option_text_keeps_nested_braces() -> None:
    assert parse_options("a={b=1 c={d}} e") == {"a": "b=1 c={d}", "e": None}


def test_help_comes_from_the_docstring() -> None:
    assert summary_of(EveryOptionPass) == "Do nothing. In many ways"
    assert option_helps(EveryOptionPass) == {"count": "how often, and how hard.", "mode": "which way."}
    assert type_name(int | None) == "int"


def test_brackets_are_nested_so_deep_only() -> None:
    """Python's recursion limit ended in a traceback."""
    with pytest.raises(PipelineError, match="more than 100 nested brackets"):
        parse_elements("builtin.module(" * 5000 + ")" * 5000)
