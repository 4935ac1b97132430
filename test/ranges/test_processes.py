"""Programs of one model for ranges share one pool of worker processes, if there is enough to compile."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.driver.compile import ranges


@pytest.mark.parametrize(("count", "processes"), [(2, 1), (20, 2)])
def test_all_programs_of_a_model_have_one_pool(count: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    make = ranges.kernel_pool

    @contextmanager
    def pool(number: int, *, may_start: bool):
        asked.append(number)
        with make(number, may_start=may_start) as made:
            yield made

    monkeypatch.setattr(ranges, "kernel_pool", pool)
    kinds = ("Exp", "Tanh", "Sqrt", "Sigmoid")
    names = ["x", *(f"v{index}" for index in range(count))]
    nodes = [helper.make_node(kinds[index % 4], [names[index]], [names[index + 1]]) for index in range(count)]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = stepwell.compile(model, options=stepwell.Options(dims={"n": [4, 64]}, cache=False))
    assert asked == [processes]
    assert len(executable.programs) == 2
    for rows in (1, 4, 30):
        x = np.random.default_rng(0).random((rows, 8), np.float32)
        alone = stepwell.compile(model, options=stepwell.Options(cache=False, ranges=False))
        np.testing.assert_allclose(executable(x), alone(x), rtol=1e-5)
