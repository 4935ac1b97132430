"""Whole models: those that come with onnx, a BERT encoder, and others if a folder of them is given."""

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from mlir import ir
from stepwell.bench import bert
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.verifier import verify
from stepwell.frontend.errors import NeedsShapes
from stepwell.frontend.onnx.importer import import_model

from ...models.light import NAMES, check_light_output, light_input, light_model

MODELS = Path(os.environ.get("STEPWELL_TEST_MODELS", "no such folder"))


def compared(path_or_bytes, feeds, shapes, rtol=2e-4):
    """Imports, evaluates and compares; returns the imported model and the results after its outputs."""
    session = onnxruntime.InferenceSession(path_or_bytes, providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    imported = import_model(path_or_bytes, ir.Context(), shapes)
    verify(imported.module)
    results = evaluate(
        imported.module, "main", [feeds[info.name] for info in imported.info.inputs], imported.parameters
    )
    for got, wanted in zip(results, expected, strict=False):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-5)
    return imported, results[len(expected) :]


# The largest networks take seconds each.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("light_shufflenet", "light_squeezenet") else [pytest.mark.sweep])
        for name in NAMES
    ],
)
def test_light_models(name):
    model, has_softmax = light_model(name)
    imported = import_model(model.SerializeToString(), ir.Context())
    (info,) = imported.info.inputs
    (output,) = evaluate(imported.module, "main", [light_input(info.dims)], imported.parameters)
    check_light_output(name, output, has_softmax)


@pytest.mark.parametrize("specialized", [True, False])
def test_bert(specialized, rng):
    config = bert.BertConfig(vocabulary=100, positions=32, layers=2, hidden=48, heads=4, intermediate=96)
    model = bert.make_bert(config).SerializeToString()
    feeds = {
        "input_ids": rng.integers(0, 100, (2, 7)),
        "attention_mask": (np.arange(7) < [[7], [4]]).astype(np.int64),
        "token_type_ids": rng.integers(0, 2, (2, 7)),
    }
    shapes = {"input_ids": (2, 7)} if specialized else None
    imported, _ = compared(model, feeds, shapes)
    text = str(imported.module)
    assert ("?" in text.replace('"?', "")) != specialized
    assert ("stepwell.shape_of" in text) != specialized


def test_locations_name_the_nodes():
    config = bert.BertConfig(vocabulary=20, positions=8, layers=1, hidden=16, heads=2, intermediate=16)
    imported = import_model(bert.make_bert(config).SerializeToString(), ir.Context())
    text = imported.module.operation.get_asm(enable_debug_info=True)
    assert 'loc("/encoder/layer.0/attention/self/Softmax")' in text
    assert "loc(unknown)" not in text.split("func.func @main")[1].split("return")[0].split("\n", 1)[1]


def speech_state(rng, batch=1):
    """The recurrent state, an input of the speech models."""
    return rng.normal(scale=0.1, size=(2, batch, 128)).astype(np.float32)


needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="STEPWELL_TEST_MODELS names no folder of models")


@needs_models
@pytest.mark.parametrize(("rate", "samples"), [(16000, 576), (16000, 288), (8000, 288)])
def test_speech_model_with_nested_conditionals(rng, rate, samples):
    path = MODELS / "silero_vad" / "data" / "silero_vad.onnx"
    feeds = {
        "input": rng.normal(size=(1, samples)).astype(np.float32),
        "state": speech_state(rng),
        "sr": np.array(rate),
    }
    with pytest.raises(NeedsShapes):
        import_model(path, ir.Context())
    _, guards = compared(path, feeds, {"input": (1, samples), "state": (2, 1, 128)})
    assert [bool(guard) for guard in guards] == [True] * (samples == 576)


@needs_models
@pytest.mark.parametrize("name", ["silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless"])
def test_other_speech_models(rng, name):
    path = MODELS / "silero_vad" / "data" / f"{name}.onnx"
    feeds = {"input": rng.normal(size=(1, 576)).astype(np.float32), "state": speech_state(rng)}
    if "half" not in name:
        feeds["sr"] = np.array(16000)
    compared(path, feeds, {"input": (1, 576), "state": (2, 1, 128)})


@needs_models
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("ch_PP-OCRv4_det_infer", (1, 3, 64, 96)),
        ("ch_PP-OCRv4_rec_infer", (2, 3, 48, 64)),
        ("ch_ppocr_mobile_v2.0_cls_infer", (2, 3, 48, 192)),
    ],
)
@pytest.mark.parametrize("specialized", [True, False])
def test_text_recognition_models(rng, name, shape, specialized):
    path = MODELS / "rapidocr_onnxruntime" / "models" / f"{name}.onnx"
    feeds = {"x": rng.normal(size=shape).astype(np.float32)}
    compared(path, feeds, {"x": shape} if specialized else None)
