"""The ranges of sizes that decoders are compiled for, and the parts in which prompts are read."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from stepwell.lm.page_sizes import prompt_lengths
from stepwell.lm.text_states import chunk_of
from stepwell.lowering.target import Target
from stepwell.machines.families import FAMILIES
from stepwell.machines.machine import Machine

UNIT = replace(FAMILIES["sapphirerapids"], matrix_rate=1024.0)


@pytest.mark.parametrize(
    ("machine", "context", "most", "lengths"),
    [
        (UNIT, 1024, 512, [1, (2, 16), (17, 512)]),
        (UNIT, 1024, 16, [1, (2, 16)]),
        (UNIT, 1024, 40, [1, (2, 40)]),
        (UNIT, 2, 2, [1]),
        (FAMILIES["zen4"], 1024, 512, [1, (2, 512)]),
    ],
    ids=["long prompts", "one tile", "never converted", "one token", "no unit"],
)
def test_prompts_of_one_tile_have_a_program_where_long_ones_are_converted(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, context: int, most: int, lengths: list[int | tuple[int, int]]
) -> None:
    monkeypatch.setattr(Target, "host", lambda: SimpleNamespace(machine=machine))
    assert prompt_lengths(context, most, is_alike=False) == lengths


def test_a_prompt_has_one_program_if_results_must_not_depend_on_where_it_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Target, "host", lambda: SimpleNamespace(machine=UNIT))
    assert prompt_lengths(1024, 512, is_alike=True) == [1, (2, 512)]


@pytest.mark.parametrize(
    ("unread", "most", "count"),
    [(700, 512, 512), (513, 512, 496), (528, 512, 511), (529, 512, 512), (40, 512, 40), (4, 3, 2), (3, 2, 2)],
)
def test_few_tokens_are_not_left_for_the_last_call(unread: int, most: int, count: int) -> None:
    assert chunk_of(unread, most) == count
