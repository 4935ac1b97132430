"""Weights that DequantizeLinear scales in blocks stay in few bits in the artefact."""

from __future__ import annotations

import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import stepwell
from onnx import ModelProto, TensorProto, helper
from stepwell.tools import compile as compile_tool

RNG = np.random.default_rng(0)
K, N, BLOCK = 192, 72, 32
KINDS = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT8": np.int8, "UINT8": np.uint8}


def _model(kind: str, is_gemm: bool, has_zeros: bool, axis: int | None = None) -> tuple[ModelProto, np.ndarray]:
    """A product of x [rows, K] with a dequantised weight, and the weight [K, N]."""
    limits = ml_dtypes.iinfo(KINDS[kind])
    along = int(is_gemm) if axis is None else axis
    size = (N, K) if is_gemm else (K, N)
    per_block = tuple(-(-extent // BLOCK) if at == along else extent for at, extent in enumerate(size))
    numbers = RNG.integers(limits.min, limits.max + 1, size)
    zeros = RNG.integers(limits.min, limits.max + 1, per_block) if has_zeros else np.zeros(per_block, np.int64)
    scales = RNG.random(per_block).astype(np.float32)
    tensor = getattr(TensorProto, kind)
    stored = [
        helper.make_tensor("w", tensor, size, numbers.ravel()),
        helper.make_tensor("s", TensorProto.FLOAT, per_block, scales.ravel()),
        *([helper.make_tensor("z", tensor, per_block, zeros.ravel())] if has_zeros else []),
    ]
    names = ["w", "s", "z"] if has_zeros else ["w", "s"]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["d"], axis=along, block_size=BLOCK),
        helper.make_node("Gemm", ["x", "d"], ["y"], transB=1)
        if is_gemm
        else helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, size)) for name, size in (("x", K), ("y", N))]
    graph = helper.make_graph(nodes, "blocks", values[:1], values[1:], stored)
    spread = [np.repeat(item, BLOCK, axis=along).take(range(size[along]), axis=along) for item in (zeros, scales)]
    weight = (numbers - spread[0]) * spread[1]
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), weight.T if is_gemm else weight


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("is_gemm", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_weight_stays_in_few_bits(kind: str, is_gemm: bool, has_zeros: bool) -> None:
    model, weight = _model(kind, is_gemm, has_zeros)
    executable = stepwell.compile(model)
    x = RNG.standard_normal((3, K)).astype(np.float32)
    want = x.astype(np.float64) @ weight
    np.testing.assert_allclose(np.asarray(executable(x)), want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_artefact_is_as_small_as_the_weight(tmp_path: Path) -> None:
    model, _ = _model("INT4", False, False)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert compile_tool.main([str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.stw"), "--quiet"]) == 0
    with zipfile.ZipFile(tmp_path / "m.stw") as archive:
        stored = archive.read("parameters.safetensors")
    size = len(stored) - 8 - int.from_bytes(stored[:8], "little")
    assert K * N / 2 < size <= 1.05 * (K * N / 2 + 4 * K / BLOCK * N)


def test_blocks_along_the_columns_are_dequantised() -> None:
    model, weight = _model("INT4", False, True, axis=1)
    x = RNG.standard_normal((3, K)).astype(np.float32)
    want = x.astype(np.float64) @ weight
    np.testing.assert_allclose(np.asarray(stepwell.compile(model)(x)), want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
