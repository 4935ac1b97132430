"""The demonstration of training: it draws, trains, tests and plots."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent.parent.parent / "examples" / "train_digits.py"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch):
    spec = importlib.util.spec_from_file_location("train_digits", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train_digits", module)
    spec.loader.exec_module(module)
    return module


def test_digits_differ_and_are_the_same_for_a_seed(demo) -> None:
    images, digits = next(demo.drawn(1, seed=3))
    assert images.shape == (64, 1, 20, 20) and images.dtype == np.float32
    assert images.min() >= 0 and images.max() <= 1
    assert set(digits) == set(range(10))
    np.testing.assert_array_equal(images, next(demo.drawn(1, seed=3))[0])


@pytest.mark.sweep
@pytest.mark.slow
def test_a_short_training(demo, monkeypatch, capsys, tmp_path) -> None:
    for name, value in {"BATCHES": 8, "ROUNDS": 6, "TESTS": 2}.items():
        monkeypatch.setattr(demo, name, value)
    # Too short for 97 %.
    assert demo.main(["--plot", str(tmp_path / "loss.png")]) == 1
    printed = capsys.readouterr().out
    assert "48 steps; the trained model reads " in printed
    share = float(printed.split("reads ")[1].split("%")[0])
    assert 50 < share <= 97
    assert (tmp_path / "loss.png").stat().st_size > 5_000
