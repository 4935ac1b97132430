"""Gradients and steps of ONNX and MLIR models, and what a trainer keeps."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
import stepwell
from stepwell.training import SGD, Adam, CrossEntropy, MeanSquaredError, with_weights

from .models import mlp

RANDOM = np.random.default_rng(1)
X = RANDOM.standard_normal((8, 6), np.float32)
LABELS = RANDOM.integers(0, 4, 8)


def scores_of(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The MLP in float64."""
    hidden = np.maximum(x @ weights["w0"].T.astype(np.float64) + weights["b0"], 0)
    return hidden @ weights["w1"].T.astype(np.float64) + weights["b1"]


def cross_entropy_of(x: np.ndarray, weights: dict[str, np.ndarray]) -> float:
    """The mean of the negative logarithms of the labels' probabilities."""
    scores = scores_of(x, weights)
    shifted = scores - scores.max(1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(-log[np.arange(len(x)), LABELS].mean())


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}


def test_gradients_of_an_onnx_model_equal_finite_differences() -> None:
    model = mlp()
    function = stepwell.value_and_grad(model, loss="cross_entropy")
    loss, gradients = function(X, LABELS)
    weights = weights_of(model)
    assert loss == pytest.approx(cross_entropy_of(X, weights), rel=1e-6)
    assert set(gradients) == set(weights)
    np.testing.assert_allclose(function.outputs["y"], scores_of(X, weights), rtol=1e-5)
    for name, gradient in gradients.items():
        direction = RANDOM.standard_normal(gradient.shape)
        ends = [cross_entropy_of(X, weights | {name: weights[name] + sign * 1e-5 * direction}) for sign in (1, -1)]
        assert np.sum(gradient * direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_chosen_parameters_only() -> None:
    _, gradients = stepwell.value_and_grad(mlp(), loss="cross_entropy", wrt=["*1"])(X, LABELS)
    assert set(gradients) == {"w1", "b1"}
    with pytest.raises(stepwell.OptionError, match="wrt: no parameter matches 'head'; there are w0, b0"):
        stepwell.value_and_grad(mlp(), loss="cross_entropy", wrt=["head"])(X, LABELS)


def test_a_module_of_mlir_whose_output_is_the_loss(tmp_path) -> None:
    path = tmp_path / "loss.mlir"
    path.write_text("""
      func.func @main(%x: tensor<4x3xf32> {stepwell.name = "x"}) -> (tensor<f32> {stepwell.name = "y"}) {
        %w = "stepwell.parameter"() {name = "w", shape = array<i64: 3>, dtype = f32} : () -> tensor<3xf32>
        %0 = "stepwell.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
        %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x3xf32>) -> tensor<f32>
        return %1 : tensor<f32>
      }""")
    from stepwell.runtime import safetensors

    weights = {"w": np.arange(3, dtype=np.float32)}
    (tmp_path / "parameters.safetensors").write_bytes(b"".join(map(bytes, safetensors.chunks(weights))))
    x = RANDOM.standard_normal((4, 3), np.float32)
    loss, gradients = stepwell.value_and_grad(path, loss=None)(x)
    assert loss == pytest.approx((x * weights["w"]).sum(), rel=1e-5)
    np.testing.assert_allclose(gradients["w"], x.sum(0), rtol=1e-5)


@pytest.mark.sweep
def test_cross_entropy_ignores_labels() -> None:
    function = stepwell.value_and_grad(mlp(), loss=CrossEntropy(ignore_index=-1))
    labels = np.where(np.arange(8) < 5, LABELS, -1)
    loss, gradients = function(X, labels)
    other, expected = stepwell.value_and_grad(mlp(), loss="cross_entropy")(X[:5], LABELS[:5])
    assert loss == pytest.approx(other, rel=1e-6)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-4, atol=1e-6)
    assert np.isnan(function(X, np.full(8, 4))[0])


def test_training_is_the_same_for_any_number_of_threads_and_from_run_to_run() -> None:
    curves = []
    for threads in (1, 2, 2):
        trainer = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=Adam(0.01), clip_norm=1.0, threads=threads)
        curves.append([trainer.step(X, LABELS) for _ in range(10)])
    assert curves[0] == curves[1] == curves[2]
    assert curves[0][-1] < curves[0][0]


