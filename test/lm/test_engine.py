"""Texts that grow together are those that each request gets alone, whenever they come, end or are given up."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.lm import End, Engine, LanguageModel, Piece, Request, SamplingOptions
from stepwell.lm.grammar import GrammarError, GrammarState, regular_expression
from stepwell.lm.pages import PagedText, PageTable
from stepwell.lm.prefix_cache import PrefixCache
from stepwell.lm.text_pool import TextPool

from .decoders import written

PROMPTS = ("a", "the other one of the three, which is long", "th", "of the best of the", "x" * 40, "no", "to be")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return stepwell.lm.load(written(tmp_path_factory.mktemp("lm"), layers=2), threads=1, sequences=3)


@pytest.fixture
def engine(model: LanguageModel) -> Iterator[Engine]:
    with Engine(model) as made:
        yield made


class Answer:
    """A request, and what it receives."""

    def __init__(self, model: LanguageModel, prompt: str, **more) -> None:
        self.events: queue.Queue[Piece | End] = queue.Queue()
        self.request = Request(model.tokenizer.encode(prompt), self.events.put, **more)
        self.pieces: list[Piece] = []

    def end(self) -> End:
        while True:
            event = self.events.get(timeout=60)
            if isinstance(event, End):
                assert self.events.empty()
                return event
            self.pieces.append(event)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def test_each_text_is_the_one_that_its_prompt_gets_alone(model: LanguageModel, engine: Engine):
    """More requests than fit into the batch, of different lengths, by greedy and by random choices."""
    answers = [
        Answer(
            model, prompt, sampling=SamplingOptions(temperature=1.0 * (number % 2), seed=number), most=3 + 5 * number
        )
        for number, prompt in enumerate(PROMPTS)
    ]
    for answer in answers:
        engine.submit(answer.request)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        end, request = answer.end(), answer.request
        assert answer.text == model.generate(prompt, request.sampling, most=request.most)
        assert (end.reason, end.prompt_tokens) == (
            "length" if end.tokens == request.most else "stop",
            len(request.tokens),
        )
    figures = engine.figures
    assert (figures.requests, figures.running, figures.waiting) == (len(PROMPTS), 0, 0)
    assert figures.steps < figures.tokens


def test_a_beginning_that_is_known_is_not_computed_again(model: LanguageModel, engine: Engine):
    first, again, other = (Answer(model, prompt, most=4) for prompt in ("x" * 40, "x" * 40, "x" * 20 + "y" * 9))
    cached = []
    for answer in (first, again, other):
        engine.submit(answer.request)
        cached.append(answer.end().cached_tokens)
    assert cached == [0, 39, 20]
    assert other.text == model.generate("x" * 20 + "y" * 9, most=4)


def test_a_request_that_is_cancelled_ends(model: LanguageModel, engine: Engine):
    answer, other = Answer(model, "a"), Answer(model, "of", most=3)
    answer.request.deliver = lambda event: (answer.request.cancel(), answer.events.put(event))
    engine.submit(answer.request)
    engine.submit(other.request)
    assert (answer.end().reason, other.end().reason) == ("cancelled", "length")
    late = Answer(model, "a")
    late.request.cancel()
    engine.submit(late.request)
    assert (late.end().reason, late.pieces) == ("cancelled", [])


def test_log_probabilities(model: LanguageModel, engine: Engine):
    answer = Answer(model, "a", most=2, logprobs=3)
    engine.submit(answer.request)
    answer.end()
    choices = [choice for piece in answer.pieces for choice in piece.choices]
    assert len(choices) == 2
    for choice in choices:
        assert choice.top[0] == (choice.token, choice.text, choice.logprob)
        assert [item[2] for item in choice.top] == sorted((item[2] for item in choice.top), reverse=True)
        assert len(choice.top) == 3 and choice.logprob < 0


def test_failures_end_the_texts_in_progress(model: LanguageModel, engine: Engine, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(TextPool, "step", fail)
        answer = Answer(model, "a", most=4)
        engine.submit(answer.request)
        end = answer.end()
    assert (end.reason, end.error) == ("error", "RuntimeError: out of order")
    assert "out of order" in caplog.text
    after = Answer(model, "a", most=4)
    engine.submit(after.request)
    assert after.end().reason == "length" and after.text == model.generate("a", most=4)


def test_a_grammar_that_fails_ends_its_own_text(model: LanguageModel, engine: Engine, monkeypatch):
    def fail(*_: object) -> None:
        raise GrammarError("the grammar cannot be followed: as asked for")

    monkeypatch.setattr(GrammarState, "masked", fail)
    failing = Answer(model, "a", sampling=SamplingOptions(grammar=regular_expression("a+")))
    other = Answer(model, "of", most=4)
    engine.submit(other.request)
    engine.submit(failing.request)
    assert (failing.end().reason, other.end().reason) == ("error", "length")
    assert other.text == model.generate("of", most=4)


def test_a_text_that_cannot_start_ends(model: LanguageModel, engine: Engine, monkeypatch):
    def fail(*_: object) -> None:
        raise MemoryError

    for part, name in ((PrefixCache, "find"), (PageTable, "missing")):
        with monkeypatch.context() as patch:
            patch.setattr(part, name, fail)
            answer = Answer(model, "a", most=4)
            engine.submit(answer.request)
            assert answer.end().reason == "error"


def test_requests_that_cannot_be_met_are_errors(model: LanguageModel):
    engine = Engine(model)
    with pytest.raises(stepwell.InputError, match="the prompt has 64 tokens, and the context 64"):
        engine.submit(Request([5] * 64, print))
    waiting = Answer(model, "a")
    engine.submit(waiting.request)
    engine.close()
    assert waiting.end().reason == "cancelled"
    with pytest.raises(stepwell.InputError, match="the engine is closed"):
        engine.submit(Request([5], print))


def test_a_batch_agrees_with_its_texts_alone(model: LanguageModel):
    """Texts that join, fork, go back and leave in any order."""
    random, pool = np.random.default_rng(0), model.pool()
    table, alone = pool.table, model.pool()
    texts: list[tuple[PagedText, list[int]]] = []
    for _ in range(60):
        if texts and (len(texts) == model.sequences or random.random() < 0.2):
            table.release(texts.pop(int(random.integers(len(texts))))[0])
        if texts and len(texts) < model.sequences and random.random() < 0.3:
            paged, tokens = texts[int(random.integers(len(texts)))]
            length = int(random.integers(1, len(tokens) + 1))
            texts.append((table.share(paged, length), tokens[:length]))
        if not texts or (len(texts) < model.sequences and random.random() < 0.4):
            tokens = random.integers(0, 256, random.integers(1, 30)).tolist()
            texts.append((table.text(), tokens))
            pool.read(*texts[-1])
        if random.random() < 0.2:
            paged, tokens = texts[0]
            del tokens[-(-len(tokens) // 2) :]
            table.truncate(paged, len(tokens))
        new = random.integers(0, 256, len(texts)).tolist()
        logits = pool.step([paged for paged, _ in texts], [[token] for token in new])
        for (_, tokens), token, found in zip(texts, new, logits, strict=True):
            tokens.append(token)
            single = alone.table.text()
            np.testing.assert_allclose(found, alone.read(single, tokens), rtol=0, atol=2e-4)
            alone.table.release(single)
        for paged, _ in [item for item in texts if item[0].length > 50]:
            table.release(paged)
        texts = [item for item in texts if item[0].length]
    for paged, _ in texts:
        table.release(paged)
    assert table.free == table.pages


def test_texts_in_a_pool_that_is_too_small_are_those_that_they_get_alone(model: LanguageModel, tmp_path: Path):
    """Texts give up their pages to others, wait, and go on; none fails."""
    memory = 5 * model.page_size * model.bytes_per_token  # three texts of two pages each start, and grow
    small = stepwell.lm.load(written(tmp_path, layers=2), threads=1, sequences=3, memory=memory)
    assert small.pages == 5
    prompts = [chr(97 + number) + "x" * (16 + number) for number in range(12)]
    with Engine(small) as engine:
        answers = [Answer(small, prompt, most=20 + number) for number, prompt in enumerate(prompts)]
        for answer in answers:
            engine.submit(answer.request)
        for prompt, answer in zip(prompts, answers, strict=True):
            assert answer.end().reason in ("length", "stop")
            assert answer.text == model.generate(prompt, most=answer.request.most)
        figures = engine.figures
    assert figures.interrupted > 0 and figures.requests == len(prompts)


def test_the_oldest_beginnings_go_first():
    table = PageTable(pages=6, page_size=16, pages_of_text=4)
    cache = PrefixCache(table)

    def keep(first: int, count: int = 20) -> None:
        text = table.text()
        assert cache.free(table.missing(text, count))
        table.reserve(text, count)
        text.length = count
        cache.add([first] * count, text)

    for first in (1, 2, 3):
        keep(first)
    assert table.free == 0
    found = cache.find([1] * 30)  # 2 is now the oldest
    assert found is not None and found.length == 20
    table.release(found)
    keep(4)
    lengths = []
    for tokens in ([1] * 17 + [2] * 5, [2] * 30, [3] * 30, [4] * 18, [1] * 16):
        found = cache.find(tokens)
        lengths.append(found.length if found is not None else 0)
        if found is not None:
            table.release(found)
    assert lengths == [17, 0, 20, 17, 0]  # the last token is computed, and fifteen are too few
    keep(4, 25)  # in place of the shorter one, for which 1 had to go
    assert (cache.find([1] * 30), table.free) == (None, 2)
    assert cache.free(6) and table.free == 6
