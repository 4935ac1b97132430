"""The session's inner object, which programs access as `InferenceSession._sess`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .binding import SessionIOBinding
from .running import RunningSession
from .values import ModelMetadata, NodeArg, OrtValue, OrtValueVector


class InnerSession:
    """A session that takes and returns the inner classes of bindings and values."""

    def __init__(self, session: RunningSession) -> None:
        self._session = session

    @property
    def inputs_meta(self) -> list[NodeArg]:
        """The model's inputs."""
        return self._session.get_inputs()

    @property
    def outputs_meta(self) -> list[NodeArg]:
        """The model's outputs."""
        return self._session.get_outputs()

    @property
    def model_meta(self) -> ModelMetadata:
        """The metadata of the ONNX file."""
        return self._session.get_modelmeta()

    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """Runs the model."""
        return self._session.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self, input_feed: Mapping[str, OrtValue], output_names: Sequence[str], run_options: Any = None
    ) -> OrtValueVector:
        """Runs the model with `OrtValue`s as inputs and outputs."""
        return OrtValueVector(self._session.run_with_ort_values(output_names, input_feed, run_options))

    def run_with_iobinding(self, iobinding: SessionIOBinding, run_options: Any = None) -> None:
        """Runs the model on the bound values."""
        iobinding.run(run_options)
