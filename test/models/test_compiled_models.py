"""Real models, compiled: their outputs compared with ONNX Runtime's, or with those stored beside the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell

from .light import NAMES, check_light_output, light_input, light_model
from .packaged import MODELS, OCR, TOLERANCE, VOICE, compiled, needs_models, page, reference, relative_error

# Shuffled groups; the others are made of the same ops.
FEW_LIGHT = ("light_shufflenet",)
ALL_LIGHT = [pytest.param(name, marks=() if name in FEW_LIGHT else pytest.mark.sweep) for name in NAMES]


@pytest.mark.parametrize("name", ALL_LIGHT)
def test_light_model_gives_its_stored_output(name: str) -> None:
    light, has_softmax = light_model(name)
    model = compiled(light)
    check_light_output(name, model(light_input(model.inputs[0].shape)), has_softmax)
    assert model.peak_bytes > 0


@pytest.mark.few(1)
@needs_models
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("ch_ppocr_mobile_v2.0_cls_infer", (3, 3, 48, 192)),
        ("ch_PP-OCRv4_det_infer", (1, 3, 256, 480)),
        ("ch_PP-OCRv4_rec_infer", (2, 3, 48, 200)),
        pytest.param("ch_PP-OCRv4_det_infer", (1, 3, 320, 320), marks=pytest.mark.sweep),
        pytest.param("ch_ppocr_mobile_v2.0_cls_infer", (1, 3, 48, 192), marks=pytest.mark.sweep),
        pytest.param("ch_PP-OCRv4_rec_infer", (1, 3, 48, 320), marks=pytest.mark.sweep),
    ],
)
def test_text_recognition(name: str, shape: tuple[int, ...]) -> None:
    path, x = OCR / f"{name}.onnx", page(shape)
    (want,) = reference(path).run(None, {"x": x})
    got = compiled(path)(x)
    assert relative_error(got, want) < TOLERANCE
    if "rec" in name:
        np.testing.assert_array_equal(got.argmax(-1), want.argmax(-1))


@pytest.mark.sweep
@needs_models
def test_notes_in_music() -> None:
    """A model made with TensorFlow: spectra by convolutions, channels-last.

    Noise keeps its spectra from being nearly 0 between the tones, where rounding would change the outputs by 2e-3.
    In vectors of 16 bytes (x86-64-v2, AArch64), whose sums are longer, the outputs differ by 1.5e-4.
    """
    path = MODELS / "basic_pitch" / "saved_models" / "icassp_2022" / "nmp.onnx"
    model, session = compiled(path), reference(path)
    time = np.arange(43844, dtype=np.float32) / 22050
    x = (0.5 * np.sin(2 * np.pi * 440 * time) + 0.3 * np.sin(2 * np.pi * 659.3 * time * (time > 1)))[None, :, None]
    x += 0.3 * np.random.default_rng(0).standard_normal(x.shape, np.float32)
    for got, want in zip(model(x), session.run(None, {session.get_inputs()[0].name: x}), strict=True):
        assert relative_error(got, want) < 2 * TOLERANCE


@needs_models
def test_trees_of_gradient_boosting() -> None:
    """A LightGBM model of 565 trees."""
    path = MODELS / "atspm_detector" / "weights" / "phase_lgbm_v5_s0.onnx"
    model, session = compiled(path), reference(path)
    x = np.random.default_rng(0).normal(size=(40, 261))
    x[::7, ::5] = np.nan
    np.testing.assert_allclose(model(x), session.run(None, {"X": x})[0], rtol=1e-9)
    assert model.fallbacks == ()


@pytest.mark.few(1)
@needs_models
@pytest.mark.parametrize("name", ["silero_vad", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless"])
def test_voice_activity_over_many_chunks(name: str) -> None:
    path = VOICE / f"{name}.onnx"
    model, session = compiled(path, threads=1), reference(path)
    names = [item.name for item in session.get_inputs()]
    states = [np.zeros((2, 1, 128), np.float32)] * 2
    heard = []
    for chunk in voice_chunks(100):
        feeds = [{"input": chunk, "state": state, "sr": np.array(16000)} for state in states]
        want, next_state = session.run(None, {key: feeds[0][key] for key in names})
        got, own_state = model(**{key: feeds[1][key] for key in names})
        assert abs(float(got.item()) - float(want.item())) < TOLERANCE
        assert relative_error(own_state, next_state) < TOLERANCE
        states = [next_state, own_state]
        heard.append(float(got.item()))
    assert max(heard) > 2 * min(heard), "the signal must be one in which speech comes and goes"


def voice_chunks(count: int) -> list[np.ndarray]:
    """A buzz with formants that starts and stops, in chunks of 512 samples, each preceded by 64 of the one before."""
    time = np.arange(count * 512 + 64) / 16000
    rng = np.random.default_rng(3)
    pitch = 120 + 15 * np.sin(2 * np.pi * 2.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / 16000
    formants = (700, 1200, 2600)
    buzz = sum(
        np.sin(order * phase) * sum(np.exp(-(((order * 120 - formant) / 150) ** 2)) for formant in formants)
        for order in range(1, 26)
    )
    signal = 0.2 * buzz * (np.sin(2 * np.pi * 0.8 * time) > -0.2) + 0.002 * rng.standard_normal(len(time))
    return [signal[start : start + 576].astype(np.float32)[None] for start in range(0, count * 512, 512)]


@needs_models
def test_a_branch_that_the_shapes_rule_out_is_an_error_when_taken() -> None:
    model = compiled(VOICE / "silero_vad.onnx", threads=1)
    with pytest.raises(stepwell.RuntimeFailure):
        model(np.zeros((1, 576), np.float32), np.zeros((2, 1, 128), np.float32), np.array(8000))


@pytest.mark.few(1)
@needs_models
@pytest.mark.parametrize(("batch", "length"), [(1, 8), (1, 16), (4, 16), (1, 100), (1, 128), (4, 128), (1, 512)])
def test_sentence_embedding(minilm: Path, batch: int, length: int) -> None:
    model, session = stepwell.compile(minilm, threads=2), reference(minilm)
    rng = np.random.default_rng(length)
    mask = np.ones((batch, length), np.int64)
    mask[0, -length // 4 :] = 0
    feeds = {
        "input_ids": rng.integers(0, 30522, (batch, length)),
        "attention_mask": mask,
        "token_type_ids": np.zeros((batch, length), np.int64),
    }
    (want,) = session.run(None, feeds)
    assert relative_error(model(**feeds), want) < TOLERANCE
