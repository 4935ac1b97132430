"""A node on the host: run by ONNX's reference implementation of its operator, or by ours if ONNX has none."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...support.errors import CapacityError, RuntimeFailure
from .operators import direct_node
from .suppression import suppress


class HostStepError(RuntimeFailure):
    """A node could not be run on the host."""


class HostNode:
    """A node with all its data. Calls may come from any number of threads at once."""

    def __init__(self, model: bytes, name: str) -> None:
        """Stores a node; nothing is imported for it before it runs.

        Args:
            model: an ONNX model of the node alone.
            name: the node's name in messages.
        """
        self._model, self._name = model, name
        self._idle: list[Any] = []

    def check(self) -> None:
        """Checks that the node has an implementation.

        Raises:
            HostStepError: it has none, or ONNX is not installed.
        """
        self._idle.append(self._evaluator())

    def run(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """Computes the node's outputs.

        Raises:
            HostStepError: the implementation rejects the inputs, or ONNX is not installed.
            CapacityError: the node needs more memory than is available.
        """
        try:
            evaluator = self._idle.pop()
        except IndexError:
            evaluator = self._evaluator()
        try:
            with np.errstate(all="ignore"):
                results = evaluator.run(None, dict(values))
        except MemoryError as error:
            raise CapacityError(f"{self._name} needs more memory than is available: {error}") from error
        except Exception as error:  # implementations raise any type
            causes = f"{error.__cause__}: " if error.__cause__ is not None else ""
            raise HostStepError(f"{self._name} failed on the host: {causes}{error}") from error
        finally:
            self._idle.append(evaluator)
        return [_normal(result) for result in results]

    def _evaluator(self) -> Any:
        try:
            import onnx
            from onnx.reference import ReferenceEvaluator
        except ImportError as error:
            raise HostStepError(
                f"{self._name} runs on the host through the package onnx, which is not installed: pip install onnx"
            ) from error
        try:
            model = onnx.load_model_from_string(self._model)
            direct = direct_node(model)
            return direct or ReferenceEvaluator(model, new_ops=[_optional(), _non_max_suppression()])
        except Exception as error:  # the evaluator raises any type
            raise HostStepError(f"{self._name} has no implementation for the host: {error}") from error


@functools.cache
def _optional() -> type:
    """Returns Optional as other operators expect it: the value or None; the reference implementation returns a list."""
    from onnx.reference.op_run import OpRun

    class Optional(OpRun):
        def _run(self, value: Any = None, type: Any = None) -> tuple[Any, ...]:
            return (value,)

        def _check_and_fix_outputs(self, res: tuple[Any, ...]) -> tuple[Any, ...]:
            return res

    return Optional


@functools.cache
def _non_max_suppression() -> type:
    """Returns NonMaxSuppression on whole arrays; the reference implementation compares boxes one by one in Python."""
    from onnx.reference.op_run import OpRun

    class NonMaxSuppression(OpRun):
        def _run(
            self,
            boxes: np.ndarray,
            scores: np.ndarray,
            most: np.ndarray | None = None,
            overlap: np.ndarray | None = None,
            least: np.ndarray | None = None,
            center_point_box: int = 0,
        ) -> tuple[np.ndarray]:
            count = 0 if most is None else int(most.reshape(-1)[0])
            share, bound = (
                default if value is None else float(value.reshape(-1)[0])
                for value, default in ((overlap, 0.0), (least, -np.inf))
            )
            return (suppress(boxes, scores, count, share, bound, bool(center_point_box)),)

    return NonMaxSuppression


def _normal(value: Any) -> Any:
    """Returns a value in the form that native code and users expect: dense arrays, strings as Python objects."""
    if isinstance(value, list | tuple):
        return value if value and isinstance(value[0], dict) else [_normal(item) for item in value]
    if value is None or isinstance(value, dict):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return array.astype(object)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else np.array(array, order="C")
