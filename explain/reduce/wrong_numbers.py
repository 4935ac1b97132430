"""Tests for outputs that differ from those of a reference, and for the cause of the difference."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...driver.sources.onnx import OnnxSource
from ...runtime.native import poison
from ..bisect.model import Bisector
from ..bisect.result import Fault
from . import onnx_values
from .case import Case, ReduceError
from .failure import FailureSignature
from .observe import CompileTest, failure_of, names_of, plugin_words


@dataclass(frozen=True)
class NumbersTest:
    """Tests whether the outputs differ from those of a reference, identified by the pass, rewrite or op at fault.

    Attributes:
        compiling: compiles the case.
        reference: "onnxruntime", or "numpy": ONNX's own evaluator.
        rtol: tolerance of each element, relative to the largest value of its output.
        seed: seed of the inputs' contents.
        options: the `--input` options that `given` comes from.
        given: contents of inputs, by name; used as long as the case has such an input of that type and shape.
    """

    compiling: CompileTest
    reference: str = "onnxruntime"
    rtol: float = 1e-2
    seed: int = 0
    options: tuple[str, ...] = ()
    given: Mapping[str, np.ndarray] = field(default_factory=dict)

    def observe(self, case: Case, note: Callable[[str], None]) -> list[FailureSignature]:
        """See `Test`."""
        inputs = self._inputs(case)
        if inputs is None:
            return []
        try:
            expected = onnx_values.run_reference(case.data, inputs, self.reference)
        except ReduceError:  # `check_reference` reports it for the first case; another one may be an invalid model
            return []
        if not all(map(_is_finite, expected)):
            return []
        try:
            with poison.filled_with(poison.PATTERNS[0]):  # unwritten memory gives the same wrong values in every run
                results = self.compiling.compiled(case, note).outputs_for(inputs)
            worst = max(map(_distance, results, expected), default=0.0)
            if worst <= self.rtol:
                return []
            note("bisecting")
            blamed = self.blamed(case, inputs)
        except Exception as error:  # the failure of this case, whatever its type
            return [failure_of(error, names_of(case))]
        return [FailureSignature("numbers", blamed, f"outputs differ by {worst:.3g} of the largest value", "differ")]

    def check_reference(self, case: Case) -> None:
        """Checks that the reference runs a case: without its outputs, no case fails.

        Raises:
            ReduceError: it does not.
        """
        if (inputs := self._inputs(case)) is not None:
            onnx_values.run_reference(case.data, inputs, self.reference)

    def _inputs(self, case: Case) -> dict[str, np.ndarray] | None:
        """Returns the given contents of the inputs, and made-up ones of the others; None if one is not a tensor."""
        inputs = onnx_values.made_up_inputs(case, self.seed)
        if inputs is None:
            return None
        return inputs | {
            name: array
            for name, array in self.given.items()
            if name in inputs and (array.shape, array.dtype) == (inputs[name].shape, inputs[name].dtype)
        }

    def blamed(self, case: Case, inputs: Mapping[str, np.ndarray]) -> str:
        """Returns the cause of wrong numbers, as far as a bisection finds it: see `stepwell-bisect`."""
        compiling = self.compiling
        dims = compiling.dims_of(case)
        bisector = Bisector(compiling.target, self.reference, self.rtol, compiling.winograd, dims=dims)
        fault = bisector.bisect(OnnxSource(case.data), inputs).fault
        return "the whole program" if fault is None else blame_of(fault)

    def command(self, path: str, case: Case) -> str:
        """See `Test`."""
        words = ["stepwell-reduce", path, "--once", "--wrong-numbers", f"--reference={self.reference}"]
        words += [f"--rtol={self.rtol:g}", f"--seed={self.seed}", *(f"--input={text}" for text in self.options)]
        words += [] if self.compiling.winograd else ["--no-winograd"]
        words += [f"--shape={name}={'x'.join(map(str, shape))}" for name, shape in case.shapes.items()]
        words += self.compiling.dims_words(case) + plugin_words(self.compiling.plugins)
        return shlex.join(words)


def blame_of(fault: Fault) -> str:
    """Describes a fault independently of the model's size: by its pass and rewrite, or else the operator."""
    if not fault.pass_name:
        return f"{fault.level} of {fault.op_type}" if fault.op_type else fault.level
    return f"pass '{fault.pass_name}'" + (f", {fault.pattern}" if fault.pattern else "")


def _is_finite(array: Any) -> bool:
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    return kind in "biu" or (kind == "f" and bool(np.isfinite(array).all()))


def _distance(array: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest value."""
    if array.shape != expected.shape:
        return float("inf")
    left, right = array.astype(np.float64), expected.astype(np.float64)
    if not left.size:
        return 0.0
    if not np.isfinite(left).all():
        return float("inf")
    return float(np.abs(left - right).max() / max(np.abs(right).max(), 1e-6))
