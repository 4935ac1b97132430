"""Real models, compiled once for ranges of sizes: outputs at some sizes, compared with ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .packaged import OCR, TOLERANCE, VOICE, compiled, needs_models, page, reference


def _agree_at(path: Path, dims: dict[str, Any], feeds: list[dict[str, np.ndarray]]) -> None:
    model, session = compiled(path, dims=dims), reference(path)
    made = len(model.programs)
    for feed in feeds:
        got, want = model(**feed), session.run(None, feed)
        for own, other in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-3, atol=TOLERANCE, strict=True)
    assert made and len(model.programs) == made, "a call has been compiled for by itself"


@pytest.mark.few(1)
@needs_models
@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("silero_vad", {"input.0": (1, 3), "state.1": "input.0", "input.1": 576}),
        ("silero_vad_16k_op15", {"batch": (1, 3), "sequence": 576}),
    ],
)
def test_voice_activity_of_any_batch(name: str, dims: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    feeds = [
        {
            "input": 0.1 * rng.standard_normal((batch, 576), np.float32),
            "state": 0.1 * rng.standard_normal((2, batch, 128), np.float32),
            "sr": np.array(16000),
        }
        for batch in (3, 1, 2)
    ]
    _agree_at(VOICE / f"{name}.onnx", dims, feeds)


@pytest.mark.sweep
@needs_models
def test_recognition_of_any_width() -> None:
    dims = {"p2o.DynamicDimension.0": (1, 3), "x.2": 48, "p2o.DynamicDimension.1": [(16, 128)]}
    feeds = [{"x": page((batch, 3, 48, width))} for batch, width in ((3, 128), (1, 16), (2, 77), (1, 100))]
    _agree_at(OCR / "ch_PP-OCRv4_rec_infer.onnx", dims, feeds)


@pytest.mark.sweep
@needs_models
def test_detection_of_any_size() -> None:
    dims = {
        "p2o.DynamicDimension.0": 1,
        "p2o.DynamicDimension.1": (32, 160, 32),
        "p2o.DynamicDimension.2": [(32, 160, 32)],
    }
    places = ((160, 160), (32, 32), (64, 160), (128, 32))
    feeds = [{"x": page((1, 3, *place))} for place in places]
    _agree_at(OCR / "ch_PP-OCRv4_det_infer.onnx", dims, feeds)


@pytest.mark.sweep
@needs_models
def test_sentences_of_any_length(minilm: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = []
    for batch, length in ((4, 48), (1, 1), (3, 17), (1, 48)):
        mask = np.ones((batch, length), np.int64)
        mask[0, length - length // 4 :] = 0
        ids = rng.integers(0, 30522, (batch, length))
        feeds.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    _agree_at(minilm, {"batch": (1, 4), "length": [(1, 48)]}, feeds)