def test_mean_squared_error_falls_and_weights_go_back_to_onnx(tmp_path) -> None:
    model = mlp()
    targets = RANDOM.standard_normal((8, 4), np.float32)
    trainer = stepwell.trainer(model, loss=MeanSquaredError(), optimizer=SGD(0.05, momentum=0.9))
    losses = [trainer.step(X, target=targets) for _ in range(60)]
    assert losses[-1] < 0.2 * losses[0]
    assert trainer.steps == 60
    assert trainer.outputs["y"].shape == (8, 4)
    trained = with_weights(model, trainer.parameters)
    found = stepwell.compile(trained)(X)
    assert np.mean((found - targets) ** 2) == pytest.approx(trainer.step(X, targets), rel=1e-4)
    trainer.save_weights(tmp_path / "weights.safetensors")
    fresh = stepwell.trainer(model, loss="mse")
    fresh.prepare({"x": (8, 6), "target": (8, 4)})
    fresh.load_weights(tmp_path / "weights.safetensors")
    assert fresh.step(X, targets) == trainer.step(X, targets)
    with pytest.raises(stepwell.InputError, match="the model has no initializer 'w9'"):
        with_weights(model, {"w9": targets})


def test_an_artefact_goes_on_without_the_compiler(tmp_path) -> None:
    trainer = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=Adam(0.01))
    for rows in (8, 5, 8):
        trainer.step(X[:rows], LABELS[:rows])
    trainer.learning_rate = 0.02
    trainer.save(tmp_path / "step.stw")
    expected = [trainer.step(X, LABELS) for _ in range(3)]
    np.savez(tmp_path / "batch.npz", x=X, labels=LABELS)
    script = """
import sys
sys.modules["mlir"] = sys.modules["torch"] = sys.modules["onnx"] = None
import numpy as np
from stepwell import Trainer
batch = np.load("batch.npz")
trainer = Trainer.load("step.stw")
assert round(trainer.learning_rate, 6) == 0.02 and trainer.steps == 3
print([trainer.step(batch["x"], batch["labels"]) for _ in range(3)])
trainer.step(batch["x"][:5], batch["labels"][:5])
try:
    trainer.step(batch["x"][:4], batch["labels"][:4])
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    losses, refused = done.stdout.splitlines()
    assert losses == str(expected)
    assert refused.startswith("there is no code for a batch with the shapes (4, 6), (4,), but for (8, 6), (8,)")
    executable = stepwell.compile(mlp(), options={"shapes": {"x": (2, 6)}})
    executable.save(tmp_path / "model.stw")
    with pytest.raises(stepwell.ArtefactError, match="has no training step"):
        stepwell.Trainer.load(tmp_path / "model.stw")
    with pytest.raises(stepwell.ArtefactError, match="the file has no step for several processes"):
        stepwell.Trainer.load(tmp_path / "step.stw", processes=Alone())


class Alone:
    """A single process."""

    rank, size = 0, 1

    def add(self, array: np.ndarray) -> None:
        """The array is the sum."""

    def broadcast(self, array: np.ndarray) -> None:
        """The array is that of process 0."""


def test_one_process_trains_as_without_processes() -> None:
    plain = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=Adam(0.01))
    alone = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=Adam(0.01), processes=Alone())
    for _ in range(3):
        assert alone.step(X, LABELS) == pytest.approx(plain.step(X, LABELS), rel=1e-5)
    assert alone.steps == 3


def test_errors_say_what_to_do() -> None:
    trainer = stepwell.trainer(mlp(), loss="cross_entropy")
    with pytest.raises(stepwell.InputError, match="a batch has x, target, but 1 arrays were given"):
        trainer.step(X)
    with pytest.raises(stepwell.OptionError, match="loss: there is no 'hinge'; there are cross_entropy, nll, "):
        stepwell.trainer(mlp(), loss="hinge")
    with pytest.raises(stepwell.OptionError, match="clip_norm must be positive"):
        stepwell.trainer(mlp(), loss="mse", clip_norm=0)
    with pytest.raises(stepwell.OptionError, match="has the shape \\[8, 4\\], so it is no loss"):
        stepwell.value_and_grad(mlp(), loss=None)(X)
    named = mlp()
    named.graph.node[-1].output[0] = named.graph.output[0].name = "loss"
    with pytest.raises(stepwell.OptionError, match="the model has an output called 'loss'"):
        stepwell.value_and_grad(named, loss="cross_entropy")(X, LABELS)
    trainer.step(X, LABELS)
    with pytest.raises(stepwell.InputError, match="the trainer has no state 'w7'"):
        trainer.restore({"w7": X})
    with pytest.raises(stepwell.InputError, match="state 'w0' is float32\\[16, 6\\], but float32\\[8, 6\\] was given"):
        trainer.restore({"w0": X})
