"""Compiles a random graph at several levels of optimisation, and compares the results with the references."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import stepwell
from mlir import ir
from random_graphs import Graph, Grower, Value
from stepwell.dialects import interpreter
from stepwell.dialects.registry import load_dialects
from stepwell.driver.compile.compilation import Compilation
from stepwell.driver.options import Options
from stepwell.driver.setup import Setup
from stepwell.driver.sources.reading import read_source
from stepwell.runtime import safetensors
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable

PLAIN = tuple(
    f"stepwell-{name}"
    for name in (
        *("cse", "fuse-composites", "fold-batch-norm", "merge-convolutions", "merge-projections", "fold-transposes"),
        *("propagate-transposes", "choose-winograd", "sink-movement"),
    )
)
"""Graph passes that are optional optimisations."""

LEVELS = {"all passes": ("cpu", ()), "AVX2": ("x86-64-v3", ()), "no graph optimisation": ("cpu", PLAIN)}

ERRORS = (stepwell.RuntimeFailure, stepwell.PassError, stepwell.PassFailure, stepwell.CodegenError, stepwell.ModelError)

_ROUNDING = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-9}
_AMPLIFIED = 64
"""Maximum error, as a multiple of the reference's own error in the program's dtypes."""
_SLACK = 4
"""Maximum error, as a multiple of what rounding may cause in an ill-conditioned program, such as 1 / (x - y)."""


class Difference(AssertionError):
    """A level computes a different result; the message names it."""


def run(data: bytes) -> None:
    """Checks the graph of a seed.

    Raises:
        Difference: a level computes a different result, or cannot compile a program that the dialect allows.
    """
    try:
        check(int(data))
    except ERRORS as error:
        raise Difference(f"{type(error).__name__}: {error}") from error


def check(seed: int, levels: dict[str, tuple[str, tuple[str, ...]]] | None = None) -> Graph:
    """Grows the graph of a seed and compares the levels' results with the references.

    Raises:
        Difference: a level computes a different result.
    """
    graph = Grower(seed).grow()
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        module, parameters = graph.module()
        text = module.operation.get_asm(enable_debug_info=True)
        _compare(graph, interpreter.evaluate(module, "main", _inputs(graph), parameters), "the interpreter", text)
    for level, (target, without) in (levels or LEVELS).items():
        _compare(graph, _computed(graph, text, parameters, target, without), level, text)
    return graph


def _inputs(graph: Graph) -> list[np.ndarray]:
    return [graph.values[index].array for index in graph.sources("input")]


def _computed(
    graph: Graph, text: str, parameters: dict[str, np.ndarray], target: str, without: tuple[str, ...]
) -> list[np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.mlir"
        path.write_text(text)
        if parameters:
            path.with_name("parameters.safetensors").write_bytes(b"".join(safetensors.chunks(parameters)))
        source = read_source(path)
        shapes = {f"input{index}": array.shape for index, array in enumerate(_inputs(graph))}
        program = Compilation(Setup(target, Options(codegen_threads=1), left_out=without)).program(source, shapes)
        executable = Executable(CompiledModel(program.inputs, program.outputs, [program]), threads=2)
        outputs = executable(*_inputs(graph))
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def _compare(graph: Graph, arrays: list[np.ndarray], level: str, text: str) -> None:
    for number, (index, array) in enumerate(zip(graph.outputs, arrays, strict=True)):
        problem = difference(graph.values[index], np.asarray(array))
        if problem:
            raise Difference(f"{level}: output {number} {problem}\n{text}")


def difference(wanted: Value, array: np.ndarray) -> str:
    """Returns how an output differs from the expected one; "" if it does not."""
    if array.shape != wanted.array.shape or array.dtype != wanted.array.dtype:
        return f"is {array.dtype}{array.shape}, not {wanted.array.dtype}{wanted.array.shape}"
    if not np.issubdtype(array.dtype, np.floating):
        return "" if np.array_equal(array, wanted.array) else f"differs in {(array != wanted.array).sum()} elements"
    if not array.size:
        return ""
    if wanted.is_exact:
        return "" if np.array_equal(array, wanted.array) else "differs, though nothing in it is rounded"
    own = np.abs(wanted.array - wanted.precise).max()
    allowed = (
        _AMPLIFIED * own + _SLACK * wanted.slack + _ROUNDING[array.dtype.name] * max(1.0, np.abs(wanted.precise).max())
    )
    error = np.abs(array - wanted.precise).max()
    return (
        ""
        if error <= allowed
        else f"is off by {error:.3g}; {allowed:.3g} is allowed, the reference is off by {own:.3g}"
    )
