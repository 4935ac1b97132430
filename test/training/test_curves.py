"""Losses of 200 steps: equal to those of eager PyTorch, and bit by bit equal from run to run and for any threads."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import stepwell
from stepwell.training import SGD, AdamW

torch = pytest.importorskip("torch")
nn = torch.nn

STEPS, ROWS, BATCHES = 200, 32, 5


class Transformer(nn.Module):
    """Two layers of a transformer with causal attention, over embedded words.

    GELU is smooth: a unit of a ReLU that is 0 but for rounding would be on here and off there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(12, 16), nn.Parameter(torch.randn(6, 16) / 4)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(16, 4)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(6))

    def forward(self, words):
        x = self.words(words) + self.places
        for layer in self.layers:
            x = layer(x, src_mask=self.mask)
        return self.head(x.mean(1))


class Recurrent(nn.Module):
    """An LSTM over embedded words, and scores from its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(12, 8), nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, words):
        return self.head(self.layer(self.words(words))[0][:, -1])


def mlp() -> Any:
    return nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 32), nn.Tanh(), nn.Linear(32, 4))


def cnn() -> Any:
    # Without biases before the norms: their gradients are 0 but for rounding, which AdamW would scale up.
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(16, 4)),
    )


@dataclass
class Case:
    """A model with its data.

    Attributes:
        make: makes the module.
        draw: draws a batch of inputs.
    """

    make: Callable[[], Any]
    draw: Callable[[], Any]


def words() -> Any:
    return torch.randint(0, 12, (ROWS, 6))


CASES = {
    "mlp": Case(mlp, lambda: torch.randn(ROWS, 10)),
    "cnn": Case(cnn, lambda: torch.randn(ROWS, 1, 8, 8)),
    "transformer": Case(Transformer, words),
    "lstm": Case(Recurrent, words),
}
RULES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "sgd": (SGD(0.01, 0.9, 1e-3), lambda parameters: torch.optim.SGD(parameters, 0.01, 0.9, weight_decay=1e-3)),
    "adamw": (AdamW(0.003), lambda parameters: torch.optim.AdamW(parameters, 0.003)),
}


def drawn(name: str) -> tuple[Any, list[tuple[Any, Any]]]:
    """A module in training mode, and the batches that steps take in turn; the labels are those of a linear model."""
    torch.manual_seed(0)
    module, inputs = CASES[name].make().train(), [CASES[name].draw() for _ in range(BATCHES)]
    features = [(x if x.is_floating_point() else nn.functional.one_hot(x, 12)).flatten(1).float() for x in inputs]
    teacher = torch.randn(features[0].shape[1], 4)
    return module, [(x, (own @ teacher).argmax(1)) for x, own in zip(inputs, features, strict=True)]


def curve(name: str, rule: str, threads: int) -> list[float]:
    module, batches = drawn(name)
    trainer = stepwell.trainer(
        module, (batches[0][0],), loss="cross_entropy", optimizer=RULES[rule][0], threads=threads
    )
    return [trainer.step(*batches[step % BATCHES]) for step in range(STEPS)]


@pytest.mark.sweep
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CASES)
def test_curves_equal_those_of_torch_for_any_number_of_threads(name: str, rule: str) -> None:
    curves = [curve(name, rule, threads) for threads in (1, 1, 2, 3)]
    assert curves[0] == curves[1] == curves[2] == curves[3]
    module, batches = drawn(name)
    reference = copy.deepcopy(module)
    optimizer = RULES[rule][1](reference.parameters())
    expected = []
    for step in range(STEPS):
        x, labels = batches[step % BATCHES]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(reference(x), labels)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(curves[0], expected, rtol=1e-3, atol=1e-3)
    assert np.mean(curves[0][-BATCHES:]) < 0.95 * np.mean(curves[0][:BATCHES])
