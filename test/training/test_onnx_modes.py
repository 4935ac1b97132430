"""ONNX models exported in training mode: batch norms, dropout, and the way back to inference."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
import torch
from stepwell.training import SGD, AdamW, with_weights
from torch import nn

X = np.random.default_rng(0).standard_normal((32, 1, 16, 16), np.float32)
LABELS = np.random.default_rng(1).integers(0, 10, 32)


def _network(drop: float) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Dropout(drop), nn.Linear(16, 10)),
    )


def _encoder(drop: float) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=drop, batch_first=True)
    return nn.Sequential(nn.Embedding(20, 16), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))


def _exported(module: nn.Module, x: np.ndarray, path: Path) -> dict[str, np.ndarray]:
    """Exports a module in training mode; returns the initializers, since the exporter runs the module."""
    mode: Any = torch.onnx.TrainingMode.TRAINING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter that needs no further package
        torch.onnx.export(module.train(), (torch.from_numpy(x),), path, training=mode, dynamo=False, opset_version=17)
    return {item.name: onnx.numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}


def test_batch_norms_train_as_those_of_torch(tmp_path: Path) -> None:
    module, path = _network(0.0), tmp_path / "network.onnx"
    first = _exported(module, X, path)
    module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in first.items()}, strict=False)
    trainer = stepwell.trainer(path, loss="cross_entropy", optimizer=SGD(0.05, momentum=0.9))
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(LABELS))
        loss.backward()
        optimizer.step()
        assert trainer.step(X, LABELS) == pytest.approx(loss.item(), abs=1e-5)
    means = {name: value for name, value in module.named_buffers() if "mean" in name or "var" in name}
    assert len(means) == 4
    for name, value in means.items():
        # ONNX keeps the variance of the batch, PyTorch that of its population: 1 / (n - 1) in place of 1 / n.
        np.testing.assert_allclose(trainer.state[name], value.numpy(), rtol=5e-3, atol=1e-5)
    assert not set(means) & set(trainer.parameters)


@pytest.mark.parametrize("kind", ["network", "encoder"])
def test_dropout_is_random_and_reproducible(kind: str, tmp_path: Path) -> None:
    module, x, labels, path = _network(0.3), X, LABELS, tmp_path / "model.onnx"
    if kind == "encoder":
        module, x, labels = _encoder(0.3), np.arange(40).reshape(4, 10) % 20, np.arange(40).reshape(4, 10) % 16
    _exported(module, x, path)
    axis = stepwell.training.CrossEntropy(axis=2 if kind == "encoder" else 1)
    curves = {}
    for seed, threads in ((0, 1), (0, 2), (1, 1)):
        trainer = stepwell.trainer(path, loss=axis, optimizer=AdamW(0.0), seed=seed, threads=threads)
        curves[seed, threads] = [trainer.step(x, labels) for _ in range(3)]
    assert curves[0, 1] == curves[0, 2] != curves[1, 1]
    assert len(set(curves[0, 1])) == 3  # with a rate of 0, only the choices of elements differ between steps


def test_trained_models_return_to_inference(tmp_path: Path) -> None:
    module, path = _network(0.2), tmp_path / "network.onnx"
    _exported(module, X, path)
    trainer = stepwell.trainer(path, loss="cross_entropy", optimizer=AdamW(0.02))
    for _ in range(10):
        trainer.step(X, LABELS)
    trained = with_weights(path, trainer, for_inference=True)
    onnx.checker.check_model(trained, full_check=True)
    session = onnxruntime.InferenceSession(trained.SerializeToString())
    expected = np.asarray(session.run(None, {session.get_inputs()[0].name: X})[0])
    np.testing.assert_allclose(stepwell.compile(trained)(X), expected, rtol=1e-4, atol=1e-5)
    state = {name: torch.from_numpy(array) for name, array in trainer.state.items() if name in module.state_dict()}
    module.load_state_dict(state, strict=False)
    with torch.no_grad():
        np.testing.assert_allclose(module.eval()(torch.from_numpy(X)).numpy(), expected, rtol=1e-4, atol=1e-5)
    trainer.save(tmp_path / "step.stw")
    going = [trainer.step(X, LABELS) for _ in range(3)]
    again = stepwell.Trainer.load(tmp_path / "step.stw", threads=1)
    assert [again.step(X, LABELS) for _ in range(3)] == going


def test_negative_dropout_outside_a_trainer(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    _exported(_network(0.2), X, path)
    with pytest.raises(stepwell.StepwellError, match=r"only `stepwell.trainer` supports"):
        stepwell.compile(path, options={"fallback": "error"})(X)


def test_gradients_of_inputs(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    module = _network(0.0)
    first = _exported(module, X, path)
    module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in first.items()}, strict=False)
    name = onnx.load(path).graph.input[0].name
    _, gradients = stepwell.value_and_grad(path, loss="cross_entropy", wrt=[name, "10.*"])(X, LABELS)
    x = torch.from_numpy(X).requires_grad_()
    nn.functional.cross_entropy(module(x), torch.from_numpy(LABELS)).backward()
    assert x.grad is not None
    np.testing.assert_allclose(gradients[name], x.grad.numpy(), rtol=1e-3, atol=1e-6)
    assert sorted(gradients) == sorted([name, "10.weight", "10.bias"])
