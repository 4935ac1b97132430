"""Loops whose values have varying extents."""

from __future__ import annotations

from mlir import ir
from stepwell.dialects.dims import named
from stepwell.frontend.onnx.importer import import_model
from stepwell.sizes.assumptions import assuming

from .extent_graphs import distances


def test_iterations_that_add_rows_of_varying_extents_stay_a_loop():
    model, dims = distances()
    with assuming(dims):
        module = import_model(model, ir.Context(), {"x": (named("n"), 4)}).module
    text = str(module)
    assert "scf.for" in text
    assert text.count("stepwell.reduce_sum") == 1
