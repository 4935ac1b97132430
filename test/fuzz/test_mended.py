"""Graphs that once did not compile, or gave wrong results: `mended/` holds their reduced forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from mlir import ir
from stepwell.dialects import interpreter
from stepwell.dialects.registry import load_dialects

GRAPHS = sorted(Path(__file__).with_name("mended").glob("*.mlir"))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_graph_is_computed(path: Path) -> None:
    executable = stepwell.compile(path, threads=1, options=stepwell.Options(cache=False))
    rng = np.random.default_rng(0)
    arrays = []
    for info in executable.inputs:
        shape = tuple(int(dim) for dim in info.shape)
        floats = np.issubdtype(info.dtype, np.floating)
        arrays.append((rng.standard_normal(shape) if floats else rng.integers(0, 255, shape)).astype(info.dtype))
    context = ir.Context()
    with context, ir.Location.unknown():
        load_dialects(context)
        (wanted,) = interpreter.evaluate(ir.Module.parse(path.read_bytes()), "main", arrays, {})
    got = executable(*arrays)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, strict=True)
