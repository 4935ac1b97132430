"""The same model gives the same bytes: in every process, whatever the order of hashing and the number of threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

_COMPILE = """
import sys, stepwell
path, output, threads, cache = sys.argv[1:]
options = stepwell.Options(codegen_threads=int(threads), cache=cache == "cached")
stepwell.compile(path, threads=int(threads), options=options).save(output)
"""
_WAYS = [("0", "1", "none"), ("1", "2", "none"), ("2", "2", "cached"), ("3", "1", "cached")]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model large enough for its kernels to be compiled in several processes."""
    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer in range(24):
        width = 8 + layer % 5
        before = 8 + (layer - 1) % 5 if layer else 4
        weights.append(numpy_helper.from_array(random.random((before, width), np.float32), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Softmax" if layer % 3 else "Tanh", [f"m{layer}"], [f"s{layer}"]))
        nodes.append(helper.make_node("ReduceMean", [f"s{layer}"], [f"r{layer}"], keepdims=1))
        nodes.append(helper.make_node("Sub", [f"s{layer}", f"r{layer}"], [f"v{layer}"]))
        value = f"v{layer}"
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])]
    outputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "graph", ports, outputs, weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.sweep
def test_artefacts_are_the_same_to_the_byte(model: Path, tmp_path: Path) -> None:
    digests = {}
    for seed, threads, cache in _WAYS:
        output = tmp_path / f"{seed}.stw"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "STEPWELL_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-c", _COMPILE, str(model), str(output), threads, cache]
        subprocess.run(command, env=environment, check=True)
        digests[seed, threads, cache] = hashlib.sha256(output.read_bytes()).hexdigest()
    assert len(set(digests.values())) == 1, digests
