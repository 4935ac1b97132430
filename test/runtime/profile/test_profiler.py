"""Profiles: they contain every call of a kernel, figures add up, and viewers can read traces."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import helper
from stepwell.runtime.artefact import linker
from stepwell.runtime.devices.peaks import Peaks
from stepwell.runtime.devices.roofline import machine_of_target
from stepwell.runtime.execution import recorder
from stepwell.runtime.launch_plan import Launch, LaunchPlan
from stepwell.runtime.profile.profiler import instances
from stepwell.runtime.program import KernelInfo

FLOAT = onnx.TensorProto.FLOAT
ROWS, DEPTH = 256, 512


def _model(nodes, inputs, outputs, weights=()):
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "m", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def _value(name, shape):
    return helper.make_tensor_value_info(name, FLOAT, shape)


def _layers(rows=ROWS):
    """Two equal layers, which share a kernel, and a softmax."""
    weight = np.random.default_rng(0).random((DEPTH, DEPTH), np.float32) / DEPTH
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "first_relu"),
        helper.make_node("MatMul", ["b", "w"], ["c"], "second"),
        helper.make_node("Relu", ["c"], ["d"], "second_relu"),
        helper.make_node("Softmax", ["d"], ["y"], "last", axis=-1),
    ]
    return _model(nodes, [_value("x", [rows, DEPTH])], [_value("y", [rows, DEPTH])], [("w", weight)])


def _host_node():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "before"),
        helper.make_node("RandomUniformLike", ["a"], ["i"], "found"),
        helper.make_node("Neg", ["i"], ["y"], "after"),
    ]
    return _model(nodes, [_value("x", [4, 8])], [_value("y", [4, 8])])


def _input(rows=ROWS):
    return np.random.default_rng(1).random((rows, DEPTH), np.float32)


@pytest.fixture(scope="module", params=[1, 2])
def profile(request):
    executable = stepwell.compile(_layers(), threads=request.param)
    return executable.profile({"x": _input()}, calls=5, warmup=1)


def test_every_call_of_a_kernel_is_there(profile) -> None:
    for call in profile.calls:
        ((recording, instances),) = call.programs
        counts = {kernel.name: kernel.calls for kernel in recording.program.kernels}
        found = [instance.kernel.name for instance in instances]
        assert {name: found.count(name) for name in counts} == counts
        for instance in instances:
            blocks = sorted((int(piece[4]), int(piece[5])) for piece in instance.pieces)
            assert all(left[1] <= right[0] for left, right in pairwise(blocks))
            assert recording.start <= instance.start <= instance.end <= recording.end
        assert all(left.end <= right.start for left, right in pairwise(instances))


def test_figures_add_up(profile) -> None:
    record = json.loads(json.dumps(profile.record()))
    seconds = record["seconds"]
    inside = sum(row["seconds"] for row in record["kernels"])
    assert record["schema"] == 1
    assert seconds["call"] == pytest.approx(seconds["kernels"] + seconds["between"] + seconds["host"])
    for key in ("classes", "operators", "nodes"):
        assert sum(row["seconds"] for row in record[key]) == pytest.approx(inside)
    assert {"first", "second", "last"} <= {row["node"] for row in record["nodes"]}
    assert sum(row["nodes"] for row in record["operators"]) == len(record["nodes"])
    assert all(row["operator"] for row in record["nodes"] if row["node"])
    spent = {row["node"]: row["seconds"] for row in record["nodes"]}
    assert spent["first"] > 10 * spent["first_relu"]
    most = next(row for row in record["kernels"] if row["class"] == "contraction")
    assert most["calls"] == 2
    assert most["flops"] >= 2 * ROWS * DEPTH * DEPTH
    assert most["thread_seconds"] <= profile.threads * most["seconds"]


def test_it_prints_tables(profile) -> None:
    text = str(profile)
    assert text.startswith("one call takes ")
    assert f"with {profile.threads} thread" in text
    assert re.search(r"^contraction +[\d.]+ [mu]s +[\d.]+ %$", text, re.MULTILINE)
    assert re.search(r"^\w+ +contraction .+ first \(MatMul\) and 3 more$", text, re.MULTILINE)


def test_traces_are_what_viewers_read(profile, tmp_path: Path) -> None:
    profile.save(tmp_path / "out.json")
    trace = json.loads((tmp_path / "out.json").read_text())
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert trace["stepwell"]["schema"] == 1
    assert names[0] == "calling thread"
    assert all(event["tid"] in names and event["ts"] >= 0 and event["dur"] >= 0 for event in events)
    assert {event["cat"] for event in events} == {"call", "program", "kernel"}
    for tid in names:
        _check_nesting([event for event in events if event["tid"] == tid])


def _check_nesting(events) -> None:
    ends: list[float] = []
    for event in sorted(events, key=lambda item: (item["ts"], -item["dur"])):
        while ends and ends[-1] <= event["ts"] + 1e-3:
            ends.pop()
        assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-3
        ends.append(event["ts"] + event["dur"])


def test_both_sites_of_a_kernel_are_told_apart(profile) -> None:
    ((_, instances),) = profile.calls[0].programs
    names = [instance.kernel.sites[instance.site][0][0] for instance in instances]
    assert names.index("first") < names.index("second")


def test_outputs_and_code_stay_what_they_were() -> None:
    executable = stepwell.compile(_layers())
    before, objects = executable(_input()), dict(executable.programs[0].objects)
    executable.profile({"x": _input()}, calls=1, warmup=0)
    assert np.array_equal(before, executable(_input()))
    assert executable.programs[0].objects == objects


def test_artefacts_can_be_profiled(tmp_path: Path, monkeypatch) -> None:
    executable = stepwell.compile(_layers())
    executable.save(tmp_path / "linked.stw")
    monkeypatch.setattr(linker, "link", lambda objects, target: None)
    executable.save(tmp_path / "objects.stw")
    for name in ("linked.stw", "objects.stw"):
        record = stepwell.load(tmp_path / name).profile({"x": _input()}, calls=2).record()
        assert {row["class"] for row in record["classes"]} == {"contraction", "reduction"}


def test_nodes_on_the_host_have_their_time() -> None:
    executable = stepwell.compile(_host_node(), options=stepwell.Options(fallback="quiet"))
    x = np.arange(32, dtype=np.float32).reshape(4, 8) - 8
    profile = executable.profile({"x": x}, calls=3)
    record = profile.record()
    assert [row["node"] for row in record["host"]] == ["found"]
    assert 0 < record["seconds"]["host"] < record["seconds"]["call"]
    assert any(event.get("cat") == "host" for event in profile.trace()["traceEvents"])


@pytest.mark.sweep
def test_ranges_of_sizes_have_times_but_no_rates() -> None:
    options = stepwell.Options(dims={"n": (1, 64)})
    executable = stepwell.compile(_layers("n"), options=options)
    record = executable.profile({"x": _input(48)}, calls=2).record()
    assert record["seconds"]["kernels"] > 0
    assert all(row["flops"] is None and row["gflops_per_second"] is None for row in record["kernels"])


def test_a_profile_of_no_calls_is_refused() -> None:
    with pytest.raises(ValueError, match="calls is 0 and warmup is 3: they must be at least 1 and 0"):
        stepwell.compile(_layers()).profile({"x": _input()}, calls=0)


def test_more_rows_than_there_is_room_for_at_first(monkeypatch) -> None:
    monkeypatch.setattr(recorder, "_ROOM", 1)
    profile = stepwell.compile(_layers(), threads=1).profile({"x": _input()}, calls=2, warmup=0)
    assert all(len(instances) == 3 for call in profile.calls for _, instances in call.programs)


def test_shares_of_the_roofline(profile) -> None:
    peaks = Peaks(profile.threads, 1e11, [(1.0, 1e10), (1e9, 1e10)], [(1.0, 1e10), (1e9, 1e10)])
    record = profile.beside(peaks).record()
    for row in record["kernels"]:
        least = row["calls"] * max(row["flops"] / 1e11, row["bytes"] / 1e10)
        assert row["roofline"] == pytest.approx(least / row["seconds"])
    assert all(row["roofline"] is None for row in profile.record()["kernels"])
    assert Peaks.of(json.loads(json.dumps(record["peaks"]))).flops == 1e11


def test_products_of_bytes_are_compared_with_their_own_peak() -> None:
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"], "product")]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [32, 64])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [32, 48])
    model = _model(nodes, [x], [y], [("w", np.ones((64, 48), np.int8))])
    executable = stepwell.compile(model, threads=1)
    profile = executable.profile({"x": np.ones((32, 64), np.uint8)}, calls=2)
    flat = [(1.0, 1e15), (1e9, 1e15)]
    record = profile.beside(Peaks(profile.threads, 1e11, flat, flat)).record()
    (row,) = (row for row in record["kernels"] if row["class"] == "contraction")
    (program,) = executable.programs
    rate = machine_of_target(program.target, program.compile_facts.vector_bytes).relative_rate("i8")
    assert row["roofline"] == pytest.approx(row["calls"] * row["flops"] / rate / 1e11 / row["seconds"])


def test_loops_make_more_calls_than_there_are_in_the_code() -> None:
    item = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [])
    go = [helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, []) for name in ("go_in", "go")]
    body = helper.make_graph(
        [
            helper.make_node("Softmax", ["s"], ["p"], "inner", axis=-1),
            helper.make_node("Identity", ["go_in"], ["go"], "again"),
        ],
        "body",
        [item, go[0], _value("s", [8, 64])],
        [go[1], _value("p", [8, 64])],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)]
    model = _model(nodes, [_value("x", [8, 64])], [_value("y", [8, 64])], [("n", np.array(7))])
    record = stepwell.compile(model).profile({"x": np.ones((8, 64), np.float32)}, calls=2).record()
    assert max(row["calls"] for row in record["kernels"]) == 7
    assert sum(row["seconds"] for row in record["nodes"]) == pytest.approx(record["seconds"]["kernels"])


@pytest.mark.sweep
def test_launches_on_gpus_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    executable = stepwell.compile(_layers(4), target="cuda:sm_80")
    (program,) = executable.programs
    record = executable.profile({"x": _input(4)}, calls=1, warmup=0).record()
    called = {row["kernel"]: row["calls"] for row in record["kernels"]}
    assert called == {kernel.name: kernel.calls for kernel in program.kernels}
    assert all(row["seconds"] > 0 for row in record["kernels"])
    assert {row["node"] for row in record["nodes"]} >= {"first", "second", "last"}


def test_a_kernel_of_several_launches_takes_as_long_as_all() -> None:
    launches = [
        Launch((1, 1, 1), (32, 1, 1), module="m", entry=entry, arguments=(), kernel="k")
        for entry in ("a", "b", "a", "b")
    ]
    (program,) = stepwell.compile(_layers(16)).programs
    kernel = KernelInfo("k", "reduction", calls=2, blocks=1)
    program = replace(program, kernels=(kernel,), launches=LaunchPlan(tuple(launches), 0))
    recording = recorder.CallRecorder()
    recording.note_steps(program, 100, [1e-9, 2e-9, 3e-9, 4e-9])
    (taken,) = recording.recordings
    assert [(item.start, item.end) for item in instances(taken)] == [(100, 103), (103, 110)]


def test_a_fused_kernel_is_named_for_its_convolution():
    random = np.random.default_rng(0)
    channels = 32
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["e"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["e", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], "norm"),
        helper.make_node("Add", ["n", "e"], ["d"], "residual"),
        helper.make_node("Relu", ["d"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w"], ["y"], "last", pads=[1, 1, 1, 1]),
    ]
    weights = [("w", random.random((channels, channels, 3, 3), np.float32) - 0.5)]
    weights += [(name, np.full(channels, 0.5, np.float32)) for name in "sbmv"]
    shape = [1, channels, 28, 28]
    model = stepwell.compile(_model(nodes, [_value("x", shape)], [_value("y", shape)], weights))
    made = model.profile({"x": random.random(shape, np.float32)}, calls=3)
    record = made.record()
    fused = next(row for row in record["kernels"] if "relu" in row["nodes"])
    assert (fused["node"], fused["operator"]) == ("conv", "Conv")
    assert fused["nodes"] == ["conv", "norm", "residual", "relu"]
    assert {row["node"] for row in record["nodes"]} == {"stem", "conv", "residual", "relu", "last"}
    assert record["operators"][0]["operator"] == "Conv"
    events = {
        event["args"]["kernel"]: event["name"]
        for event in made.trace()["traceEvents"]
        if "dur" in event and event["cat"] == "kernel"
    }
    assert events[fused["kernel"]] == f"conv ({fused['class']})"


def test_a_border_in_place_moves_no_more_than_it_writes():
    """The operands of a padded concatenation are written in place; a separate kernel writes only the border."""
    channels, size = 32, 56
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "left"),
        helper.make_node("Conv", ["a", "w"], ["c"], "right", pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["b", "c"], ["d"], "both", axis=1),
        helper.make_node("Pad", ["d", "p"], ["e"], "border"),
        helper.make_node("MaxPool", ["e"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    random = np.random.default_rng(0)
    weights = [("w", random.random((channels, channels, 3, 3), np.float32)), ("p", np.array([0, 0, 1, 1, 0, 0, 1, 1]))]
    shape = [1, channels, size, size]
    model = stepwell.compile(_model(nodes, [_value("x", shape)], [_value("y", [1, 64, 28, 28])], weights), threads=1)
    border = next(kernel for kernel in model.programs[0].kernels if kernel.ops[:1] == ("border",))
    assert border.bytes == 4 * 2 * channels * ((size + 2) ** 2 - size**2)
    row = next(row for row in model.report().kernels if row["name"] == border.name)
    assert row["bytes"] == border.bytes
