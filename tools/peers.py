"""The systems that `stepwell-bench` measures side by side: each turns a model into something to call."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from . import arguments
from .flags import UsageError

Call = Callable[[], object]


@dataclass(frozen=True)
class Prepared:
    """A model in one of the systems, ready to be called on given inputs.

    Attributes:
        call: runs it once.
        outputs: runs it once and gives the outputs, in the model's order.
    """

    call: Call
    outputs: Callable[[], list[np.ndarray]]


def stepwell(path: str, threads: int, inputs: Mapping[str, np.ndarray]) -> Prepared:
    """This system."""
    executable = arguments.open_model(path, "cpu", threads)
    executable.prepare({name: array.shape for name, array in inputs.items()})

    def outputs() -> list[np.ndarray]:
        results = executable(**inputs)
        return list(results) if isinstance(results, tuple) else [results]

    return Prepared(lambda: executable(**inputs), outputs)


def onnxruntime(path: str, threads: int, inputs: Mapping[str, np.ndarray]) -> Prepared:
    """ONNX Runtime's CPU provider, its graph optimisation as by default (all of it)."""
    ort = _installed("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = dict(inputs)
    return Prepared(lambda: session.run(None, feed), lambda: [np.asarray(item) for item in session.run(None, feed)])


def openvino(path: str, threads: int, inputs: Mapping[str, np.ndarray]) -> Prepared:
    """OpenVINO's CPU plugin, for latency, in float32 as the others (its default on some machines is bfloat16)."""
    ov = _installed("openvino")
    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    feed = dict(inputs)
    return Prepared(lambda: request.infer(feed), lambda: [np.array(item) for item in request.infer(feed).values()])


def _installed(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"--peers {name}: it is not installed (pip install {name})") from None


PEERS: dict[str, Callable[[str, int, Mapping[str, np.ndarray]], Prepared]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
