"""`Executable.report()` on small models with known results."""

import json
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.lowering.target import Target
from stepwell.passes.infra.base import Pass, register
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.rewriting import walk
from stepwell.runtime.devices import cuda_estimates
from stepwell.runtime.facts import KernelDetails, Operand
from stepwell.runtime.program import CodeTarget, KernelInfo
from stepwell.runtime.remarks import Remark


def _model(nodes, inputs, outputs, weights=None):
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]

    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes, "small", [info(*item) for item in inputs.items()], [info(*item) for item in outputs.items()], tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _ops(executable):
    return {op["name"]: op for op in executable.report().record()["programs"][0]["ops"]}


@pytest.fixture(scope="module")
def small():
    """A product with an epilogue, a batch norm's factor, a reshape, shape arithmetic, and an identity."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Shape", ["b"], ["s"], "shape"),
        helper.make_node("Reshape", ["b", "s"], ["c"], "same"),
        helper.make_node("Softmax", ["c"], ["d"], "softmax", axis=-1),
        helper.make_node("Reshape", ["d", "t"], ["e"], "flat"),
        helper.make_node("Identity", ["e"], ["y"], "identity"),
        helper.make_node("Exp", ["v"], ["u"], "weights"),
        helper.make_node("Mul", ["d", "u"], ["z"], "scaled"),
    ]
    weights = {
        "w": random.standard_normal((32, 48)).astype("f4"),
        "v": random.standard_normal((64, 48)).astype("f4"),
        "t": np.array([-1], "i8"),
    }
    return _model(nodes, {"x": (64, 32)}, {"y": (64 * 48,), "z": (64, 48)}, weights)


def test_every_node_appears_once_in_order(small):
    names = [op["name"] for op in stepwell.compile(small).report().ops]
    assert names == [node.name for node in small.graph.node]


def test_lists_the_nodes_that_share_a_kernel(small):
    ops = _ops(stepwell.compile(small))
    assert ops["product"]["with"] == ["relu"]
    assert ops["product"]["kernels"] == ops["relu"]["kernels"]
    assert ops["softmax"]["kernels"] != ops["relu"]["kernels"]


def test_lists_the_nodes_without_a_kernel(small):
    ops = _ops(stepwell.compile(small))
    assert {name: ops[name]["fate"] for name in ("shape", "same", "weights")} == {
        "shape": "constant",
        "same": "removed",
        "weights": "computed at compile time",
    }
    assert ops["flat"]["fate"] == "view"
    assert all(not ops[name]["kernels"] for name in ("shape", "same", "weights", "flat"))


def test_gives_the_reason_why_an_op_was_not_fused():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
        helper.make_node("Add", ["a", "o"], ["z"], "larger"),
    ]
    weights = {"w": np.ones((8, 8), "f4"), "o": np.ones((4, 8, 8), "f4")}
    ops = _ops(stepwell.compile(_model(nodes, {"x": (8, 8)}, {"y": (8, 8), "z": (4, 8, 8)}, weights)))
    assert {name: [item["reason"] for item in ops[name]["apart"]] for name in ("relu", "larger")} == {
        "relu": ["ops outside the kernel also read its operands"],
        "larger": ["its shape is 4x8x8, but the kernel's shape is 8x8"],
    }


def test_names_nodes_that_were_merged_into_another_one():
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("BatchNormalization", ["a", "s", "b", "m", "v"], ["y"], "norm"),
    ]
    weights = {"w": random.standard_normal((8, 4, 3, 3)).astype("f4"), **{k: np.ones(8, "f4") for k in "sbmv"}}
    executable = stepwell.compile(_model(nodes, {"x": (1, 4, 10, 10)}, {"y": (1, 8, 8, 8)}, weights))
    ops = _ops(executable)
    assert ops["conv"]["fate"] == "kernel"
    assert (ops["norm"]["fate"], ops["norm"]["into"], ops["norm"]["by"]) == ("merged", ["conv"], "FactorIntoConv")
    assert ops["norm"]["kernels"] == ops["conv"]["kernels"]
    assert next(kernel for kernel in executable.report().kernels if kernel["class"] == "convolution")["ops"] == [
        ["conv", "norm"]
    ]
    operands = next(kernel for kernel in executable.report().kernels if kernel["class"] == "convolution")["operands"]
    assert [item["layout"] for item in operands][:2] == ["channels_last", "packed"]


def test_follows_nodes_that_were_merged_in_several_steps():
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], "up", strides=[2, 2], kernel_shape=[2, 2]),
        helper.make_node("Add", ["a", "c"], ["d"], "bias"),
        helper.make_node("BatchNormalization", ["d", "s", "b", "m", "v"], ["e"], "norm"),
        helper.make_node("Relu", ["e"], ["y"], "relu"),
    ]
    weights = {
        "w": random.standard_normal((8, 8, 2, 2)).astype("f4"),
        "c": random.standard_normal((1, 8, 1, 1)).astype("f4"),
        **{k: np.ones(8, "f4") for k in "sbmv"},
    }
    ops = _ops(stepwell.compile(_model(nodes, {"x": (1, 8, 6, 6)}, {"y": (1, 8, 12, 12)}, weights)))
    assert ops["up"]["fate"] == "kernel"
    assert (ops["norm"]["fate"], ops["norm"]["into"]) == ("merged", ["up"])
    assert ops["up"]["kernels"] == ops["norm"]["kernels"]


def test_kernels_have_a_cost_and_a_bound(small):
    kernel = next(item for item in stepwell.compile(small).report().kernels if item["class"] == "contraction")
    assert kernel["flops"] == 2 * 64 * 32 * 48 + 64 * 48
    assert kernel["intensity"] == pytest.approx(kernel["flops"] / kernel["bytes"])
    assert kernel["schedule"] == "contraction"
    assert kernel["parameters"]["tiles"]
    assert kernel["predicted_seconds"] > 0
    assert kernel["bound"] in ("compute", "memory")


def test_products_of_bytes_are_estimated_at_their_own_peak():
    weight = np.ones((512, 512), "i1")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"], "product")
    graph = helper.make_graph(
        [node],
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [512, 512])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [512, 512])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    machine = Target.parse("cpu:sapphirerapids").machine
    report = stepwell.compile(model, threads=1, target="cpu:sapphirerapids").report()
    (kernel,) = [item for item in report.kernels if item["class"] == "contraction"]
    seconds = kernel["flops"] / (1e9 * machine.flops * machine.relative_rate("i8"))
    assert kernel["bound"] == "memory" or kernel["predicted_seconds"] == pytest.approx(seconds, rel=0.5)
    assert kernel["predicted_seconds"] < kernel["flops"] / (1e9 * machine.flops) / 4


def test_gives_the_vector_width_and_the_reason_for_serial_code(small):
    report = stepwell.compile(small, target="x86-64-v3").report()
    product = next(item for item in report.kernels if item["class"] == "contraction")
    assert (product["vector_bits"], product["scalar_share"], product["library_calls"]) == (256, 0, {})
    tiny = _model([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": (1,)}, {"y": (1,)})
    (kernel,) = stepwell.compile(tiny).report().kernels
    assert (kernel["vector_bits"], kernel["scalar_share"]) == (0, 1.0)
    assert (kernel["threads"], kernel["serial"]) == (1, "too small to distribute")


def test_uses_the_peaks_that_were_measured(small, tmp_path, monkeypatch):
    from stepwell.runtime.devices import peaks

    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    executable = stepwell.compile(small, threads=1)
    nominal = executable.report()
    measured = peaks.Peaks(1, 1e9, [(1 << 15, 2e9), (1 << 28, 1e9)], [(1 << 15, 2e9), (1 << 28, 1e9)])
    monkeypatch.setattr(peaks, "kept", lambda threads, cache: measured if threads == 1 else None)
    known = executable.report()
    assert [item.programs[0]["peaks"]["source"] for item in (nominal, known)] == ["nominal", "measured"]
    assert known.programs[0]["peaks"]["flops"] == 1e9
    assert known.programs[0]["predicted_seconds"] > nominal.programs[0]["predicted_seconds"]
    assert "measured peaks" in str(known)


def test_is_the_same_from_the_cache_and_an_artefact(small, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    fresh = stepwell.compile(small)
    fresh.save(tmp_path / "small.stw")
    again, loaded = stepwell.compile(small), stepwell.load(tmp_path / "small.stw")
    assert json.dumps(again.report().record()) == json.dumps(fresh.report().record())
    assert loaded.report().record() == json.loads(json.dumps(fresh.report().record()))


def test_a_damaged_account_is_refused(small, tmp_path):
    from dataclasses import replace

    from stepwell.runtime.report.report import PerformanceReport
    from stepwell.support.errors import ArtefactError

    (program,) = stepwell.compile(small).programs
    with pytest.raises(ArtefactError, match="for its report cannot be read"):
        PerformanceReport.of("small", [replace(program, facts=b"damaged")], (), 1)
    assert PerformanceReport.of("small", [replace(program, facts=b"")], (), 1).kernels


def test_flags_code_that_leaves_the_machine_unused(small):
    from stepwell.runtime import processor

    if "avx2" not in (processor.features() or ()):
        pytest.skip("no machine with wider vectors than the oldest")
    generic = stepwell.compile(small, target="x86-64-v2").report()
    assert [item["kind"] for item in generic.summary] == ["generic"]
    assert "avx2" in generic.summary[0]["message"]
    assert not stepwell.compile(small).report().summary


def test_loading_code_that_leaves_the_machine_unused_warns(small, tmp_path):
    from stepwell.runtime import processor

    if "avx2" not in (processor.features() or ()):
        pytest.skip("no machine with wider vectors than the oldest")
    stepwell.compile(small, target="x86-64-v2").save(tmp_path / "old.stw")
    with pytest.warns(stepwell.SlowWarning, match=r"the code is for x86-64-v2, and does not use .*avx2"):
        stepwell.load(tmp_path / "old.stw")


def test_a_disabled_cache_is_a_warning_unless_requested(small, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE", "0")
    with pytest.warns(stepwell.SlowWarning, match="the cache is turned off"):
        stepwell.compile(small)
    stepwell.compile(small, options=stepwell.Options(cache=False))


def test_flags_kernels_on_single_elements():
    from dataclasses import replace

    from stepwell.runtime.facts import CodeShape
    from stepwell.runtime.report.report import PerformanceReport

    model = _model([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": (1024, 1024)}, {"y": (1024, 1024)})
    (program,) = stepwell.compile(model).programs
    known = program.compile_facts
    scalar = {name: replace(details, code=CodeShape(0, 1.0)) for name, details in known.details.items()}
    changed = replace(program, facts=replace(known, details=scalar).encoded())
    (found,) = PerformanceReport.of("m", [changed], (), 1).summary
    assert found["kind"] == "scalar" and found["share"] == 1.0
    assert "(relu) computes single elements" in found["message"]


def test_flags_nodes_on_the_host():
    nodes = [helper.make_node("Relu", ["x"], ["a"], "relu"), helper.make_node("Det", ["a"], ["y"], "det")]
    model = _model(nodes, {"x": (4, 4)}, {"y": ()})
    executable = stepwell.compile(model, options=stepwell.Options(fallback="quiet"))
    if not executable.fallbacks:
        pytest.skip("all operators of the model have native code")
    report = executable.report()
    assert [item["kind"] for item in report.summary] == ["fallback"]
    assert [item["node"] for item in report.host] == ["det"]
    assert "on the host: det" in str(report)


def test_the_text_names_nodes_and_reasons(small):
    text = str(stepwell.compile(small).report())
    assert "product + relu" in text
    assert "1 node: view (1 Reshape)" in text


def test_the_model_is_valid(small):
    onnx.checker.check_model(small)


def test_estimates_for_a_gpu_use_its_data_sheet(small):
    report = stepwell.compile(small, target="cuda:sm_90a").report()
    (program,) = report.record()["programs"]
    peaks, product = program["peaks"], next(item for item in report.kernels if item["class"] == "contraction")
    assert (peaks["source"], peaks["device"], peaks["threads"]) == ("published", "NVIDIA H100 SXM", 0)
    assert product["predicted_seconds"] == max(product["flops"] / 67e12, product["bytes"] / 3350e9)
    assert product["schedule"] == "contraction" and product["blocks"][0] >= 1 and product["threads"] % 32 == 0
    assert product["serial"] == ""
    text = str(report)
    assert "published peaks of NVIDIA H100 SXM, not measured" in text and "bits  blocks" not in text


def test_tensor_cores_have_rates_of_their_own():
    cuda = CodeTarget("nvptx64-nvidia-cuda", "sm_80", device="cuda")
    peaks = cuda_estimates.peaks_of(cuda)
    info = KernelInfo("k", "contraction", flops=10**12, bytes=1)

    def seconds(schedule, dtype):
        return cuda_estimates.code_of(info, KernelDetails(schedule=schedule), [Operand(dtype, (), "")], [], peaks)[
            "predicted_seconds"
        ]

    assert seconds({"name": "contraction", "compute": "f32"}, "float32") == pytest.approx(1 / 19.5)
    assert seconds({"name": "contraction", "compute": "tf32"}, "float32") == pytest.approx(1 / 156)
    assert seconds({"name": "contraction", "compute": "s8.u8"}, "int8") == pytest.approx(1 / 624)
    assert seconds({"name": "contraction+rows"}, "float16") == pytest.approx(1 / 312)
    assert seconds({"name": "elements"}, "float16") == pytest.approx(1 / 19.5)


@pytest.mark.parametrize("name", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"])
def test_every_gpu_has_a_data_sheet(name):
    peaks = cuda_estimates.peaks_of(CodeTarget("nvptx64-nvidia-cuda", name, device="cuda"))
    assert peaks.rates["float32"] < peaks.rates["tf32"] < peaks.rates["16 bits"] < peaks.rates["8 bits"]


@register
@dataclass(frozen=True)
class _CountCallsPass(Pass):
    """Say how many kernels @main calls."""

    name = "test-count-calls"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Adds a remark."""
        calls = sum(inner.name == "func.call" for inner in walk(op))
        state.found("Count", (), f"{calls} calls", calls=calls)


@pytest.mark.parametrize("phase", ["graph", "tiled"])
def test_a_pass_of_the_caller_adds_remarks(phase):
    model = _model([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": (4,)}, {"y": (4,)})
    options = stepwell.Options(passes=[stepwell.At(phase, _CountCallsPass())], cache=False)
    report = stepwell.compile(model, options=options).report()
    count = int(phase != "graph")
    found = Remark("analysis", "test-count-calls", "Count", (), f"{count} calls", (("calls", count),))
    assert [remark for remark in report.remarks if remark.pass_name == found.pass_name] == [found]
    assert {"kind": "analysis", "pass": found.pass_name}.items() <= report.programs[0]["remarks"][-1].items()
