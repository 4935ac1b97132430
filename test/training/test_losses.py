"""Losses and their gradients with respect to outputs, compared with PyTorch's."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import stepwell
from stepwell.passes.differentiation.differentiate import GRADIENT
from stepwell.training import (
    CTC,
    NLL,
    BinaryCrossEntropy,
    Contrastive,
    CosineEmbedding,
    CrossEntropy,
    Huber,
    KLDivergence,
    MeanAbsoluteError,
    MeanSquaredError,
    SmoothL1,
    TripletMargin,
)
from stepwell.training.recipe import Recipe

from .interpreted import results_of

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Outputs(torch.nn.Module):
    """Returns its parameters, so that gradients of these are gradients of outputs."""

    def __init__(self, *contents) -> None:
        super().__init__()
        self.values = torch.nn.ParameterList(contents)

    def forward(self, zero):
        return tuple(value + zero for value in self.values)


@dataclass
class Case:
    """A loss with the shapes of its outputs.

    Attributes:
        loss: the loss here.
        shapes: shapes of the outputs.
        targets: makes the targets, by name.
        expected: the loss of PyTorch, of the outputs and the targets.
        change: applied to random normal numbers for the outputs.
    """

    loss: Any
    shapes: tuple[tuple[int, ...], ...]
    targets: Callable[[], dict[str, Any]]
    expected: Callable[..., Any]
    change: Callable[[Any], Any] = lambda x: x

    def __str__(self) -> str:
        return str(self.loss).replace(" ", "")


def labels(*shape: int, classes: int = 5, ignored: bool = False) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        found = torch.randint(0, classes, shape)
        if ignored:
            found.view(-1)[::3] = -100
        return {"target": found}

    return make


def like(*shape: int, draw: Callable[..., Any] = torch.randn) -> Callable[[], dict[str, Any]]:
    return lambda: {"target": draw(*shape)}


def clip(first, second, temperature: float = 0.07, symmetric: bool = True):
    scores = F.normalize(first) @ F.normalize(second).T / temperature
    rows = torch.arange(len(first))
    found = F.cross_entropy(scores, rows)
    return (found + F.cross_entropy(scores.T, rows)) / 2 if symmetric else found


def probabilities(x):
    return F.log_softmax(x, -1)


WEIGHTS = (0.5, 1.0, 2.0, 0.25, 3.0)
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0])

CASES = [
    Case(MeanSquaredError(), ((3, 4),), like(3, 4), F.mse_loss),
    Case(MeanAbsoluteError("sum"), ((3, 4),), like(3, 4), lambda x, y: F.l1_loss(x, y, reduction="sum")),
    Case(SmoothL1(beta=0.5), ((3, 4),), like(3, 4), lambda x, y: F.smooth_l1_loss(x, y, beta=0.5)),
    Case(SmoothL1(beta=0), ((3, 4),), like(3, 4), lambda x, y: F.smooth_l1_loss(x, y, beta=0)),
    Case(Huber(delta=0.7), ((3, 4),), like(3, 4), lambda x, y: F.huber_loss(x, y, delta=0.7)),
    Case(
        CrossEntropy(weights=WEIGHTS, label_smoothing=0.1),
        ((4, 5, 3),),
        labels(4, 3, ignored=True),
        lambda x, y: F.cross_entropy(x, y, torch.tensor(WEIGHTS), label_smoothing=0.1),
    ),
    Case(
        CrossEntropy(weights=WEIGHTS, label_smoothing=0.1, probabilities=True),
        ((4, 5, 3),),
        lambda: {"target": torch.randn(4, 5, 3).softmax(1)},
        lambda x, y: F.cross_entropy(x, y, torch.tensor(WEIGHTS), label_smoothing=0.1),
    ),
    Case(CrossEntropy(reduction="sum"), ((4, 5),), labels(4), lambda x, y: F.cross_entropy(x, y, reduction="sum")),
    Case(
        NLL(weights=WEIGHTS),
        ((4, 5),),
        labels(4, ignored=True),
        lambda x, y: F.nll_loss(x, y, torch.tensor(WEIGHTS)),
        probabilities,
    ),
    # The gradient at 0 is that of the sigmoid, not one of the two of max(0, x).
    Case(BinaryCrossEntropy(), ((3, 4),), like(3, 4, draw=torch.rand), F.binary_cross_entropy_with_logits, torch.floor),
    Case(
        BinaryCrossEntropy(positive_weight=(1.0, 2.0, 0.5, 3.0), reduction="sum"),
        ((3, 4),),
        like(3, 4, draw=torch.rand),
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, pos_weight=torch.tensor([1.0, 2.0, 0.5, 3.0]), reduction="sum"
        ),
        lambda x: x * 30,
    ),
    Case(
        KLDivergence(),
        ((3, 4),),
        lambda: {"target": torch.relu(torch.randn(3, 4))},
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        probabilities,
    ),
    Case(
        KLDivergence("mean", log_target=True),
        ((3, 4),),
        like(3, 4),
        lambda x, y: F.kl_div(x, y, reduction="none", log_target=True).mean(),
        probabilities,
    ),
    Case(Contrastive(), ((4, 6), (4, 6)), dict, clip),
    Case(Contrastive(0.5, symmetric=False), ((4, 6), (4, 6)), dict, lambda x, y: clip(x, y, 0.5, symmetric=False)),
    Case(
        CosineEmbedding(margin=0.1),
        ((4, 6), (4, 6)),
        lambda: {"target": SIGNS},
        lambda x, y, target: F.cosine_embedding_loss(x, y, target, margin=0.1),
    ),
    Case(TripletMargin(), ((4, 6),) * 3, dict, F.triplet_margin_loss),
    Case(
        TripletMargin(0.5, p=3, swap=True, reduction="sum"),
        ((4, 6),) * 3,
        dict,
        lambda *x: F.triplet_margin_loss(*x, margin=0.5, p=3, swap=True, reduction="sum"),
    ),
]


def check(loss: Any, outputs: list[Any], targets: dict[str, Any], expected: Callable[..., Any], rtol=1e-4) -> None:
    """Compares a loss and its gradients with those of a function of torch."""
    module = Outputs(*outputs)
    found = results_of(module, (torch.zeros(()),), Recipe(loss), {name: item.numpy() for name, item in targets.items()})
    value = expected(*module.values, *targets.values())
    value.backward()
    np.testing.assert_allclose(found["loss"], value.item(), rtol=rtol)
    for index, parameter in enumerate(module.values):
        scale = float(np.nanmax(parameter.grad.abs()))
        gradient = found[f"values.{index}{GRADIENT}"]
        np.testing.assert_allclose(gradient, parameter.grad, rtol=rtol, atol=rtol * scale)


@pytest.mark.few(5)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_and_gradients_equal_those_of_torch(case: Case) -> None:
    torch.manual_seed(0)
    check(case.loss, [case.change(torch.randn(shape)) for shape in case.shapes], case.targets(), case.expected)


def texts(frames: int, batch: int, classes: int, most: int, blank: int) -> dict[str, Any]:
    """Random targets with repeated labels; the last one is empty."""
    kept = [label for label in range(classes) if label != blank]
    target = torch.tensor(kept)[torch.randint(0, len(kept), (batch, most))]
    target[0, 1] = target[0, 0]
    lengths = torch.randint(1, most + 1, (batch,))
    lengths[0], lengths[-1] = most, 0
    frame_counts = torch.randint(most + 2, frames + 1, (batch,))
    frame_counts[0] = frames
    return {"target": target, "input_lengths": frame_counts, "target_lengths": lengths}


@pytest.mark.parametrize("loss", [CTC(), CTC(blank=3, reduction="sum"), CTC(batch_first=True)], ids=str)
def test_ctc_equals_that_of_torch(loss: CTC) -> None:
    torch.manual_seed(1)
    scores = probabilities(torch.randn(12, 4, 6))

    def expected(x, *targets):
        x = x.transpose(0, 1) if loss.batch_first else x
        return F.ctc_loss(x, *targets, blank=loss.blank, reduction=loss.reduction)

    check(loss, [scores.transpose(0, 1) if loss.batch_first else scores], texts(12, 4, 6, 5, loss.blank), expected)


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_ctc_of_sequences_that_are_too_short(zero_infinity: bool) -> None:
    torch.manual_seed(1)
    targets = texts(12, 4, 6, 5, 0)
    targets["input_lengths"][0] = 3
    loss = CTC(zero_infinity=zero_infinity)
    check(
        loss,
        [probabilities(torch.randn(12, 4, 6))],
        targets,
        lambda x, *given: F.ctc_loss(x, *given, zero_infinity=zero_infinity),
    )


@pytest.mark.parametrize(
    ("name", "wrong"), [("target", 6), ("target", -1), ("input_lengths", 13), ("target_lengths", 6)]
)
def test_ctc_of_invalid_targets_is_nan(name: str, wrong: int) -> None:
    targets = texts(12, 4, 6, 5, 0)
    targets[name].view(-1)[0] = wrong
    arrays = {key: value.numpy() for key, value in targets.items()}
    module = Outputs(probabilities(torch.randn(12, 4, 6)))
    assert np.isnan(results_of(module, (torch.zeros(()),), Recipe(CTC()), arrays)["loss"])


def test_compiled_ctc_equals_that_of_torch() -> None:
    torch.manual_seed(2)
    layer, x = torch.nn.Linear(7, 9), torch.randn(40, 3, 7)
    targets = texts(40, 3, 9, 11, 0)
    module = torch.nn.Sequential(layer, torch.nn.LogSoftmax(-1))
    loss, gradients = stepwell.value_and_grad(module, (x,), loss="ctc")(x, *targets.values())
    expected = F.ctc_loss(module(x), *targets.values())
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradients["0.weight"], layer.weight.grad, rtol=1e-3, atol=1e-5)


def test_losses_reject_what_they_do_not_take() -> None:
    def error(loss: Any, shapes: tuple[tuple[int, ...], ...], **targets: Any) -> str:
        arrays = {name: np.zeros(shape, np.int64) for name, shape in targets.items()}
        with pytest.raises(stepwell.OptionError) as caught:
            results_of(Outputs(*map(torch.zeros, shapes)), (torch.zeros(()),), Recipe(loss), arrays)
        return str(caught.value)

    assert "the model has only 1 output of floating point, and the loss takes 2" in error(Contrastive(), ((4, 6),))
    assert "the outputs must have one shape, of 2 dimensions" in error(Contrastive(), ((4, 6), (3, 6)))
    assert "there are 2 weights" in error(CrossEntropy(weights=(1, 2)), ((4, 3),), target=(4,))
    assert "the target must be [n, labels] with n = 4" in error(CTC(), ((9, 4, 5),), target=(9, 3))
    for make in (lambda: MeanSquaredError("none"), lambda: Huber(delta=0), lambda: Contrastive(temperature=0)):
        with pytest.raises(stepwell.OptionError, match=r"reduction is 'none'|delta must|temperature must"):
            make()
