"""Activation functions compared with f64, within the bounds that docs/numerics.md states."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import stepwell
from onnx import NodeProto, TensorProto, helper

Array = np.ndarray
SIGMOID = helper.make_node("Sigmoid", ["x"], ["s"])
NODES: dict[str, Sequence[NodeProto]] = {
    "sigmoid": [helper.make_node("Sigmoid", ["x"], ["y"])],
    "SiLU": [SIGMOID, helper.make_node("Mul", ["x", "s"], ["y"])],
    "softplus": [helper.make_node("Softplus", ["x"], ["y"])],
    "GELU": [helper.make_node("Gelu", ["x"], ["y"])],
}


def gelu(x: Array) -> Array:
    return np.array([0.5 * item * math.erfc(-item * math.sqrt(0.5)) for item in x])


EXACT: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "GELU": gelu,
}


def stated_bound(name: str) -> tuple[float, bool]:
    """Returns the bound, and whether it is in units of the argument's last place."""
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| {name} \| (\d+) \| the (\w+)'s last place \|$", page, re.MULTILINE)
    assert match is not None
    return float(match[1]), match[2] == "argument"


@pytest.mark.parametrize("name", NODES)
def test_error_is_within_the_stated_bound(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-87, 87, 40000), rng.standard_normal(40000), rng.uniform(-6, 6, 40000)])
    x = x.astype(np.float32)
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, x.shape) for port in "xy"]
    model = helper.make_model(
        helper.make_graph(NODES[name], "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 20)]
    )
    got = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(x)
    want = EXACT[name](x.astype(np.float64))
    bound, is_in_argument = stated_bound(name)
    unit = np.spacing(np.abs(x if is_in_argument else want.astype(np.float32)))
    off = np.abs(got - want) / unit
    assert off.max() <= bound, x[int(off.argmax())]


def test_limits() -> None:
    x = np.array([-np.inf, -200, 0, 200, np.inf, np.nan], np.float32)
    want = {
        "sigmoid": [0, 0, 0.5, 1, 1, np.nan],
        "softplus": [0, 0, np.log(2), 200, np.inf, np.nan],
        "GELU": [np.nan, 0, 0, 200, np.inf, np.nan],
    }
    for name, values in want.items():
        ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, x.shape) for port in "xy"]
        model = helper.make_model(
            helper.make_graph(NODES[name], "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 20)]
        )
        got = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(x)
        np.testing.assert_allclose(got, np.array(values, np.float32), rtol=1e-6)
