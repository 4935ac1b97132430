"""Compiles a random graph once for ranges of sizes, and compares its results at several sizes with the references."""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import stepwell
from graph_target import ERRORS, Difference, difference
from mlir import ir
from random_ranges import RangedGrower, RangedValue, WrongShape
from stepwell.dialects.registry import load_dialects
from stepwell.runtime import safetensors
from stepwell.sizes.substitution import names_of


class Refused(stepwell.StepwellError):
    """A graph has no program for ranges of sizes.

    Attributes:
        why: the reason without the names and numbers in it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        name = re.match(r"'(stepwell\.\w+)' op", reason)
        rest = re.sub(r"[-\w.+*/%() ,]*\b[nm]\b[-\w.+*/%() ,]*|\d+", "..", reason.partition(" op: ")[2] or reason)
        self.why = f"{name.group(1) if name else ''} {rest[:90]}"


def run(data: bytes) -> None:
    """Checks the graph of a seed.

    Raises:
        Difference: a result differs, or the graph does not compile.
        Refused: it has no program for ranges.
    """
    try:
        check(int(data))
    except Refused:
        raise
    except (*ERRORS, WrongShape) as error:
        raise Difference(f"{type(error).__name__}: {error}") from error


def check(seed: int) -> None:
    """Grows the graph of a seed and compares its results at each size with the references.

    Raises:
        Difference: a result differs.
        Refused: the graph has no program for ranges.
    """
    grower = RangedGrower(seed)
    graph = grower.grow()
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        module, parameters = grower.module()
        text = module.operation.get_asm(enable_debug_info=True)
    names = {str(name) for index in graph.sources("input") for name in _names(graph.values[index])}
    if not names:
        return
    given = {name: (item.low, item.high, item.step) for name, item in grower.ranges.items() if name in names}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "graph.mlir"
        path.write_text(text)
        if parameters:
            path.with_name("parameters.safetensors").write_bytes(b"".join(safetensors.chunks(parameters)))
        options = stepwell.Options(dims=given, cache=False, codegen_threads=1, fallback="error")
        executable = stepwell.compile(path, threads=1, options=options)
    if executable.unranged:
        raise Refused(executable.unranged)
    for place, sizes in enumerate(grower.sizes):
        outputs = executable(*(_value(graph.values[index]).at[place].array for index in graph.sources("input")))
        arrays = list(outputs) if isinstance(outputs, tuple) else [outputs]
        for number, (index, array) in enumerate(zip(graph.outputs, arrays, strict=True)):
            problem = difference(_value(graph.values[index]).at[place], np.asarray(array))
            if problem:
                raise Difference(f"at {sizes} of {grower.ranges}: output {number} {problem}\n{text}")


def _value(value: object) -> RangedValue:
    assert isinstance(value, RangedValue)
    return value


def _names(value: object) -> set[str]:
    return {name for dim in _value(value).dims for name in names_of(dim)}
