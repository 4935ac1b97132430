"""Proposed tokens: when they are taken, and texts that equal those without proposals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.lm.engine import Engine
from stepwell.lm.loading import load
from stepwell.lm.lookup import TextLookup
from stepwell.lm.model import LanguageModel
from stepwell.lm.proposals import Proposals
from stepwell.lm.sampling import SamplingOptions

from .decoders import written
from .test_engine import Answer

PROMPTS = ("one two three one two", "the best", "a", "abcabcabc")
SOURCES = ("lookup 1", "lookup 4", "draft", "other draft", "both")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("proposals"), 2)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft model with other weights, which seldom agrees."""
    return written(tmp_path_factory.mktemp("other"), 3)


@pytest.fixture(scope="module")
def plain(path: Path) -> LanguageModel:
    return load(path, threads=1)


@pytest.fixture(scope="module", params=SOURCES)
def model(path: Path, other: Path, request: pytest.FixtureRequest) -> LanguageModel:
    return loaded(request.param, path, other)


def loaded(kind: str, path: Path, other: Path, **more: int) -> LanguageModel:
    given = {
        "lookup 1": {"lookup": 1},
        "lookup 4": {"lookup": 4},
        "draft": {"draft": path, "drafted": 4},
        "other draft": {"draft": other, "drafted": 3},
        "both": {"lookup": 2, "draft": path, "drafted": 4},
    }[kind]
    return load(path, threads=1, **given, **more)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes all proposals, whatever the measured times are."""
    note = Proposals.note
    monkeypatch.setattr(Proposals, "note", lambda self, proposed, accepted, _: note(self, proposed, accepted, 1e-9))


def test_slow_proposals_rest():
    proposals = Proposals([TextLookup(4)])
    proposals.start([1, 2, 3, 1])
    for seconds in (99.0, 99.0, 99.0, 1.0):  # the first steps by one token are cold
        assert proposals.propose(4) == []
        proposals.note(0, 0, seconds)
    assert proposals.propose(4) == [2, 3, 1, 2]
    assert (proposals.propose(2), proposals.propose(0)) == ([2, 3], [])
    proposals.propose(4)
    proposals.note(4, 0, 99.0)  # cold
    assert proposals.propose(4)
    proposals.note(4, 2, 2.9)  # three tokens in less than the time of three steps
    assert proposals.propose(4)

    def rest_after(accepted: int, seconds: float) -> int:
        proposals.note(4, accepted, seconds)
        steps = 0
        while not proposals.propose(4):
            proposals.note(0, 0, 1.0)
            steps += 1
        return steps

    assert rest_after(0, 2.9) == 16
    assert (proposals.proposed, proposals.accepted) == (12, 2)
    assert [rest_after(0, 2.9) for _ in range(5)] == [32, 64, 128, 256, 256]
    for _ in range(60):
        proposals.note(4, 4, 0.1)
    assert rest_after(0, 99) == 16, "tries that pay begin anew"


class Guess:
    """A proposer that says the same each time."""

    def __init__(self, *tokens: int) -> None:
        self.tokens, self.most = list(tokens), 4

    def start(self, tokens) -> None:
        """Does nothing."""

    def add(self, tokens) -> None:
        """Does nothing."""

    def propose(self, most: int) -> list[int]:
        return self.tokens[:most]


def test_the_next_proposer_is_asked_while_one_rests():
    proposals = Proposals([Guess(1, 2), Guess(3)])
    assert (proposals.most, Proposals([]).most) == (4, 0)
    for _ in range(4):
        proposals.note(0, 0, 1.0)
    for _ in range(2):  # the first time is cold
        assert proposals.propose(4) == [1, 2]
        proposals.note(2, 0, 9.0)
    for _ in range(2):
        assert proposals.propose(4) == [3]
        proposals.note(1, 1, 0.5)
    for _ in range(16):
        assert proposals.propose(4) == [3]
        proposals.note(0, 0, 1.0)
    assert proposals.propose(4) == [1, 2]
    assert Proposals([Guess(), Guess(3)]).propose(1) == []


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
    assert 0 <= session.proposals.accepted <= session.proposals.proposed > 0
    assert other.proposals.proposed == 0


@pytest.mark.usefixtures("always")
def test_a_draft_by_the_same_model_is_accepted(path: Path, other: Path):
    """All tokens are, but for those after which the text ends."""
    model = loaded("draft", path, other)
    session, plain = model.session(), load(path, threads=1)
    for prompt in (*PROMPTS, "the best of the"):
        assert "".join(session.stream(prompt, most=24)) == plain.generate(prompt, most=24)
    assert 0.9 * session.proposals.proposed <= session.proposals.accepted > 30


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
    text, count = pool.table.text(), model.proposal_sources.most + 1
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
    with pytest.raises(stepwell.InputError, match="drafted is 0, and must be at least 1"):
        load(path, draft=path, drafted=0)
    short = load(path, context=4, threads=1, lookup=9, draft=path)
    assert (short.proposal_sources.lookup, short.proposal_sources.drafted) == (2, 2)
    assert short.generate("a") == load(path, context=4, threads=1).generate("a")


def test_a_draft_model_with_other_tokens(path: Path, tmp_path: Path):
    other = written(tmp_path, names={5: "other"})
    with pytest.raises(stepwell.InputError, match=r"has other tokens than the model: token 5 is '.*' here and 'other'"):
        load(path, threads=1, draft=other)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", ["lookup 4", "both"])
def test_an_engine_proposes_for_a_text_that_grows_alone(kind: str, path: Path, other: Path, plain: LanguageModel):
    """Texts that come and go are those without proposals, and no page is lost."""
    model = loaded(kind, path, other, sequences=2)
    with Engine(model) as engine:
        for number, prompts in enumerate([PROMPTS[:1], PROMPTS[:3], PROMPTS[3:], PROMPTS]):
            options = [SamplingOptions(temperature=0.5 * (number % 2), seed=seed) for seed in range(len(prompts))]
            answers = [
                Answer(model, prompt, sampling=sampling, most=12 + 9 * place)
                for place, (prompt, sampling) in enumerate(zip(prompts, options, strict=True))
            ]
            for answer in answers:
                engine.submit(answer.request)
            for prompt, answer in zip(prompts, answers, strict=True):
                answer.end()
                assert answer.text == plain.generate(prompt, answer.request.sampling, most=answer.request.most)
        figures = engine.figures
        assert 0 < figures.accepted <= figures.proposed and figures.steps < figures.tokens
        engine._prefixes.free(model.pages)
        assert engine._table.free == model.pages and not engine._table.references.any()
