"""Training steps within a budget of memory compute the same, and take the bytes that were planned."""

import numpy as np
import pytest
import stepwell
from stepwell.passes.differentiation.minimum_cut import CutGraph
from stepwell.training import SGD

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402


def images():
    layers = []
    for width in (3, 8, 8, 8, 8):
        layers += [nn.Conv2d(width, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 5))


def blocks():
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", batch_first=True, norm_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Flatten(), nn.Linear(256, 5))


MODELS = {"images": (images, (4, 3, 16, 16)), "blocks": (blocks, (8, 16, 16))}
BUDGETS = {"images": (1.0, 0.6), "blocks": (1.0, 0.7, 0.5)}


def make(name, budget):
    torch.manual_seed(0)
    build, shape = MODELS[name]
    x = torch.randn(shape)
    labels = np.arange(len(x)) % 5
    optimizer = SGD(0.05, momentum=0.9)
    trainer = stepwell.trainer(build().train(), (x,), loss="cross_entropy", optimizer=optimizer, memory_budget=budget)
    return trainer, (x.numpy(), labels)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.sweep if name == "blocks" else ()) for name in MODELS]
)
def test_smaller_budgets_take_less_memory_and_train_the_same(name):
    plain, batch = make(name, None)
    losses = [plain.step(*batch) for _ in range(4)]
    (code,) = plain.executables
    peaks, times = [code.peak_bytes], [0.0]
    for budget in BUDGETS[name]:
        trainer, _ = make(name, budget)
        np.testing.assert_allclose([trainer.step(*batch) for _ in range(4)], losses, rtol=1e-5)
        for key, array in plain.parameters.items():
            np.testing.assert_allclose(trainer.parameters[key], array, rtol=1e-3, atol=1e-5)
        (plan,) = trainer.recomputations
        assert plan.peak == trainer.executables[0].peak_bytes <= budget * peaks[0]
        assert plan.without == peaks[0]
        peaks.append(plan.peak)
        times.append(plan.seconds)
    assert peaks == sorted(peaks, reverse=True) and times == sorted(times)
    assert plan.repeated and plan.kept and "computed again" in str(plan)


def test_a_budget_in_bytes_is_that_of_a_fraction():
    whole, batch = make("images", 1.0)
    whole.step(*batch)
    (plan,) = whole.recomputations
    assert not plan.repeated and plan.peak == plan.without
    trainer, _ = make("images", int(0.8 * plan.peak))
    trainer.step(*batch)
    (other,) = trainer.recomputations
    assert other.budget == int(0.8 * plan.peak) >= other.peak


def test_gradients_are_those_without_a_budget():
    torch.manual_seed(0)
    module, x, labels = images(), torch.randn(4, 3, 16, 16), np.arange(4)
    found = []
    for budget in (None, 0.7):
        function = stepwell.value_and_grad(module, (x,), loss="cross_entropy", memory_budget=budget)
        found.append(function(x.numpy(), labels))
    assert len(function.recomputations) == 1
    (loss, gradients), (other, others) = found
    assert other == pytest.approx(loss, rel=1e-6)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(others[name], gradient, rtol=1e-3, atol=1e-6)


def test_negative_a_budget_that_nothing_meets():
    trainer, batch = make("images", 4096)
    with pytest.warns(stepwell.StepwellWarning, match="memory_budget is 4.1 kB, but the step takes"):
        trainer.step(*batch)
    (plan,) = trainer.recomputations
    assert plan.budget < plan.peak < plan.without


@pytest.mark.parametrize("budget", [0, -1, 1.5, "half", True])
def test_negative_what_is_no_budget(budget):
    with pytest.raises(stepwell.OptionError, match="memory_budget must be a number of bytes, or a fraction"):
        make("images", budget)


def test_a_minimum_cut():
    graph = CutGraph()
    a, b, c = (graph.vertex() for _ in range(3))
    for tail, head, capacity in [(graph.SOURCE, a, 3), (graph.SOURCE, b, 2), (a, c, 1), (b, c, 5), (a, b, 1)]:
        graph.edge(tail, head, capacity)
    graph.edge(c, graph.SINK, 10)
    # The cut of 1 + 1 + 2 ends the flow, and only `a` lies before it.
    assert graph.source_side() == {graph.SOURCE, a}


def test_negative_a_graph_without_a_cut():
    graph = CutGraph()
    graph.edge(graph.SOURCE, graph.SINK, float("inf"))
    with pytest.raises(ValueError, match="path of infinite edges"):
        graph.source_side()
