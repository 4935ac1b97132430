"""A compiled decoder with its tokenizer, which continues prompts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..driver.sources.paged import PagedSource
from ..runtime.executable import Executable
from ..support.errors import InputError
from .draft import DraftModel
from .generation import Generation
from .lookup import TextLookup
from .model_file import read_model
from .page_sizes import PAGE_SIZE, bytes_per_token, pasts
from .pages import PageTable
from .proposals import Proposals, Proposer, advance
from .sampling import SamplingOptions
from .text_pool import CHUNK, TextPool
from .tokenizer import TextTokenizer

if TYPE_CHECKING:
    from ..driver.sources.paged import CacheForm

_KEPT_BYTES = 1 << 28
"""Memory for keys and values of ended texts by default."""

_CONTEXT = 4096
"""Default maximum length of texts in tokens; keys and values of all tokens are kept in memory."""


def load(
    path: str | os.PathLike[str],
    context: int | None = None,
    threads: int | None = None,
    *,
    sequences: int = 1,
    memory: int | None = None,
    lookup: int = 0,
    draft: str | os.PathLike[str] | None = None,
    drafted: int = 8,
    cache: CacheForm = "float",
    batch_invariant: bool = False,
) -> LanguageModel:
    """Loads a GGUF file, a Hugging Face folder or an ONNX decoder, and compiles it or takes it from the cache.

    Args:
        path: the file; or the folder with tokenizer.json, config.json and safetensors; or a folder with an ONNX decoder
            and genai_config.json or config.json.
        context: maximum number of tokens of a text with its prompt; by default that of the model, at most 4,096.
        threads: number of threads of a call; by default one for each core.
        sequences: maximum number of texts that grow together, in an `Engine`.
        memory: bytes for keys and values, at least those of one text; by default those of `sequences` texts and, if
            several grow together, 256 MB in which the `Engine` keeps ended texts.
        lookup: maximum number of tokens that a text proposes by its own repetitions, to be checked in one call; 0 for
            none.
        draft: a smaller model with the same tokens, which proposes tokens where the text proposes none.
        drafted: maximum number of tokens that it proposes.
        cache: the elements of keys and values: "float", or "int8" with a scale for each token and head.
        batch_invariant: whether each text of an `Engine` is, to the last bit of its logits, the one that it is alone.
            Texts that wait for pages then keep their keys and values outside of the pool, and texts share the pages of
            prompts only.

    Raises:
        ModelError: it is damaged, or its decoder or tokenizer is not supported.
        InputError: the model was not made for texts of this length, `lookup` or `drafted` is out of range, the draft
            model has other tokens, or tokens are proposed in spite of `batch_invariant`.
    """
    path = Path(path)
    stored = read_model(path)
    tokenizer, most = stored.tokenizer, stored.context
    if context is not None and not 1 < context <= most:
        raise InputError(f"context is {context}, and must be from 2 to {most}, the length that the model was made for")
    context = min(most, _CONTEXT) if context is None else context
    if lookup < 0:
        raise InputError(f"lookup is {lookup}, and must be at least 0")
    if drafted < 1:
        raise InputError(f"drafted is {drafted}, and must be at least 1")
    if batch_invariant and (lookup or draft is not None):
        raise InputError(
            "batch_invariant excludes lookup and draft: the program that checks proposed tokens rounds them"
        )
    source, pages_of_text = stored.source, -(-context // PAGE_SIZE)
    per_page = PAGE_SIZE * bytes_per_token(source, cache)
    kept = sequences * pages_of_text * per_page + (_KEPT_BYTES if sequences > 1 else 0) if memory is None else memory
    pages = max(pages_of_text, kept // per_page)
    source = PagedSource.of(source, PAGE_SIZE, pages, pages_of_text, cache)
    # A step by one token has a program of its own, which is faster. Prompts are read one after the other.
    most = min(CHUNK, context)
    lengths = [1] if context == 2 else [1, (2, most)]
    sizes: dict[str, Any] = {"past": pasts(context, most), "outputs": 1}
    executable = compile_model(source, threads=threads, options=Options(dims={**sizes, "batch": 1, "length": lengths}))
    lookup, drafted = (max(0, min(count, context - 2)) for count in (lookup, drafted if draft is not None else 0))
    smaller = _load_draft(draft, tokenizer, context, threads, cache) if draft is not None and drafted else None
    checking, proposal_sources = None, ProposalSources(lookup, smaller, drafted)
    if proposal_sources.most:
        tokens = proposal_sources.most + 1
        several = 2 if tokens == 2 else (2, tokens)
        dims = {"past": pasts(context, tokens), "outputs": several, "batch": 1, "length": several}
        checking = compile_model(source, threads=threads, options=Options(dims=dims))
    together = None
    if sequences > 1:
        sizes |= {"batch": (2, sequences), "length": 1}
        together = compile_model(source, threads=threads, options=Options(dims=sizes))
    decoders = executable, tokenizer, context, pages, together, sequences, checking
    return LanguageModel(*decoders, proposal_sources, batch_invariant)


def _load_draft(
    path: str | os.PathLike[str], tokenizer: TextTokenizer, context: int, threads: int | None, cache: CacheForm
) -> LanguageModel:
    """Loads a draft model, for texts as long as it allows.

    Raises:
        ModelError: as for `load`.
        InputError: it has other tokens than the tokenizer.
    """
    stored = read_model(Path(path))
    difference = tokenizer.difference(stored.tokenizer)
    if difference:
        raise InputError(f"the draft model {Path(path).name} has other tokens than the model: {difference}")
    return load(path, min(context, stored.context), threads, cache=cache)


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


class LanguageModel:
    """A model that continues texts.

    Attributes:
        executable: the compiled decoder, for one text.
        together: the decoder for a token of each of several texts; None if only one text grows.
        tokenizer: the tokenizer of the model.
        context: maximum number of tokens of a text with its prompt.
        pages: number of pages of a pool of keys and values.
        page_size: number of tokens in a page.
        pages_of_text: maximum number of pages of a text.
        sequences: maximum number of texts that grow together.
        checking: the decoder for several tokens of a text, with logits after each; None if no tokens are proposed.
        proposal_sources: sources of proposed tokens.
        is_batch_invariant: whether each text of an `Engine` is, to the last bit, the one that it is alone.
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
    ) -> None:
        self.executable, self.together, self.tokenizer = executable, together, tokenizer
        self.context, self.sequences, self.pages = context, sequences, pages
        self.checking, self.proposal_sources = checking, proposal_sources or ProposalSources()
        self.is_batch_invariant = is_batch_invariant
        self.page_size, self.pages_of_text = PAGE_SIZE, -(-context // PAGE_SIZE)

    def pool(self) -> TextPool:
        """Returns a new pool of keys and values, without texts."""
        alone = self.executable.pooled()
        together = self.together.pooled(alone.pools) if self.together is not None else None
        checking = self.checking.pooled(alone.pools) if self.checking is not None else None
        return TextPool(alone, together, PageTable(self.pages, self.page_size, self.pages_of_text), checking)

    def room(self, tokens: Sequence[int], most: int | None = None) -> int:
        """Returns the maximum number of tokens that may follow a prompt, `most` if the context holds as many.

        Raises:
            InputError: the prompt is empty or leaves no room in the context.
        """
        if not tokens:
            raise InputError("the prompt is empty")
        if len(tokens) >= self.context:
            raise InputError(f"the prompt has {len(tokens)} tokens, and the context {self.context}; load it with more")
        room = self.context - len(tokens)
        return room if most is None else min(most, room)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of the keys and values of a token."""
        infos = [info for info in self.executable.inputs if info.name.startswith("past.")]
        return sum(int(info.shape[0]) * int(info.shape[2]) * info.dtype.itemsize for info in infos)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in memory, which the programs share."""
        others = [item for item in (self.together, self.checking) if item is not None]
        made = [program for item in (self.executable, *others) for program in item.programs]
        arrays = {name: array for program in made for name, array in program.parameters.items()}
        return sum(array.nbytes for array in arrays.values())

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
        self.proposals = model.proposal_sources.proposals()

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
        del self.tokens[common:]
        return tokens[common:]
