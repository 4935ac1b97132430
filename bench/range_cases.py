"""The models that `stepwell-bench ranges` and `new-sizes` measure by default, with ranges and sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..driver.sources.reading import read_source
from . import models, turns
from .decoder import LARGE, DecoderConfig, make_decoder

_Sizes = Mapping[str, int]

_SECONDS = 3600.0
"""Longest duration of the compiles and calls of one model."""

_BATCH, _HEIGHT, _WIDTH = (f"p2o.DynamicDimension.{number}" for number in range(3))


@dataclass(frozen=True)
class RangeCase:
    """A model with ranges of sizes.

    Attributes:
        model: the model.
        dims: the ranges, as in `Options.dims`; empty for first calls at new sizes.
        sizes: the sets of sizes to measure, in their order.
    """

    model: models.BenchModel
    dims: Mapping[str, Any]
    sizes: Sequence[_Sizes]

    def measured(self, threads: int, seconds: float, rounds: int | None) -> Any:
        """Measures the model in a process of its own: in ranges, or first calls at new sizes without `rounds`.

        Args:
            threads: threads of a call.
            seconds: duration of a turn, or of the later calls at each set of sizes.
            rounds: number of turns.
        """
        with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder, turns.pinned(threads) as worker:
            path = self.model.file(Path(folder))
            given = self.fixed_inputs(path)
            if rounds is None:
                how = ("stepwell.bench.new_sizes", "measure", path, self.sizes, threads, seconds, given)
            else:
                how = (
                    "stepwell.bench.ranges",
                    "measure",
                    path,
                    self.dims,
                    self.sizes,
                    threads,
                    rounds,
                    seconds,
                    given,
                )
            return worker.ask("run", *how, timeout=_SECONDS)

    def fixed_inputs(self, path: Path) -> dict[str, np.ndarray]:
        """Returns the contents of the inputs of fixed shape that cannot be arbitrary numbers."""
        random, contents = np.random.default_rng(0), self.model.contents
        return {
            info.name: np.asarray(contents[info.name](random, tuple(map(int, info.shape)))).astype(info.dtype)
            for info in read_source(path).interface()[0]
            if info.is_static and info.name in contents
        }


def in_ranges() -> list[RangeCase]:
    """Returns the models that are measured in ranges, at eight sizes each."""
    images = ((32, 32), (64, 96), (96, 320), (160, 160), (320, 320), (480, 640), (640, 640), (736, 960))
    lines = ((1, 40), (1, 100), (1, 320), (1, 640), (2, 200), (3, 333), (6, 320), (6, 640))
    pasts = (0, 1, 7, 63, 100, 255, 400, 511)
    steps = {"batch": 1, "length": 1, "past": (0, 511)}
    decoders = [_decoder("decoder-128", DecoderConfig()), _decoder("decoder-768", LARGE)]
    return [
        RangeCase(
            models.named("ppocr-det"),
            {_BATCH: 1, _HEIGHT: (32, 736, 32), _WIDTH: (32, 960, 32)},
            [{_BATCH: 1, _HEIGHT: height, _WIDTH: width} for height, width in images],
        ),
        RangeCase(
            models.named("ppocr-rec"),
            {_BATCH: (1, 6), "x.2": 48, _HEIGHT: (40, 640)},
            [{_BATCH: batch, "x.2": 48, _HEIGHT: width} for batch, width in lines],
        ),
        RangeCase(
            models.named("minilm-1x128"),
            {"batch": 1, "length": (1, 512)},
            [{"batch": 1, "length": length} for length in (1, 7, 16, 40, 100, 128, 300, 512)],
        ),
        RangeCase(
            models.named("silero-vad"),
            {"batch": (1, 8), "sequence": 576},
            [{"batch": batch, "sequence": 576} for batch in range(1, 9)],
        ),
        *(RangeCase(model, steps, [{"batch": 1, "length": 1, "past": past} for past in pasts]) for model in decoders),
    ]


def at_new_sizes() -> list[RangeCase]:
    """Returns the models whose first calls at new sizes are measured; their first two sizes are compiled."""
    images = ((640, 640), (320, 480), (320, 320), (480, 640), (96, 320), (224, 608))
    return [
        RangeCase(
            models.named("minilm-1x128"),
            {},
            [{"batch": 1, "length": length} for length in (128, 64, 7, 16, 40, 100, 300)],
        ),
        RangeCase(
            models.named("ppocr-det"),
            {},
            [{_BATCH: 1, _HEIGHT: height, _WIDTH: width} for height, width in images],
        ),
    ]


def _decoder(name: str, config: DecoderConfig) -> models.BenchModel:
    def file(folder: Path) -> Path:
        path = folder / f"{name}.onnx"
        onnx.save(make_decoder(config), path)
        return path

    return models.BenchModel(name, file)
