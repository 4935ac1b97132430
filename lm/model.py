"""A compiled decoder with its tokenizer, which continues prompts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..runtime.executable import Executable
from .draft import DraftModel
from .generation import Generation
from .lookup import TextLookup
from .page_sizes import PAGE_SIZE
from .pages import PageTable
from .proposals import Proposals, Proposer, advance
from .request import Source
from .sampling import SamplingOptions
from .text_model import TextModel
from .text_pool import TextPool
from .text_states import TextStates
from .tokenizer import TextTokenizer


@dataclass(frozen=True)
class ProposalSources:
    """Sources of proposed tokens for the texts of a model.

    Attributes:
        lookup: maximum number of tokens that a text proposes itself; 0 for none.
        draft: the draft model; None for none.
        drafted: maximum number of tokens that it proposes.
    """

    lookup: int = 0
    draft: LanguageModel | None = None
    drafted: int = 0

    @property
    def most(self) -> int:
        """Maximum number of proposed tokens of a step."""
        return max(self.lookup, self.drafted)

    def proposals(self) -> Proposals:
        """Returns proposals for a text, whose repetitions come first: they take no time."""
        proposers: list[Proposer] = [TextLookup(self.lookup)] if self.lookup else []
        if self.draft is not None:
            draft = self.draft
            proposers.append(DraftModel(draft.pool(), draft.context, draft.tokenizer.count, self.drafted))
        return Proposals(proposers)


class LanguageModel(TextModel):
    """A model that continues texts.

    Attributes:
        executable: the compiled decoder, for one text.
        together: the decoder for a token of each of several texts; None if only one text grows.
        pages: number of pages of a pool of keys and values.
        page_size: number of tokens in a page.
        pages_of_text: maximum number of pages of a text.
        checking: the decoder for several tokens of a text, with logits after each; None if no tokens are proposed.
        proposal_sources: sources of proposed tokens.
    """

    def __init__(
        self,
        executable: Executable,
        tokenizer: TextTokenizer,
        context: int,
        pages: int,
        together: Executable | None = None,
        sequences: int = 1,
        checking: Executable | None = None,
        proposal_sources: ProposalSources | None = None,
        is_batch_invariant: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> None:
        super().__init__(tokenizer, context, sequences, is_batch_invariant)
        self.executable, self.together, self.pages = executable, together, pages
        self.checking, self.proposal_sources = checking, proposal_sources or ProposalSources()
        self.page_size, self.pages_of_text = page_size, -(-context // page_size)

    def pool(self) -> TextStates:
        """See `TextModel`."""
        alone = self.executable.pooled()
        together = self.together.pooled(alone.pools) if self.together is not None else None
        checking = self.checking.pooled(alone.pools) if self.checking is not None else None
        return TextPool(alone, together, PageTable(self.pages, self.page_size, self.pages_of_text), checking)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of the keys and values of a token."""
        infos = [info for info in self.executable.inputs if info.name.startswith("past.")]
        return sum(int(info.shape[0]) * int(info.shape[2]) * info.dtype.itemsize for info in infos)

    @property
    def programs(self) -> Sequence[Executable]:
        """See `TextModel`."""
        return [item for item in (self.executable, self.together, self.checking) if item is not None]

    def prompt(self, text: str) -> tuple[Sequence[int], Source | None]:
        """See `TextModel`."""
        return self.tokenizer.encode(text), None

    def proposals(self) -> Proposals:
        """See `TextModel`."""
        return self.proposal_sources.proposals()

    def session(self) -> TextSession:
        """Returns a new session, which is independent of others."""
        return TextSession(self)

    def stream(
        self, prompt: str, sampling: SamplingOptions | None = None, *, most: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Continues a prompt; see `TextSession.stream`."""
        return self.session().stream(prompt, sampling, most=most, stop=stop)

    def generate(
        self, prompt: str, sampling: SamplingOptions | None = None, *, most: int | None = None, stop: Sequence[str] = ()
    ) -> str:
        """Continues a prompt, and returns the text as a whole."""
        return "".join(self.stream(prompt, sampling, most=most, stop=stop))


class TextSession:
    """A text in progress, with the keys and values of its tokens; a prompt that begins with it computes only the rest.

    Attributes:
        tokens: the tokens whose keys and values are kept.
        proposals: the proposed tokens, with counts.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model, self._pool = model, model.pool()
        self._text = self._pool.table.text()
        self.tokens: list[int] = []
        self.proposals = model.proposals()

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: SamplingOptions | None = None,
        *,
        most: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Answers the last message of a chat, by the model's chat template.

        Args:
            messages: each with "role" ("system", "user" or "assistant") and "content".
            sampling: see `stream`.
            most: see `stream`.
            stop: see `stream`.
        """
        return self.stream(self._model.tokenizer.chat(messages), sampling, most=most, stop=stop)

    def stream(
        self, prompt: str, sampling: SamplingOptions | None = None, *, most: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Continues a prompt until the model ends the text, and yields the text as it grows.

        Args:
            prompt: the text to continue. A beginning that it shares with the text so far is not computed again.
            sampling: how tokens are chosen; by default the most probable one.
            most: maximum number of tokens; by default as many as the context holds.
            stop: texts that end the text; they are not part of it.

        Raises:
            InputError: the prompt is empty or leaves no room in the context.
        """
        tokens = self._model.tokenizer.encode(prompt)
        room = self._model.room(tokens, most)
        return self._stream(tokens, sampling or SamplingOptions(), room, stop)

    def _stream(
        self, tokens: Sequence[int], sampling: SamplingOptions, most: int, stop: Sequence[str]
    ) -> Iterator[str]:
        generation = Generation(self._model.tokenizer, sampling, most, stop)
        unread, texts = self._unread(tokens), list[str]()

        def choose(logits: np.ndarray) -> bool:
            texts.append(generation.add(logits).text)
            return generation.finish is None

        choose(self._pool.read(self._text, unread))
        self.tokens += unread
        self.proposals.start([*tokens, *generation.tokens])
        while True:
            text = "".join(texts)
            texts.clear()
            if text:
                yield text
            if generation.finish is not None:
                break
            advance(self._pool, self._text, generation, self.proposals, choose, self.proposals.most)
            self.tokens += self.proposals.tokens[len(self.tokens) : self._text.length]

    def _unread(self, tokens: Sequence[int]) -> Sequence[int]:
        """Keeps what the text and some tokens have in common; returns the tokens after it, at least the last one."""
        pairs = zip(self.tokens, tokens[:-1], strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._pool.table.truncate(self._text, common)
        del self.tokens[self._text.length :]
        return tokens[self._text.length :]
