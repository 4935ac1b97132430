"""Budgets of the quantiser on real models: the error that was asked for, and bytes against the best uniform width.

Each model is quantised with one width for all weights: with 8 bits, and with 4 bits. The error that is asked for is the
geometric mean of both errors, so that the best uniform width that meets it is 8 bits. Errors are those of the compiled
ONNX models that the quantiser writes, not those that its search measures.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.api import compile
from ..driver.options import Options
from ..quantization.options import QuantizationOptions
from ..quantization.quantize import QuantizedModel, quantize
from ..runtime.program import Shape
from .models import BenchModel, named, packaged, voice

_FUNCTIONS = "weights/funcnet/x100_w32full"
_TOLERANCE = 1.02
"""The written model may differ from the measured one by rounding: its error may be so much larger."""

_Sample = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class BudgetRow:
    """The figures of a model.

    Attributes:
        model: its name.
        products: number of products with constant weights.
        asked: the error that was asked for.
        error: the error of the mixed model.
        uniform: the bytes of the weights with one width for all, by width.
        uniform_errors: the errors, by width.
        bytes: the bytes of the mixed model's weights.
        shares: the sum of the products' parts of the square error if all have 4 bits, relative to the measured one.
        seconds: the time of the three quantisations.
    """

    model: str
    products: int
    asked: float
    error: float
    uniform: Mapping[str, int]
    uniform_errors: Mapping[str, float]
    bytes: int
    shares: float
    seconds: float

    @property
    def is_met(self) -> bool:
        """Returns whether the error is at most the one that was asked for."""
        return self.error <= self.asked * _TOLERANCE

    @property
    def best_uniform(self) -> int:
        """The bytes of the best uniform width that meets the error."""
        return min(size for name, size in self.uniform.items() if self.uniform_errors[name] <= self.asked * _TOLERANCE)

    @property
    def saved(self) -> float:
        """The part of these bytes that the mixed model saves."""
        return 1.0 - self.bytes / self.best_uniform


def budget_models() -> list[BenchModel]:
    """Returns the real models that are quantised, at sizes that are quick to measure."""
    image: Mapping[str, Any] = {"x": lambda random, shape: random.standard_normal(shape)}
    ocr = "rapidocr_onnxruntime"
    return [
        BenchModel("ppocr-det", packaged(ocr, "models/ch_PP-OCRv4_det_infer.onnx"), {"x": (1, 3, 160, 160)}, image),
        BenchModel("ppocr-rec", packaged(ocr, "models/ch_PP-OCRv4_rec_infer.onnx"), {"x": (1, 3, 48, 160)}, image),
        BenchModel(
            "ppocr-cls", packaged(ocr, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"), {"x": (1, 3, 48, 192)}, image
        ),
        named("minilm-1x16"),
        voice("silero-vad", "data/silero_vad_16k_op15.onnx"),
        voice("silero-vad-branches", "data/silero_vad_op18_ifless.onnx"),
        BenchModel(
            "magika",
            packaged("magika", "models/standard_v3_3/model.onnx"),
            {"bytes": (1, 2048)},
            {"bytes": _text},
        ),
        BenchModel("captcha", packaged("captcha_whisperer", "models/captcha_crnn.onnx"), {"image": (1, 3, 60, 160)}),
        BenchModel(
            "basic-pitch",
            packaged("basic_pitch", "saved_models/icassp_2022/nmp.onnx"),
            {"serving_default_input_2:0": (1, 43844, 1)},
        ),
        BenchModel("atspm-pair", packaged("atspm_detector", f"{_FUNCTIONS}_pair.onnx"), {"x": (4, 15, 100)}),
        BenchModel(
            "atspm-head",
            packaged("atspm_detector", f"{_FUNCTIONS}_head.onnx"),
            {"logit": (2, 8), "Z": (2, 8, 128), "act": (2,)},
        ),
    ]


def _text(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Returns the first bytes of one of this folder's files."""
    path = sorted(Path(__file__).parent.glob("*.py"))[int(random.integers(10))]
    return np.resize(np.frombuffer(path.read_bytes(), np.uint8), shape)


def measure_budget(model: BenchModel, path: Path, calls: int) -> BudgetRow:
    """Quantises a model with one width for all products, and within a budget of error."""
    samples = [model.inputs(path, seed) for seed in range(calls)]
    wanted = _outputs(path, samples)
    options = QuantizationOptions(method="weights", samples=calls, cures=False)
    start = time.perf_counter()
    wide = quantize(path, samples, options, bits=8)
    narrow = quantize(path, samples, options, bits=4)
    errors = {"int8": _error(wide, samples, wanted), "int4": _error(narrow, samples, wanted)}
    asked = float(np.sqrt(errors["int8"] * errors["int4"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a budget that is missed is in the figures
        mixed = quantize(path, samples, options, cures=True, max_error=asked)
    seconds = time.perf_counter() - start
    report = narrow.report
    shares = sum(item.share for item in report.products) * report.narrowest.square
    return BudgetRow(
        model.name,
        len(report.products),
        asked,
        _error(mixed, samples, wanted),
        {"int8": wide.report.bytes, "int4": report.bytes, "float": report.float_bytes},
        {**errors, "float": 0.0},
        mixed.report.bytes,
        shares / errors["int4"] ** 2,
        seconds,
    )


def _outputs(model: Any, samples: Sequence[_Sample]) -> list[list[np.ndarray]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the speed of the code does not matter here
        run = compile(model, options=Options(fallback="quiet"))
        found = [run.outputs_for(sample) for sample in samples]
    return [[item.astype(np.float64) for item in call if np.issubdtype(item.dtype, np.floating)] for call in found]


def _error(made: QuantizedModel, samples: Sequence[_Sample], wanted: Sequence[Sequence[np.ndarray]]) -> float:
    """Returns the root mean square error of the written model, as `OutputErrors` defines it."""
    squares = []
    for got, want in zip(_outputs(made.model, samples), wanted, strict=True):
        pairs = list(zip(got, want, strict=True))
        squares.append(np.mean([((a - b) ** 2).sum() / max(float((b**2).sum()), 1e-30) for a, b in pairs]))
    return float(np.sqrt(np.mean(squares)))
