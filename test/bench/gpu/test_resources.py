"""GPU resources of kernels: read from the assembler's output, and reported as a table and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from stepwell.bench.gpu import cases, resources
from stepwell.runtime.cuda import assembler
from stepwell.support.errors import ArtefactError

needs_assembler = pytest.mark.skipif(assembler.find_assembler() is None, reason="install nvidia-cuda-nvcc")
PRODUCT = cases.product(256, 64, 128, "float32")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("resources") / "product.onnx"
    onnx.save(PRODUCT.make(), path)
    return str(path)


@needs_assembler
def test_a_model_that_fits(model: str, capsys: pytest.CaptureFixture) -> None:
    assert resources.main([model, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == 1
    assert [item["target"] for item in record["models"]] == ["cuda:sm_80", "cuda:sm_90a"]
    for item in record["models"]:
        (kernel,) = item["kernels"]
        assert kernel["schedule"] == "contraction" and kernel["class"] == "contraction"
        assert kernel["spill_bytes"] == 0 and item["spilling"] == 0 and item["refused"] == []
        # Accumulators and operands are in registers, at least two stages of both matrices in shared memory.
        assert 32 < kernel["registers"] <= 255 and kernel["shared_bytes"] > 4096


@needs_assembler
def test_tables_name_what_spills_and_what_is_refused(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    read = assembler.resources

    def few_registers(tool: Path, ptx: bytes, architecture: str) -> list[assembler.Resources]:
        return read(tool, re.sub(rb"(\.maxntid.*)(\n\.minnctapersm.*)?", rb"\1\n.maxnreg 24", ptx), architecture)

    monkeypatch.setattr(assembler, "resources", few_registers)
    assert resources.main([model, "--target=cuda:sm_80"]) == 1
    assert "1 kernel, 1 of them spill, 0 modules are rejected" in capsys.readouterr().out

    monkeypatch.setattr(assembler, "resources", lambda tool, ptx, architecture: read(tool, ptx, "sm_75"))
    assert resources.main([model, "--target=cuda:sm_80"]) == 1
    shown = capsys.readouterr()
    assert "0 kernels, 0 of them spill, 1 modules are rejected" in shown.out and "ptxas rejects" in shown.err


def test_only_gpus_have_them(model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(assembler, "find_assembler", lambda: Path("ptxas"))
    assert resources.main([model, "--target=cpu"]) == 1
    assert "unknown target 'cpu'; known are cuda:sm_80" in capsys.readouterr().err
    monkeypatch.setattr(assembler, "find_assembler", lambda: None)
    assert resources.main([model]) == 1
    assert "install nvidia-cuda-nvcc" in capsys.readouterr().err


@needs_assembler
def test_text_that_is_not_ptx_is_refused() -> None:
    tool = assembler.find_assembler()
    assert tool is not None
    with pytest.raises(ArtefactError, match="ptxas rejects"):
        assembler.resources(tool, b".version 8.0\n.target sm_80\nnonsense", "sm_80")
