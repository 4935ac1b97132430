"""Encoder-decoders, such as T5 and Whisper: text about a source, which is another text or the spectra of speech."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..driver.sources.huggingface_part import HuggingFacePartSource
from ..driver.sources.paged import PagedSource
from ..frontend.errors import ModelError
from ..frontend.huggingface.parts.importer import family_of
from ..frontend.json_file import read_json
from ..runtime.executable import Executable
from ..support.errors import InputError
from .folder_tokenizer import GENERATION, tokenizer_of_folder
from .generation import Generation
from .page_sizes import PAGE_SIZE, pasts
from .pages import PageTable
from .sampling import SamplingOptions
from .text_pool import TextPool
from .tokenizer import TextTokenizer

Source = str | Sequence[int] | np.ndarray
"""A text, its tokens, or log-mel spectra f32[bins, frames]."""


def load_encoder_decoder(
    path: str | os.PathLike[str], context: int | None = None, source: int | None = None, threads: int | None = None
) -> EncoderDecoder:
    """Loads T5 or Whisper from a Hugging Face folder, and compiles both parts or takes them from the cache.

    Args:
        path: the folder with config.json, safetensors and tokenizer.json.
        context: maximum number of tokens of a text; by default that of the model.
        source: maximum number of tokens of a source that is text; by default as many as of a text.
        threads: number of threads of a call; by default one for each core.

    Raises:
        ModelError: it is damaged or not supported.
        InputError: `context` or `source` is out of range.
    """
    path = Path(path)
    try:
        family, config = family_of(path)
        if family is None or family.state != "source":
            raise ModelError(
                f"has the model type '{config.get('model_type')}', which is no encoder-decoder that is supported: load "
                "a decoder by stepwell.lm.load"
            )
        tokenizer = tokenizer_of_folder(path)
        generation = read_json(path / GENERATION) if (path / GENERATION).is_file() else {}
    except ModelError as error:
        raise error.at(model=path.name) from error.__cause__
    most = family.context_of(config)
    context = most if context is None else context
    if not 1 < context <= most:
        raise InputError(f"context is {context}, and must be from 2 to {most}, the length that the model was made for")
    if source is not None and source < 1:
        raise InputError(f"source is {source}, and must be at least 1")
    encoder = HuggingFacePartSource.of(path, "encoder")
    pages = -(-context // PAGE_SIZE)
    decoder = PagedSource.of(HuggingFacePartSource.of(path, "decoder"), PAGE_SIZE, pages, pages)
    length = encoder.interface()[1][0].shape[2]
    if isinstance(length, int) and source is not None:
        raise InputError(f"source is {source}, but the model was made for spectra of one length")
    dims: dict[str, Any] = {"batch": 1} | ({} if isinstance(length, int) else {"source": (1, source or most)})
    step = {"source": length, **dims, "past": pasts(context, 1), "outputs": 1, "length": 1}
    programs = [
        compile_model(part, threads=threads, options=Options(dims=sizes))
        for part, sizes in ((encoder, dims), (decoder, step))
    ]
    rules = _TokenRules.of({**config, **generation})
    return EncoderDecoder(programs[0], programs[1], tokenizer, context, rules)


@dataclass(frozen=True)
class _TokenRules:
    """The token that begins each text, and the tokens that are never chosen.

    Attributes:
        start: the first token.
        never: tokens that are not chosen.
        not_first: tokens that are not the first ones to be chosen.
    """

    start: int
    never: list[int] = field(default_factory=list)
    not_first: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, settings: dict[str, Any]) -> _TokenRules:
        """Reads the settings of a folder.

        Raises:
            ModelError: the first token is missing.
        """
        start = settings.get("decoder_start_token_id")
        if not isinstance(start, int):
            raise ModelError("config.json lacks the number 'decoder_start_token_id'")
        names = ("suppress_tokens", "begin_suppress_tokens")
        never, not_first = ([item for item in settings.get(name) or () if item >= 0] for name in names)
        return cls(start, never, not_first)

    def masked(self, logits: np.ndarray, is_first: bool) -> np.ndarray:
        """Returns logits without the tokens that must not be chosen."""
        logits = logits.copy()
        logits[[*self.never, *(self.not_first if is_first else ())]] = -np.inf
        return logits


class EncoderDecoder:
    """A model that writes text about a source.

    The encoder computes, once for each source, the keys and values that every layer of the decoder attends to; they are
    the constant part of a text's state. Keys and values of the text itself are in pages.

    Attributes:
        encoder: the compiled encoder.
        decoder: the compiled step of the decoder.
        tokenizer: the tokenizer of the model.
        context: maximum number of tokens of a text.
    """

    def __init__(
        self, encoder: Executable, decoder: Executable, tokenizer: TextTokenizer, context: int, rules: _TokenRules
    ) -> None:
        self.encoder, self.decoder, self.tokenizer, self.context = encoder, decoder, tokenizer, context
        self._rules = rules

    def stream(
        self,
        source: Source,
        sampling: SamplingOptions | None = None,
        *,
        prompt: Sequence[int] | None = None,
        most: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Writes text about a source, and yields it as it grows.

        Args:
            source: a text or its tokens; for Whisper, the spectra.
            sampling: how tokens are chosen; by default the most probable one.
            prompt: the first tokens of the text, such as those for a language and a task; by default the token that
                begins all texts of the model.
            most: maximum number of further tokens; by default as many as the context holds.
            stop: texts that end the text; they are not part of it.

        Raises:
            InputError: the source has another form or length, or the prompt leaves no room in the context.
        """
        first, room = self._room(prompt, most)
        generation = Generation(self.tokenizer, sampling or SamplingOptions(), room, stop)
        return self._stream(self._encoded(source), first, generation)

    def generate(
        self,
        source: Source,
        sampling: SamplingOptions | None = None,
        *,
        prompt: Sequence[int] | None = None,
        most: int | None = None,
        stop: Sequence[str] = (),
    ) -> str:
        """Writes text about a source, and returns it as a whole; see `stream`."""
        return "".join(self.stream(source, sampling, prompt=prompt, most=most, stop=stop))

    def tokens(
        self,
        source: Source,
        sampling: SamplingOptions | None = None,
        *,
        prompt: Sequence[int] | None = None,
        most: int | None = None,
    ) -> list[int]:
        """Writes text about a source, and returns its tokens behind the prompt, without that for the end."""
        first, room = self._room(prompt, most)
        generation = Generation(self.tokenizer, sampling or SamplingOptions(), room)
        for _ in self._stream(self._encoded(source), first, generation):
            pass
        return generation.tokens

    def _room(self, prompt: Sequence[int] | None, most: int | None) -> tuple[list[int], int]:
        first = [self._rules.start] if prompt is None else list(prompt)
        if not first:
            raise InputError("the prompt is empty")
        if len(first) >= self.context:
            raise InputError(f"the prompt has {len(first)} tokens, and the context {self.context}")
        room = self.context - len(first)
        return first, room if most is None else min(most, room)

    def _encoded(self, source: Source) -> dict[str, np.ndarray]:
        """Returns the keys and values of a source."""
        (info,) = self.encoder.inputs
        if info.name != "source_ids":
            array = np.asarray(source) if isinstance(source, np.ndarray) else np.empty(0)
            wanted = tuple(map(int, info.shape[1:]))
            if array.reshape(-1).dtype != np.float32 or array.shape not in (wanted, (1, *wanted)):
                raise InputError(f"the source must be spectra f32[{wanted[0]}, {wanted[1]}], as the model was made for")
            given = array.reshape(1, *wanted)
        else:
            if isinstance(source, np.ndarray):
                raise InputError("the source must be a text or its tokens")
            tokens = self.tokenizer.encode_whole(source) if isinstance(source, str) else list(source)
            longest = self.encoder.ranges["source"].high
            if not 0 < len(tokens) <= longest:
                raise InputError(f"the source has {len(tokens)} tokens, and must have 1 to {longest}")
            given = np.array([tokens])
        outputs = self.encoder.outputs_for({info.name: given})
        return {item.name: array for item, array in zip(self.encoder.outputs, outputs, strict=True)}

    def _stream(self, cross: dict[str, np.ndarray], first: Sequence[int], generation: Generation) -> Iterator[str]:
        pages = -(-self.context // PAGE_SIZE)
        pool = TextPool(self.decoder.pooled(), None, PageTable(pages, PAGE_SIZE, pages), given=cross)
        text, unread = pool.table.text(), list(first)
        while True:
            logits = [pool.step([text], [[token]])[0] for token in unread][-1]
            piece = generation.add(self._rules.masked(logits, is_first=not generation.tokens))
            if piece.text:
                yield piece.text
            if generation.finish is not None:
                return
            unread = generation.tokens[-1:]
