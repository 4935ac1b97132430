"""Interface of a session for the objects that belong to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .values import ModelMetadata, NodeArg, OrtValue


class RunningSession(Protocol):
    """A loaded model; see `InferenceSession`."""

    def get_inputs(self) -> list[NodeArg]:
        """Returns the model's inputs."""
        ...

    def get_outputs(self) -> list[NodeArg]:
        """Returns the model's outputs."""
        ...

    def get_modelmeta(self) -> ModelMetadata:
        """Returns the metadata of the ONNX file."""
        ...

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> list:
        """Runs the model."""
        ...

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: Any = None
    ) -> list[OrtValue]:
        """Runs the model with `OrtValue`s as inputs and outputs."""
        ...
