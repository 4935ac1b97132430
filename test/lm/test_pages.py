"""Pages of texts against a model in which every text has a copy of its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.lm.pages import OutOfPagesError, PagedText, PageTable

PAGE, PAGES, OF_TEXT = 4, 8, 8


class Memory:
    """A page table with the contents of its pages: a text that reads what it wrote has the right pages."""

    def __init__(self) -> None:
        self.table = PageTable(PAGES, PAGE, OF_TEXT)
        self.rows = np.full(PAGES * PAGE, -1)

    def append(self, text: PagedText, token: int) -> None:
        replaced = self.table.reserve(text, text.length + 1)
        if replaced is not None:
            old, new = (slice(page * PAGE, (page + 1) * PAGE) for page in replaced)
            self.rows[new] = self.rows[old]
        self.rows[text.table[text.length // PAGE] * PAGE + text.length % PAGE] = token
        text.length += 1

    def check(self, text: PagedText, tokens: list[int], accepted: int) -> None:
        """Appends proposed tokens, and takes back those that are not accepted."""
        length = text.length + accepted
        for token in tokens:
            self.append(text, token)
        self.table.truncate(text, length)

    def read(self, text: PagedText) -> list[int]:
        rows = (text.table[: text.pages, None] * PAGE + np.arange(PAGE)).reshape(-1)
        return self.rows[rows][: text.length].tolist()


def test_random_texts_read_what_they_wrote():
    """10,000 steps: texts begin, grow, fork, check proposals, go back and end; no page leaks, none is lost."""
    random, memory = np.random.default_rng(0), Memory()
    table, refused, copied, taken_back = memory.table, 0, 0, 0
    texts: list[tuple[PagedText, list[int]]] = []
    for step in range(10_000):
        kinds = {"begin": 0.05, "grow": 0.45, "check": 0.15, "fork": 0.15, "truncate": 0.1, "end": 0.1}
        kind = random.choice(list(kinds), p=list(kinds.values()))
        if len(texts) == 5 and kind in ("begin", "fork"):
            kind = "end"
        if kind == "begin" or not texts:
            texts.append((table.text(), []))
            continue
        place = int(random.integers(len(texts)))
        text, tokens = texts[place]
        if kind == "grow" and text.length < OF_TEXT * PAGE:
            before = table.free, text.pages
            try:
                memory.append(text, step)
                tokens.append(step)
                copied += table.free < before[0] and text.pages == before[1]
            except OutOfPagesError:
                refused += 1
                assert (table.free, text.pages) == before
        elif kind == "check":
            proposed = [step] * int(random.integers(1, PAGE + 2))
            accepted, room = int(random.integers(len(proposed) + 1)), OF_TEXT * PAGE - text.length
            if len(proposed) <= room and table.missing(text, text.length + len(proposed)) <= table.free:
                memory.check(text, proposed, accepted)
                tokens += proposed[:accepted]
                taken_back += accepted < len(proposed)
        elif kind == "fork":
            length = int(random.integers(len(tokens) + 1))
            texts.append((table.share(text, length), tokens[:length]))
        elif kind == "truncate":
            del tokens[int(random.integers(len(tokens) + 1)) :]
            table.truncate(text, len(tokens))
        elif kind == "end":
            table.release(text)
            del texts[place]
        for text, tokens in texts:
            assert memory.read(text) == tokens
        counts = np.zeros(PAGES, np.int64)
        for text, _ in texts:
            counts[text.table[: text.pages]] += 1
        assert (counts == table.references).all() and table.free == (counts == 0).sum()
    assert refused > 100 and copied > 100 and taken_back > 100
    for text, _ in texts:
        table.release(text)
    assert table.free == PAGES and not table.references.any()


def test_pages_of_a_text_follow_each_other():
    table = PageTable(PAGES, PAGE, OF_TEXT)
    first, second = table.text(), table.text()
    table.reserve(first, 2 * PAGE)
    table.reserve(second, PAGE)
    table.release(first)
    table.reserve(second, 3 * PAGE)
    assert second.table[:3].tolist() == [2, 3, 4]


def test_too_few_pages():
    table = PageTable(3, PAGE, OF_TEXT)
    text = table.text()
    with pytest.raises(OutOfPagesError, match="a text needs 4 more pages, and 3 of 3 are free"):
        table.reserve(text, 4 * PAGE)
    assert (text.pages, table.free) == (0, 3)
