"""Large weights that stay in the file: the same model, with little for the parser to read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.frontend.errors import ModelError
from stepwell.frontend.onnx.reading import left_in_file
from stepwell.frontend.onnx.reading.left_in_file import without_weights
from stepwell.frontend.onnx.reading.model import read_model
from stepwell.frontend.onnx.reading.weights import tensor_array


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the limits: weights are large from 64 bytes on, and all files are large."""
    monkeypatch.setattr(left_in_file, "_LEAST_BYTES", 64)
    monkeypatch.setattr("stepwell.driver.sources.reading._LARGE_BYTES", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A product with a large weight and a small bias, in a file."""
    generator = np.random.default_rng(0)
    weight = numpy_helper.from_array(generator.standard_normal((8, 24), np.float32), "weight")
    listed = helper.make_tensor("listed", TensorProto.FLOAT, [24], [float(number) for number in range(24)])
    bias = numpy_helper.from_array(np.ones(1, np.float32), "bias")
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["sum"]),
        helper.make_node("Mul", ["sum", "listed"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(*port) for port in (("x", 1, [2, 8]), ("y", 1, [2, 24]))]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], [weight, listed, bias])
    made = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), made)
    return made


def test_all_but_large_weights_is_parsed(path: Path) -> None:
    whole, less = read_model(path), read_model(path, leaves_weights=True)
    places = [tensor.data_location for tensor in less.initializers]
    # A weight stored as a list of numbers is parsed.
    assert places == [TensorProto.EXTERNAL, TensorProto.DEFAULT, TensorProto.DEFAULT]
    for kept, left in zip(whole.initializers, less.initializers, strict=True):
        assert kept.name == left.name
        np.testing.assert_array_equal(tensor_array(kept, None), tensor_array(left, less.folder))
    del whole.proto.graph.initializer[:], less.proto.graph.initializer[:]
    assert whole.proto == less.proto


def test_the_compiled_model_is_the_same(path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 8), np.float32)
    options = stepwell.Options(cache=False)
    from_file, from_memory = (stepwell.compile(model, options=options)(x) for model in (path, path.read_bytes()))
    np.testing.assert_array_equal(from_file, from_memory)


def test_a_link_to_another_folder_is_read_whole(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "folder" / "model.onnx"
    link.parent.mkdir()
    link.symlink_to(path)
    assert without_weights(link) is None
    assert len(read_model(link, leaves_weights=True).initializers) == 3


def test_a_damaged_file_is_refused(path: Path) -> None:
    data = path.read_bytes()
    for end in range(1, len(data), 7):
        path.write_bytes(data[:end])
        assert (outcome(path, True) is None) == (outcome(path, False) is None)


def test_any_bytes_are_parsed_or_refused(path: Path) -> None:
    data, generator = path.read_bytes(), np.random.default_rng(2)
    for _ in range(200):
        changed = bytearray(data)
        changed[generator.integers(0, 120)] = generator.integers(0, 256)
        path.write_bytes(changed)
        assert (outcome(path, True) is None) == (outcome(path, False) is None)


def outcome(path: Path, leaves_weights: bool) -> list[bytes] | None:
    """Returns the bytes of all weights, or None if the file is refused."""
    try:
        model = read_model(path, leaves_weights)
        return [tensor_array(tensor, model.folder).tobytes() for tensor in model.initializers]
    except ModelError:
        return None
