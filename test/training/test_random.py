"""Random choices in training: their distributions, and that they depend on seeds and steps only."""

# pyright: reportMissingImports=false
from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import stepwell
from stepwell.training import SGD, AdamW, MeanSquaredError
from stepwell.training.recipe import Recipe

from .interpreted import results_of

torch = pytest.importorskip("torch")
nn = torch.nn

SIZE = (32, 64)


class Noise(nn.Module):
    """Tensors of random numbers of several distributions."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        draws = (
            self.scale * torch.rand(SIZE),
            torch.randn_like(x),
            torch.empty_like(x).uniform_(-3, 1),
            torch.empty_like(x).normal_(2, 0.5),
            torch.normal(x, 2.0),
            torch.empty_like(x).exponential_(4),
            torch.bernoulli(x + 0.3),
            torch.bernoulli(x, 0.0),
            torch.randint(-2, 3, SIZE),
            nn.functional.alpha_dropout(x + 1, 0.25, True),
        )
        return draws


def test_random_numbers_have_the_moments_of_their_distributions() -> None:
    x = torch.zeros(SIZE)
    target = {"target": np.zeros(SIZE, np.float32)}
    found = results_of(Noise(), (x,), Recipe(MeanSquaredError()), target)
    draws = [array for name, array in found.items() if name.startswith("output")]
    count, (kept, offset) = draws[0].size, (0.75, 1.0)
    # Means and variances, and the kurtosis of alpha dropout left out: its values are two.
    expected = [
        *((0.5, 1 / 12), (0, 1), (-1, 16 / 12), (2, 0.25), (0, 4), (0.25, 1 / 16), (0.3, 0.21), (0, 0), (0, 2)),
        (offset * draws[-1].mean(), draws[-1].var()),
    ]
    for draw, (mean, variance) in zip(draws, expected, strict=True):
        # Five standard deviations of the mean; those of variances are at most three times as large.
        assert abs(draw.mean() - mean) <= 5 * np.sqrt(variance / count) + 1e-12
        assert abs(draw.var() - variance) <= 15 * variance / np.sqrt(count) + 1e-12
    assert set(np.unique(draws[8])) == {-2, -1, 0, 1, 2}
    assert draws[0].min() >= 0 and draws[0].max() < 1
    values, counts = np.unique(draws[-1], return_counts=True)
    assert len(values) == 2 and counts.max() / count == pytest.approx(kept, abs=0.03)
    # Choices are independent of each other, and neighbours of each other.
    assert abs(np.corrcoef(draws[0].ravel(), draws[1].ravel())[0, 1]) < 0.1
    assert abs(np.corrcoef(draws[1].ravel()[1:], draws[1].ravel()[:-1])[0, 1]) < 0.1


def noisy() -> Any:
    """Layers with dropout, an LSTM with dropout between its layers, a batch norm, and noise."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(6, 8, 2, batch_first=True, dropout=0.5)
            self.head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))

        def forward(self, x):
            last = self.layer(x)[0][:, -1]
            return self.head(last + 0.1 * torch.randn_like(last))

    torch.manual_seed(0)
    return Model().train()


@pytest.mark.sweep
def test_seeds_determine_random_choices_for_any_number_of_threads(tmp_path) -> None:
    x, labels = torch.randn(16, 4, 6), torch.randint(0, 2, (16,))

    def make(**options: Any) -> stepwell.Trainer:
        return stepwell.trainer(noisy(), (x,), loss="cross_entropy", optimizer=AdamW(0.02), **options)

    trainers = [make(threads=1, seed=5), make(threads=2, seed=5), make(threads=3, seed=5), make(seed=6)]
    curves = [[trainer.step(x, labels) for _ in range(6)] for trainer in trainers]
    assert curves[0] == curves[1] == curves[2]
    assert len(set(curves[0]) & set(curves[3])) == 0
    # Training goes on from a checkpoint bit by bit, and in a process that has neither torch nor the compiler.
    trainers[0].save_weights(tmp_path / "checkpoint.safetensors", everything=True)
    trainers[0].save(tmp_path / "step.stw")
    np.savez(tmp_path / "batch.npz", x=x, labels=labels)
    expected = [trainers[0].step(x, labels) for _ in range(4)]
    other = make(threads=2, seed=7)
    other.load_weights(tmp_path / "checkpoint.safetensors")
    assert [other.step(x, labels) for _ in range(4)] == expected
    script = """
import sys
sys.modules["mlir"] = sys.modules["torch"] = sys.modules["onnx"] = None
import numpy as np
from stepwell import Trainer
batch = np.load("batch.npz")
trainer = Trainer.load("step.stw")
print([trainer.step(batch["x"], batch["labels"]) for _ in range(4)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(expected)


@pytest.mark.sweep
def test_trained_weights_go_back_to_torch_and_onnx() -> None:
    x, target = torch.randn(16, 1, 6, 6), torch.randn(16, 3)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    trainer = stepwell.trainer(module.train(), (x,), loss="mse", optimizer=SGD(0.05))
    for _ in range(5):
        trainer.step(x, target)
    before = module.eval()(x).detach()
    module.load_state_dict({name: torch.from_numpy(trainer.state[name]) for name in module.state_dict()})
    expected = module(x).detach()
    assert not torch.allclose(before, expected, rtol=0.1)
    found = stepwell.compile(stepwell.export_onnx(module, (x,)))(x.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
