"""What programs reach as `InferenceSession._sess`: the session by the names that its own module gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .binding import SessionIOBinding
from .values import ModelMetadata, NodeArg, OrtValue, OrtValueVector

if TYPE_CHECKING:
    from .session import InferenceSession


class InnerSession:
    """A session whose binding and values are the inner ones."""

    def __init__(self, session: InferenceSession) -> None:
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
        """What the ONNX file says of itself."""
        return self._session.get_modelmeta()

    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """Runs the model."""
        return self._session.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self, input_feed: Mapping[str, OrtValue], output_names: Sequence[str], run_options: Any = None
    ) -> OrtValueVector:
        """Runs the model from and to values."""
        return OrtValueVector(self._session.run_with_ort_values(output_names, input_feed, run_options))

    def run_with_iobinding(self, iobinding: SessionIOBinding, run_options: Any = None) -> None:
        """Runs the model on what is bound."""
        iobinding.run(run_options)
