"""Prompt lookup: what a text proposes, when it proposes nothing, and texts that equal those without proposals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.lm.lookup import Lookup, TextIndex
from stepwell.lm.model import LanguageModel, load
from stepwell.lm.sampling import SamplingOptions

from .decoders import written

PROMPTS = ("one two three one two", "the best", "a", "abcabcabc")


@pytest.fixture(scope="module", params=[1, 2])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return written(tmp_path_factory.mktemp("lookup"), request.param)


@pytest.fixture(scope="module")
def plain(path: Path) -> LanguageModel:
    return load(path, threads=1)


@pytest.fixture(scope="module", params=[1, 4])
def model(path: Path, request: pytest.FixtureRequest) -> LanguageModel:
    return load(path, threads=1, lookup=request.param)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets texts propose tokens whatever the measured times are."""
    note = Lookup.note
    monkeypatch.setattr(Lookup, "note", lambda self, proposed, accepted, _: note(self, proposed, accepted, 1e-9))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ([1, 2, 3, 4, 9, 1, 2, 3], [4, 9, 1]),  # after the last three tokens
        ([1, 2, 5, 6, 7, 3, 2, 8, 1, 2], [5, 6, 7]),  # two tokens tell more than the later one
        ([1, 7, 1, 8, 9, 4, 1], [8, 9, 4]),  # the last of two places
        ([4, 5, 6, 6], [6, 6, 6]),  # repeated
        ([1, 2, 1, 2], [1, 2, 1]),
        ([1, 2, 3], []),
        ([1], []),
        ([], []),
    ],
)
def test_proposals_follow_the_last_tokens(text: list[int], wanted: list[int]):
    assert TextIndex(text).propose(3) == wanted
    grown = TextIndex(text[:2])
    grown.add(text[2:])
    assert grown.propose(3) == wanted


def test_slow_proposals_rest():
    lookup, text = Lookup(4), TextIndex([1, 2, 3, 1])
    assert lookup.propose(text, 4) == []  # no step by one token was measured
    lookup.note(0, 0, 1.0)
    assert lookup.propose(text, 4) == [2, 3, 1, 2]
    assert (lookup.propose(text, 2), lookup.propose(text, 0), Lookup(0).propose(text, 4)) == ([2, 3], [], [])
    lookup.note(4, 2, 2.9)  # three tokens in less than the time of three steps
    assert lookup.propose(text, 4)

    def rest_after(accepted: int, seconds: float) -> int:
        lookup.note(4, accepted, seconds)
        steps = 0
        while not lookup.propose(text, 4):
            lookup.note(0, 0, 1.0)
            steps += 1
        return steps

    assert rest_after(0, 2.9) == 16
    assert (lookup.proposed, lookup.accepted) == (8, 2)
    assert [rest_after(0, 2.9) for _ in range(5)] == [32, 64, 128, 256, 256]
    for _ in range(60):
        lookup.note(4, 4, 0.1)
    assert rest_after(0, 99) == 16, "tries that pay begin anew"


@pytest.mark.usefixtures("always")
def test_texts_are_those_without_proposals(model: LanguageModel, plain: LanguageModel):
    """Greedy texts and drawn ones, in one session, so that each begins behind tokens that were taken back."""
    session, other = model.session(), plain.session()
    for temperature in (0.0, 0.4, 2.0):
        sampling = SamplingOptions(temperature=temperature, seed=5, frequency_penalty=0.1 if temperature == 2 else 0)
        for prompt in PROMPTS:
            texts = ["".join(item.stream(prompt, sampling)) for item in (session, other)]
            assert texts[0] == texts[1]
            assert session.tokens == other.tokens
    assert 0 < session.lookup.accepted < session.lookup.proposed
    assert other.lookup.proposed == 0


@pytest.mark.usefixtures("always")
def test_ends_within_accepted_tokens(model: LanguageModel, plain: LanguageModel):
    whole = plain.generate("abcabcabc", most=30)
    for most in range(1, 12):
        assert model.generate("abcabcabc", most=most) == plain.generate("abcabcabc", most=most)
    for start in range(4, len(whole) - 2, 3):
        stop = [whole[start : start + 2]]
        assert model.generate("abcabcabc", most=30, stop=stop) == plain.generate("abcabcabc", most=30, stop=stop)


def test_checked_logits_are_those_of_single_tokens(model: LanguageModel):
    """Up to rounding: programs for several tokens sum in another order."""
    pool, tokens = model.pool(), model.tokenizer.encode("the other text of the others")
    text, count = pool.table.text(), model.lookup + 1
    pool.read(text, tokens[:-count])
    wanted = [pool.read(text, [token]) for token in tokens[-count:]]
    pool.table.truncate(text, len(tokens) - count)
    np.testing.assert_allclose(pool.check(text, tokens[-count:]), wanted, rtol=0, atol=1e-5)
    assert text.length == len(tokens)
    pool.table.release(text)
    assert pool.table.free == model.pages and not pool.table.references.any()


def test_lengths(path: Path):
    with pytest.raises(stepwell.InputError, match="lookup is -1, and must be at least 0"):
        load(path, lookup=-1)
    assert load(path, context=2, threads=1, lookup=4).checking is None
    short = load(path, context=4, threads=1, lookup=9)
    assert short.lookup == 2
    assert short.generate("a") == load(path, context=4, threads=1).generate("a")
