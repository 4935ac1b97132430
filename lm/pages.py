"""Pages of a pool of keys and values, and the texts that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..support.errors import StepwellError


class OutOfPagesError(StepwellError):
    """Raised if no page is free."""


@dataclass(eq=False)
class PagedText:
    """A text whose keys and values are in pages.

    Attributes:
        table: numbers of its pages, i64[pages of a text]; entries after the first `pages` have no meaning.
        pages: number of its pages.
        length: number of tokens whose keys and values are in the pages.
        given: inputs of all its steps that do not change, such as keys and values of what it is about.
    """

    table: np.ndarray
    pages: int = 0
    length: int = 0
    given: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(eq=False)
class PageTable:
    """The pages of a pool, counted by the texts that have them (Kwon et al., "PagedAttention", SOSP 2023).

    Attributes:
        pages: number of pages.
        page_size: number of tokens in a page.
        pages_of_text: maximum number of pages of a text.
        is_whole: whether a page holds the state of all tokens of a text, which has a single page; no part of the text
            can be used alone.
        references: number of texts that have each page.
    """

    pages: int
    page_size: int
    pages_of_text: int
    is_whole: bool = False
    references: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.references = np.zeros(self.pages, np.int64)
        # A dictionary is a set that keeps the order: pages that follow each other are taken one after the other.
        self._free = dict.fromkeys(range(self.pages))

    @property
    def free(self) -> int:
        """Number of pages that no text has."""
        return len(self._free)

    def text(self) -> PagedText:
        """Returns a new text without tokens."""
        return PagedText(np.zeros(self.pages_of_text, np.int64))

    def missing(self, text: PagedText, length: int) -> int:
        """Returns the number of pages that a text needs before tokens up to `length` can be stored."""
        return -(-length // self.page_size) - text.pages + self._is_last_shared(text, length)

    def reserve(self, text: PagedText, length: int) -> tuple[int, int] | None:
        """Gives a text room for tokens up to `length`.

        The last page, if other texts have it too, is replaced by one of its own, as new tokens would change it.

        Returns:
            The numbers of the replaced page and of the new one, to which the caller copies its contents; None if no
            page is replaced.

        Raises:
            OutOfPagesError: too few pages are free; nothing has changed.
        """
        missing = self.missing(text, length)
        if missing > self.free:
            raise OutOfPagesError(f"a text needs {missing} more pages, and {self.free} of {self.pages} are free")
        replaced = None
        if self._is_last_shared(text, length):
            old = int(text.table[text.pages - 1])
            self.references[old] -= 1
            text.pages -= 1
            replaced = old, self._add_page(text)
        while text.pages * self.page_size < length:
            self._add_page(text)
        return replaced

    def usable(self, text: PagedText, length: int) -> int:
        """Returns how many of the first `length` tokens of a text another text can begin with."""
        return 0 if self.is_whole and length < text.length else length

    def share(self, text: PagedText, length: int) -> PagedText:
        """Returns a new text that begins with the first `length` tokens of another, in the same pages."""
        shared = PagedText(text.table.copy(), -(-length // self.page_size), length, text.given)
        self.references[shared.table[: shared.pages]] += 1
        return shared

    def truncate(self, text: PagedText, length: int) -> None:
        """Removes all tokens of a text behind the first `length`; all tokens, if that many cannot be used alone."""
        length = self.usable(text, min(length, text.length))
        pages = -(-length // self.page_size)
        for page in text.table[pages : text.pages].tolist():
            self.references[page] -= 1
            if not self.references[page]:
                self._free[page] = None
        text.pages, text.length = min(text.pages, pages), min(text.length, length)

    def release(self, text: PagedText) -> None:
        """Removes all tokens of a text."""
        self.truncate(text, 0)

    def _is_last_shared(self, text: PagedText, length: int) -> bool:
        """Returns whether tokens up to `length` would change a page that other texts have too."""
        is_partial = text.length < min(length, text.pages * self.page_size)
        return is_partial and bool(self.references[text.table[text.pages - 1]] > 1)

    def _add_page(self, text: PagedText) -> int:
        """Adds a page to a text: the one after its last page if that is free, as neighbours are read faster."""
        following = int(text.table[text.pages - 1]) + 1 if text.pages else -1
        page = following if following in self._free else next(iter(self._free))
        del self._free[page]
        self.references[page] = 1
        text.table[text.pages] = page
        text.pages += 1
        return page
