"""Results written by streaming stores are right, for any alignment of their memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper
from stepwell.driver.compile.compilation import Compilation
from stepwell.driver.sources.reading import read_source
from stepwell.lowering.target import Target
from stepwell.machines.caches import stream_bytes
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace
from stepwell.runtime.memory import aligned_empty
from stepwell.runtime.native import loader
from stepwell.runtime.program import Program

ROWS, COLUMNS = stream_bytes(Target.host().machine) // 4096 + 1, 1024
BYTES = 4 * ROWS * COLUMNS


def compiled(op: str) -> Program:
    """y = op(x), with y large enough for streaming stores."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, COLUMNS]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "one", ports[:1], ports[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return Compilation().program(read_source(made), {"x": (ROWS, COLUMNS)})


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.few(1)
@pytest.mark.skipif(Target.host().architecture != "x86_64", reason="such stores are for x86-64")
@pytest.mark.parametrize(("op", "reference"), [("Relu", lambda x: np.maximum(x, 0)), ("Softmax", softmax)])
def test_results_are_right_wherever_they_begin(op: str, reference: Callable[[np.ndarray], np.ndarray]) -> None:
    program = compiled(op)
    loaded, workspace = LoadedProgram(program, loader.load(program), []), Workspace()
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)
    expected, memory = reference(x), aligned_empty(BYTES + 64)
    for start in (0, 4):
        y = memory[start : start + BYTES].view(np.float32).reshape(x.shape)
        for threads in (1, 2):
            y.fill(np.nan)
            workspace.run(loaded, [x], [y], threads)
            np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-9)
