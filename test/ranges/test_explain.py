"""Reports about kernels that do more than a call needs, in programs for a range of sizes."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.reduction import ArgmaxOp
from stepwell.passes.kernel import demand
from stepwell.passes.kernel.demand_rules import rule_of


def _compiled(*nodes, outputs: dict[str, int]) -> stepwell.Executable:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 40])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return stepwell.compile(model, options=stepwell.Options(dims={"batch": (1, 12)}, cache=False))


def test_a_kernel_whose_readers_need_all_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    """The reader is an op without a liveness rule, as a user's op may be."""
    monkeypatch.setattr(demand, "rule_of", lambda op: None if op.name == ArgmaxOp.OPERATION_NAME else rule_of(op))
    executable = _compiled(
        helper.make_node("Exp", ["x"], ["a"], name="power"),
        helper.make_node("ArgMax", ["a"], ["y"], axis=1, keepdims=0),
        outputs={"a": TensorProto.FLOAT, "y": TensorProto.INT64},
    )
    first, *others = executable.explain().splitlines()
    assert first.startswith("batch 1 to 12: ")
    (line,) = [line for line in others if "(power)" in line]
    assert line.endswith(" is not bounded: all of it is needed by 'stepwell.argmax'")
    x = np.random.default_rng(0).standard_normal((5, 40), np.float32)
    np.testing.assert_array_equal(executable(x)[1], x.argmax(1))


def test_kernels_that_stop_with_the_data_are_not_named():
    executable = _compiled(helper.make_node("Exp", ["x"], ["y"]), outputs={"y": TensorProto.FLOAT})
    assert len(executable.explain().splitlines()) == 1


@pytest.mark.parametrize("batch", [1, 2, 7, 12])
def test_data_of_a_larger_earlier_call_is_not_read(batch: int):
    """The padding of inputs is zero, even after a larger call."""
    executable = _compiled(
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "x"], ["y"]),
        outputs={"y": TensorProto.FLOAT},
    )
    large, small = (np.full((size, 40), 3.0, np.float32) for size in (12, batch))
    executable(large)
    np.testing.assert_allclose(executable(small), small.T @ small, rtol=1e-5)


def test_programs_share_their_weights():
    weight = helper.make_tensor("w", TensorProto.FLOAT, [40, 64], np.ones(2560, np.float32))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = stepwell.compile(model, options=stepwell.Options(dims={"batch": [32, 64]}, cache=False))
    first, second = ({id(array) for array in program.parameters.values()} for program in executable.programs)
    assert first & second


def test_the_report_tells_what_each_kernel_depends_on_and_which_version_runs_when():
    weights = {"w": np.ones((256, 512), np.float32), "v": np.ones((512, 8), np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="large"),
            helper.make_node("MatMul", ["a", "v"], ["y"], name="small"),
            helper.make_node("Exp", ["fixed"], ["z"], name="fixed"),
        ],
        "two",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 256]),
            helper.make_tensor_value_info("fixed", TensorProto.FLOAT, [8]),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = stepwell.Options(dims={"batch": 1, "length": (1, 64)}, cache=False)
    report = stepwell.compile(model, options=options, target="x86-64-v3").report()
    found = {kernel["ops"][0][0]: kernel for kernel in report.kernels if kernel["calls"]}
    assert not found["fixed"]["sizes"]["names"]
    sizes = found["large"]["sizes"]
    assert (sizes["names"], sizes["numbers"], sizes["whole"]) == (["length"], ["length"], [])
    assert len(sizes["versions"]) > 1
    assert sizes["versions"][0]["kernel"] == found["large"]["name"]
    assert sum(item["share"] for item in sizes["versions"]) == pytest.approx(1, abs=1e-3)
    assert f"{len(sizes['versions'])} versions take at most" in sizes["why"]
    texts = [item["sizes"].removeprefix("length ") for item in sizes["versions"]]
    runs = [run.removeprefix("... ") for text in texts for run in text.split(", ")]
    listed = [size for low, _, high in (run.partition(" to ") for run in runs) for size in (int(low), int(high or low))]
    assert (min(listed), max(listed)) == (1, 64)
    text = report.text()
    assert sizes["why"] in text
    assert f": {sizes['versions'][1]['sizes']} (" in text


def test_the_report_of_fixed_sizes_says_nothing_about_them():
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Exp", ["x"], ["y"])],
            "one",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    (kernel,) = stepwell.compile(model, options=stepwell.Options(cache=False)).report().kernels
    assert kernel["sizes"] == {}
