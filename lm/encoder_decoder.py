"""Encoder-decoders, such as T5 and Whisper: text about a source, which is another text or the spectra of speech."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..driver.sources.huggingface_part import HuggingFacePartSource
from ..driver.sources.paged import PagedSource
from ..frontend.decoder_step import SOURCE_LENGTHS
from ..frontend.errors import ModelError, naming
from ..frontend.huggingface.parts.importer import family_of
from ..frontend.json_file import read_json
from ..runtime.executable import Executable
from ..support.errors import InputError
from .folder_tokenizer import GENERATION, tokenizer_of_folder
from .generation import Generation
from .page_sizes import PAGE_SIZE, pasts
from .pages import PageTable
from .request import Request, Source
from .sampling import SamplingOptions
from .text_model import TextModel
from .text_pool import TextPool
from .text_states import CHUNK, TextStates
from .token_rules import TokenRules
from .tokenizer import TextTokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TextOptions(TypedDict, total=False):
    """Options of a text.

    Attributes:
        prompt: the first tokens of the text, such as those for a language and a task; by default the token that begins
            all texts of the model.
        most: maximum number of further tokens; by default as many as the context holds.
        stop: texts that end the text; they are not part of it.
    """

    prompt: Sequence[int]
    most: int
    stop: Sequence[str]


def is_encoder_decoder(path: Path) -> bool:
    """Returns whether a path is a Hugging Face folder of an encoder-decoder.

    Raises:
        ModelError: its settings are damaged.
    """
    family = family_of(path)[0] if (path / "config.json").is_file() else None
    return family is not None and family.state == "source"


def load_encoder_decoder(
    path: str | os.PathLike[str],
    context: int | None = None,
    source: int | None = None,
    threads: int | None = None,
    *,
    sequences: int = 1,
) -> EncoderDecoder:
    """Loads T5 or Whisper from a Hugging Face folder, and compiles both parts or takes them from the cache.

    Args:
        path: the folder with config.json, safetensors and tokenizer.json.
        context: maximum number of tokens of a text; by default that of the model.
        source: maximum number of tokens of a source that is text; by default as many as of a text.
        threads: number of threads of a call; by default one for each core.
        sequences: maximum number of texts that grow together, in an `Engine`.

    Raises:
        ModelError: it is damaged or not supported.
        InputError: `context` or `source` is out of range.
    """
    path = Path(path)
    with naming(path.name):
        family, config = family_of(path)
        if family is None or family.state != "source":
            raise ModelError(
                f"has the model type '{config.get('model_type')}', which is no encoder-decoder that is supported: load "
                "a decoder by stepwell.lm.load"
            )
        tokenizer = tokenizer_of_folder(path)
        generation = read_json(path / GENERATION) if (path / GENERATION).is_file() else {}
        settings = {**config, **generation}
        start = settings.get("decoder_start_token_id")
        if not isinstance(start, int):
            raise ModelError("config.json lacks the number 'decoder_start_token_id'")
    most = family.context_of(config)
    context = most if context is None else context
    if not 1 < context <= most:
        raise InputError(f"context is {context}, and must be from 2 to {most}, the length that the model was made for")
    if source is not None and source < 1:
        raise InputError(f"source is {source}, and must be at least 1")
    part, pages = HuggingFacePartSource.of(path, "encoder"), -(-context // PAGE_SIZE)
    length = part.interface()[1][0].shape[2]
    if isinstance(length, int) and source is not None:
        raise InputError(f"source is {source}, but the model was made for spectra of one length")
    sizes: dict[str, Any] = {"source": length if isinstance(length, int) else (1, source or most)}
    dims = {"batch": 1} | ({} if isinstance(length, int) else sizes)
    encoder = compile_model(part, threads=threads, options=Options(dims=dims))
    paged = PagedSource.of(HuggingFacePartSource.of(path, "decoder"), PAGE_SIZE, sequences * pages, pages)
    longest = min(CHUNK, context)
    sizes |= {"past": pasts(context, longest), "outputs": 1}
    lengths = [1] if context == 2 else [1, (2, longest)]
    decoder = compile_model(paged, threads=threads, options=Options(dims={**sizes, "batch": 1, "length": lengths}))
    together = None
    if sequences > 1:
        sizes |= {"batch": (2, sequences), "length": 1}
        together = compile_model(paged, threads=threads, options=Options(dims=sizes))
    rules = TokenRules.of(settings)
    return EncoderDecoder(encoder, decoder, together, tokenizer, context, sequences, start, rules)


class EncoderDecoder(TextModel):
    """A model that writes text about a source.

    The encoder computes, once for each source, the keys and values that every layer of the decoder attends to; they are
    the constant part of a text's state. Keys and values of the text itself are in pages.

    Attributes:
        encoder: the compiled encoder.
        decoder: the compiled step of the decoder, for one text.
        together: the step for a token of each of several texts; None if only one text grows.
        start: the token that begins each text.
    """

    shares_beginnings = False

    def __init__(
        self,
        encoder: Executable,
        decoder: Executable,
        together: Executable | None,
        tokenizer: TextTokenizer,
        context: int,
        sequences: int,
        start: int,
        rules: TokenRules,
    ) -> None:
        super().__init__(tokenizer, context, sequences, is_batch_invariant=False)
        self.encoder, self.decoder, self.together, self.start, self.rules = encoder, decoder, together, start, rules

    @property
    def programs(self) -> Sequence[Executable]:
        """See `TextModel`."""
        return [item for item in (self.encoder, self.decoder, self.together) if item is not None]

    @property
    def reads_text(self) -> bool:
        """True if sources are texts, False if they are spectra."""
        return self.encoder.inputs[0].name == "source_ids"

    def pool(self) -> TextStates:
        """See `TextModel`."""
        alone, pages = self.decoder.pooled(), -(-self.context // PAGE_SIZE)
        together = self.together.pooled(alone.pools) if self.together is not None else None
        return TextPool(alone, together, PageTable(self.sequences * pages, PAGE_SIZE, pages))

    def prompt(self, text: str) -> tuple[Sequence[int], Source | None]:
        """See `TextModel`; the text is the source."""
        if not self.reads_text:
            raise InputError("the model writes about spectra of speech, and takes no text")
        return [self.start], self.tokenizer.encode_whole(text)

    def prompt_of_tokens(self, tokens: Sequence[int]) -> tuple[Sequence[int], Source | None]:
        """See `TextModel`; the tokens are those of the source."""
        return [self.start], tokens

    def stream(
        self, source: Source, sampling: SamplingOptions | None = None, **options: Unpack[TextOptions]
    ) -> Iterator[str]:
        """Writes text about a source, and yields it as it grows.

        Args:
            source: a text or its tokens; for Whisper, the spectra.
            sampling: how tokens are chosen; by default the most probable one.
            options: see `TextOptions`.

        Raises:
            InputError: the source has another form or length, or the prompt leaves no room in the context.
        """
        request = self._request(source, sampling, options)
        return self._stream(request, self.generation(request))

    def generate(self, source: Source, sampling: SamplingOptions | None = None, **options: Unpack[TextOptions]) -> str:
        """Writes text about a source, and returns it as a whole; see `stream`."""
        return "".join(self.stream(source, sampling, **options))

    def tokens(
        self, source: Source, sampling: SamplingOptions | None = None, **options: Unpack[TextOptions]
    ) -> list[int]:
        """Writes text about a source, and returns its tokens behind the prompt, without that for the end."""
        request = self._request(source, sampling, options)
        generation = self.generation(request)
        for _ in self._stream(request, generation):
            pass
        return generation.tokens

    def _request(self, source: Source, sampling: SamplingOptions | None, options: TextOptions) -> Request:
        prompt = options.get("prompt")
        first = [self.start] if prompt is None else list(prompt)
        given = {"most": options.get("most"), "stop": options.get("stop", ()), "source": source}
        return Request(first, lambda _: None, sampling or SamplingOptions(), **given)

    def check_source(self, source: Source | None) -> None:
        """See `TextModel`."""
        self._encoder_input(source)

    def inputs_of(self, source: Source | None) -> Mapping[str, np.ndarray]:
        """See `TextModel`: the keys and values of the source."""
        given = self._encoder_input(source)
        outputs = self.encoder.outputs_for({self.encoder.inputs[0].name: given})
        found = {item.name: array for item, array in zip(self.encoder.outputs, outputs, strict=True)}
        return {**found, SOURCE_LENGTHS: np.array([given.shape[1]])} if self.reads_text else found

    def _encoder_input(self, source: Source | None) -> np.ndarray:
        """Returns a source as the encoder reads it.

        Raises:
            InputError: it has another form or length than the model takes.
        """
        if not self.reads_text:
            array = np.asarray(source) if isinstance(source, np.ndarray) else np.empty(0)
            wanted = tuple(map(int, self.encoder.inputs[0].shape[1:]))
            if array.reshape(-1).dtype != np.float32 or array.shape not in (wanted, (1, *wanted)):
                raise InputError(f"the source must be spectra f32[{wanted[0]}, {wanted[1]}], as the model was made for")
            return array.reshape(1, *wanted)
        if source is None or isinstance(source, np.ndarray):
            raise InputError("the source must be a text or its tokens")
        tokens = self.tokenizer.encode_whole(source) if isinstance(source, str) else list(source)
        longest = self.encoder.ranges["source"].high
        if not 0 < len(tokens) <= longest:
            raise InputError(f"the source has {len(tokens)} tokens, and must have 1 to {longest}")
        return np.array([tokens])

    def _stream(self, request: Request, generation: Generation) -> Iterator[str]:
        pool = self.pool()
        text = pool.table.text()
        text.given = self.inputs_of(request.source)
        unread = list(request.tokens)
        while True:
            piece = generation.add(pool.read(text, unread))
            if piece.text:
                yield piece.text
            if generation.finish is not None:
                return
            unread = generation.tokens[-1:]
