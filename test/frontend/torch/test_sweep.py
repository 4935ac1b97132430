"""The count of entries of PyTorch's own databases: `python test/frontend/torch/sweep` runs all of them."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="PyTorch's databases of ops need it")

from .sweep.comparison import compared  # noqa: E402
from .sweep.entries import entries  # noqa: E402

STRIDE = int(os.environ.get("GRADIENTS_STRIDE", "16"))
"""One of how many entries `test_gradients` runs: 16 take 2 minutes, 1 runs all of them."""


@pytest.fixture(scope="module")
def known():
    return {entry.name: entry for entry in entries(1, [torch.float32])}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "route", "outcome"),
    [
        ("op/fft.rfft", "compile", "native"),
        ("op/linalg.eigvals", "export", "partly"),
        ("module/nn.NLLLoss", "compile", "native"),
        ("op/sin", "gradients", "native"),
        ("op/linalg.eigvals", "gradients", "partly"),
        ("op/argmax", "gradients", "no samples"),
    ],
)
def test_outcomes(known, name, route, outcome):
    found = compared(known[name], route)
    assert found.outcome == outcome, found.reasons


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_gradients():
    smooth = [entry for entry in entries(1, [torch.float32, torch.float64]) if entry.differentiable is not None]
    assert len(smooth) > 500
    results = [compared(entry, "gradients") for entry in smooth[::STRIDE]]
    wrong = {item.name: item.reasons for item in results if item.outcome not in ("native", "partly", "no samples")}
    assert not wrong
    count = sum(item.outcome == "native" for item in results)
    assert count >= 0.85 * len(results), [item.name for item in results if item.outcome == "partly"]
