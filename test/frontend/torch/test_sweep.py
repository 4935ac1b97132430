"""The count of entries of PyTorch's own databases: `python test/frontend/torch/sweep` runs all of them."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="PyTorch's databases of ops need it")

from .sweep.comparison import compared  # noqa: E402
from .sweep.entries import entries  # noqa: E402


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
    ],
)
def test_outcomes(known, name, route, outcome):
    found = compared(known[name], route)
    assert found.outcome == outcome, found.reasons
