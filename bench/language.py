"""Measures language models: tokens per second of prompts and of steps, and the share of the memory's read rate."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..lm.loading import load
from ..lm.model import LanguageModel
from ..runtime.devices.peaks import Peaks

if TYPE_CHECKING:
    from ..driver.sources.paged import CacheForm

_SEED = 0


@dataclass(frozen=True)
class LanguageFigure:
    """One figure.

    Attributes:
        name: "prompt" or "step".
        texts: number of texts that grow together.
        depth: number of tokens of each text before the call.
        tokens: number of tokens that a call adds.
        seconds: median time of a call.
        bytes: weights, keys and values that a call reads; 0 for a prompt, which arithmetic limits.
        rate_share: these bytes per second, as a part of the read rate of the memory; 0 for a prompt.
    """

    name: str
    texts: int
    depth: int
    tokens: int
    seconds: float
    bytes: int = 0
    rate_share: float = 0.0


def random_model() -> Path:
    """Writes a decoder of Llama's shape with 0.3 billion random weights of 4 bits to a temporary folder."""
    from .gguf_decoder import GgufConfig, byte_tokenizer, write_decoder

    path = Path(tempfile.mkdtemp(prefix="stepwell-bench-")) / "random-0.3b-q4_0.gguf"
    config = GgufConfig(
        layers=16,
        hidden=1024,
        heads=16,
        key_heads=4,
        intermediate=4096,
        vocabulary=32000,
        context=16384,
        settings=byte_tokenizer(),
    )
    write_decoder(path, config)
    return path


def measure(
    path: Path,
    threads: int,
    seconds: float,
    prompts: Sequence[int],
    depths: Sequence[int],
    texts: Sequence[int],
    *,
    limits: Peaks,
    cache: CacheForm = "float",
) -> list[LanguageFigure]:
    """Measures prompts of several lengths, steps of one text at several depths, and steps of several texts.

    Args:
        path: a GGUF file.
        threads: number of threads of a call.
        seconds: time to measure each figure.
        prompts: numbers of tokens.
        depths: numbers of tokens before the steps of one text.
        texts: numbers of texts of the smallest depth.
        limits: the rates of the machine with as many threads.
        cache: the elements of keys and values, "float", "int8" or "int4".
    """
    context = max([*prompts, *depths]) + 64
    model = load(path, context=context, threads=threads, sequences=max(texts), cache=cache)
    tokens = np.random.default_rng(_SEED).integers(3, 250, context).tolist()
    found = [_prompt(model, tokens[:count], seconds) for count in prompts]
    weights = _weight_bytes(model)
    for count, depth in [*((1, depth) for depth in depths), *((count, min(depths)) for count in texts if count > 1)]:
        size = weights + count * depth * model.bytes_per_token
        taken = _median(_steps(model, tokens[:depth], count), seconds)
        share = size / taken / limits.read_rate(size)
        found.append(LanguageFigure("step", count, depth, count, taken, size, share))
    return found


def _prompt(model: LanguageModel, tokens: Sequence[int], seconds: float) -> LanguageFigure:
    pool = model.pool()
    text = pool.table.text()

    def read() -> None:
        pool.table.release(text)
        pool.read(text, tokens)

    return LanguageFigure("prompt", 1, 0, len(tokens), _median(read, seconds))


def _steps(model: LanguageModel, tokens: Sequence[int], count: int) -> Callable[[], None]:
    """Returns a function that adds a token to each of some texts, which keep their length."""
    pool = model.pool()
    texts = [pool.table.text() for _ in range(count)]
    for text in texts:
        pool.read(text, tokens)

    def step() -> None:
        for text in texts:
            pool.table.truncate(text, len(tokens))
        pool.step(texts, [[5]] * count)

    return step


def _median(call: Callable[[], None], seconds: float) -> float:
    call()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _weight_bytes(model: LanguageModel) -> int:
    """Returns the bytes of the weights that a step reads: all but a table of embeddings that is not the head too."""
    parameters = model.executable.programs[0].parameters
    has_head = any(name.startswith("output.") for name in parameters)
    return sum(array.nbytes for name, array in parameters.items() if not (has_head and name.startswith("token_embd")))
