"""Loads language models from files and folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..driver.sources.paged import PagedSource
from ..support.errors import InputError
from .model import LanguageModel, ProposalSources
from .model_file import ModelFile, read_model
from .page_sizes import PAGE_SIZE, bytes_per_token, pasts, prompt_lengths
from .recurrent import load_recurrent
from .text_states import CHUNK
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
        cache: elements of keys and values: "float"; or "int8", or rotated "int4", with a scale for each token and head.
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
    if stored.initial is not None:
        if lookup or draft is not None or cache != "float":
            raise InputError("lookup, draft and cache are for models with keys and values; this one has other states")
        kept = (_KEPT_BYTES if sequences > 1 else 0) if memory is None else memory
        return load_recurrent(stored, context, threads, sequences, kept, batch_invariant)
    lookup, drafted = (max(0, min(count, context - 2)) for count in (lookup, drafted if draft is not None else 0))
    smaller = _load_draft(draft, tokenizer, context, threads, cache) if draft is not None and drafted else None
    proposal_sources = ProposalSources(lookup, smaller, drafted)
    return _compiled(stored, context, threads, cache, sequences, memory, proposal_sources, batch_invariant)


def _compiled(
    stored: ModelFile,
    context: int,
    threads: int | None,
    cache: CacheForm,
    sequences: int = 1,
    memory: int | None = None,
    proposal_sources: ProposalSources | None = None,
    batch_invariant: bool = False,
) -> LanguageModel:
    """Compiles a model with keys and values; see `load`.

    Args:
        stored: the model.
        context: maximum number of tokens of a text.
        threads: see `load`.
        cache: see `load`.
        sequences: see `load`.
        memory: see `load`.
        proposal_sources: sources of proposed tokens; None for none.
        batch_invariant: see `load`.
    """
    source, pages_of_text = stored.source, -(-context // PAGE_SIZE)
    per_page = PAGE_SIZE * bytes_per_token(source, cache)
    kept = sequences * pages_of_text * per_page + (_KEPT_BYTES if sequences > 1 else 0) if memory is None else memory
    pages = max(pages_of_text, kept // per_page)
    source = PagedSource.of(source, PAGE_SIZE, pages, pages_of_text, cache)
    # A step by one token has a program of its own, which is faster. Prompts are read one after the other.
    most = min(CHUNK, context)
    lengths = prompt_lengths(context, most, is_alike=batch_invariant)
    sizes: dict[str, Any] = {"past": pasts(context, most), "outputs": 1}
    executable = compile_model(source, threads=threads, options=Options(dims={**sizes, "batch": 1, "length": lengths}))
    checking, proposed = None, 0 if proposal_sources is None else proposal_sources.most
    if proposed:
        several = 2 if proposed == 1 else (2, proposed + 1)
        dims = {"past": pasts(context, proposed + 1), "outputs": several, "batch": 1, "length": several}
        checking = compile_model(source, threads=threads, options=Options(dims=dims))
    together = None
    if sequences > 1:
        sizes |= {"batch": (2, sequences), "length": 1}
        # A step rounds a token's rows as the step of its text alone does.
        together = compile_model(source, threads=threads, options=Options(dims=sizes, batch_invariant=True))
    decoders = executable, stored.tokenizer, context, pages, together, sequences, checking
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
    if stored.initial is not None:
        raise InputError(f"the draft model {Path(path).name} must have keys and values, and has other states")
    difference = tokenizer.difference(stored.tokenizer)
    if difference:
        raise InputError(f"the draft model {Path(path).name} has other tokens than the model: {difference}")
    return _compiled(stored, min(context, stored.context), threads, cache)
