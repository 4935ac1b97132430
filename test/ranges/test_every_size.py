"""One compile serves every size in a range: results at the bounds and in between, compared with ONNX Runtime's."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import onnxruntime
import pytest
import stepwell

from .extent_graphs import GRAPHS as OF_EXTENTS
from .graphs import GRAPHS, Graph
from .model_graphs import GRAPHS as OF_MODELS
from .text_graphs import GRAPHS as OF_TEXT
from .wide_graphs import GRAPHS as MORE

_MOST = 24


@pytest.mark.few(8)
@pytest.mark.parametrize("make", [*GRAPHS, *MORE, *OF_MODELS, *OF_TEXT, *OF_EXTENTS], ids=lambda make: make.__name__)
def test_results_are_right_at_every_size(make):
    model, dims = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executable = stepwell.compile(
            model, threads=1, options=stepwell.Options(dims=dims, cache=False, fallback="error")
        )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    for sizes in _sizes(dims, rng):
        x = _input((model, dims), sizes, rng)
        expected = np.asarray(session.run(None, {"x": x})[0])
        np.testing.assert_allclose(executable(x), expected, rtol=2e-5, atol=5e-5, err_msg=str(sizes))
    assert len(executable.programs) == 1


def _sizes(dims: dict, rng: np.random.Generator) -> list[dict[str, int]]:
    """All corners and some other sizes, ordered so that larger ones come both before and after smaller ones."""
    corners = list(itertools.product(*dims.values()))
    everything = list(itertools.product(*(range(low, high + 1) for low, high in dims.values())))
    some = [everything[index] for index in rng.permutation(len(everything))[:_MOST]]
    return [dict(zip(dims, sizes, strict=True)) for sizes in (*corners[::-1], *some, *corners)]


def _input(graph: Graph, sizes: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    model, _ = graph
    kind = model.graph.input[0].type.tensor_type
    shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
    if kind.elem_type == 7:
        return rng.integers(0, 10, shape)
    return rng.standard_normal(shape, np.float32)
