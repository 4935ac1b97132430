"""Every kernel of real models compiles for GPUs: the assembler accepts it, and no registers spill."""

from __future__ import annotations

import pytest
from stepwell.bench import models
from stepwell.bench.gpu import resources
from stepwell.driver.workers import worker_pool
from stepwell.runtime.cuda import assembler

# It has products, norms and attention. Convolutions of all kinds are in the others.
FEW = ("minilm-1x16",)
MANY = ("ppocr-cls", "ppocr-det", "ppocr-rec", "light-resnet50", "light-densenet121")
MODELS = [*FEW, *(pytest.param(name, marks=pytest.mark.sweep) for name in MANY)]


@pytest.mark.sweep
@pytest.mark.skipif(assembler.find_assembler() is None, reason="install nvidia-cuda-nvcc")
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_refused_or_spills(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No worker processes: other tests use the other cores.
    monkeypatch.setattr(worker_pool, "available_cores", lambda: 1)
    try:
        models.named(name).file(tmp_path_factory.mktemp("models"))
    except models.MissingModel as missing:
        pytest.skip(str(missing))
    assert resources.main([name]) == 0
    shown = capsys.readouterr().out
    assert shown.count("0 of them spill, 0 modules are rejected") == 2, shown
