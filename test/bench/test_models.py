"""The list of models, and the torch model beside the ONNX one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from stepwell.bench import models, networks
from stepwell.bench.bert import BertConfig, make_bert


def test_names_are_unique_and_can_be_chosen() -> None:
    names = [model.name for model in models.known()]
    assert len(set(names)) == len(names)
    assert [model.name for model in models.chosen(["minilm-1x16", "light-resnet50"])] == [
        "minilm-1x16",
        "light-resnet50",
    ]
    assert len(models.chosen([])) == len(names)


def test_inputs_are_the_same_every_time(tmp_path: Path) -> None:
    (model,) = models.chosen(["light-squeezenet"])
    path = model.file(tmp_path)
    first, second = model.inputs(path), model.inputs(path)
    assert [array.dtype for array in first.values()] == [np.float32]
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def test_made_networks_are_measured_only_by_name(tmp_path: Path) -> None:
    names = [model.name for model in models.known()]
    assert not any(name.startswith("made-") for name in names)
    assert len(models.chosen(["made"])) == len(networks.NETWORKS)
    (top,) = models.chosen(["made-top-5-of"])
    path = top.file(tmp_path)
    values, _ = onnxruntime.InferenceSession(path).run(None, top.inputs(path))
    assert values.shape == (64, 5)


@pytest.mark.sweep
def test_models_in_bytes_are_made_of_the_others(tmp_path: Path) -> None:
    assert not any(model.name.startswith("int8-") for model in models.known())
    assert len(models.chosen(["int8-"])) == len(models.quantized())
    (model,) = models.chosen(["int8-made-mobilenet-v2-1"])
    path = model.file(tmp_path)
    assert {node.op_type for node in onnx.load(path).graph.node} >= {"QuantizeLinear", "DequantizeLinear"}
    assert model.file(tmp_path) == path
    assert list(model.inputs(path)) == ["x"]


def test_indices_of_made_scatters_are_in_range(tmp_path: Path) -> None:
    (rows,) = models.chosen(["made-scatter-rows-into-512x768"])
    path = rows.file(tmp_path)
    feeds = rows.inputs(path)
    assert feeds["indices"].shape == (1, 8, 2)
    assert feeds["indices"].max(axis=(0, 1))[0] == 0
    assert 0 < feeds["indices"].max(axis=(0, 1))[1] < 512
    onnxruntime.InferenceSession(path).run(None, feeds)


def test_a_model_that_is_not_here_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(models.MissingModel, match="pip install --no-deps silero-vad"):
        models.chosen(["silero-vad"])[0].file(tmp_path)


@pytest.mark.sweep
def test_the_torch_encoder_is_the_onnx_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from stepwell.bench.torch_models import bert

    path = tmp_path / "bert.onnx"
    path.write_bytes(make_bert(BertConfig(vocabulary=30522, layers=1)).SerializeToString())
    random = np.random.default_rng(0)
    feeds = {
        "input_ids": random.integers(0, 30522, (2, 9)),
        "attention_mask": np.array([[1] * 9, [1] * 5 + [0] * 4]),
        "token_type_ids": random.integers(0, 2, (2, 9)),
    }
    (want,) = onnxruntime.InferenceSession(path).run(None, feeds)
    with torch.inference_mode():
        got = bert.load(path)(*(torch.from_numpy(feeds[name]) for name in feeds)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
