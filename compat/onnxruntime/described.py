"""Descriptions of a session: its model, its options and its devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from ...runtime.executable import Executable
from .devices import CPU_MEMORY, PROVIDER, OrtEpDevice, OrtMemoryInfo
from .options import SessionOptions
from .providers import normalized
from .ranges import Ranged
from .session_model import SessionModel
from .values import ModelMetadata, NodeArg, OrtValue, tensor_of, type_name, type_of

_NO_VERSION = 2**63 - 1
"""Version of a model without one, as in ONNX Runtime (`Model::kNoVersion`)."""


class Session:
    """A session's description of its model; `InferenceSession` runs the model."""

    _sess_options: SessionOptions
    _model: SessionModel
    _executable: Executable | Ranged
    _enable_fallback: bool

    def get_inputs(self) -> list[NodeArg]:
        """Returns the model's inputs."""
        args = {value.name: value for value in self._model.description.graph.input}
        return [self._node_arg(args[info.name], info.dtype) for info in self._executable.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Returns the model's outputs."""
        args = {value.name: value for value in self._model.description.graph.output}
        return [self._node_arg(args[info.name], info.dtype) for info in self._executable.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Returns the initializers that a run may replace."""
        args = {value.name: value for value in self._model.description.graph.input}
        return [self._node_arg(args[name], np.dtype(object)) for name in self._model.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """Returns the metadata of the ONNX file."""
        proto = self._model.description
        return ModelMetadata(
            custom_metadata_map={item.key: item.value for item in proto.metadata_props},
            description=proto.doc_string,
            domain=proto.domain,
            graph_description=proto.graph.doc_string,
            graph_name=proto.graph.name,
            producer_name=proto.producer_name,
            version=proto.model_version if proto.HasField("model_version") else _NO_VERSION,
        )

    def get_session_options(self) -> SessionOptions:
        """Returns the options that the session was opened with."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """Returns the providers that the model runs on."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Returns the options of these providers: none."""
        return self._provider_options

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Ignores every provider other than the CPU's, with a warning.

        Raises:
            ValueError: the providers are neither names nor names with options.
        """
        normalized(providers, provider_options, [PROVIDER])
        self._providers = [PROVIDER]
        self._provider_options: dict[str, dict[str, str]] = {PROVIDER: {}}

    def disable_fallback(self) -> None:
        """Has no effect: there is nothing to fall back to."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Has no effect: there is nothing to fall back to."""
        self._enable_fallback = True

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Returns the memory of each input."""
        return [CPU_MEMORY for _ in self._executable.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Returns the memory of each output."""
        return [CPU_MEMORY for _ in self._executable.outputs]

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """Returns the device that takes each input."""
        return [OrtEpDevice() for _ in self._executable.inputs]

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Returns a value of zeros; see `OrtValue.ortvalue_from_shape_and_type`."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    def set_ep_dynamic_options(self, options: dict[str, str]) -> None:
        """Accepts the options without effect."""

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """Returns the results of tuning at run time: none."""
        return []

    def set_tuning_results(self, results: Sequence[dict[str, Any]], *, error_on_invalid: bool = False) -> None:
        """Accepts the results without effect."""

    def _node_arg(self, value: onnx.ValueInfoProto, dtype: np.dtype) -> NodeArg:
        sizes = self._sess_options.free_dimensions
        denoted = self._sess_options.denoted_dimensions
        shape: list[int | str | None] = [
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else sizes.get(dim.dim_param, denoted.get(dim.denotation, dim.dim_param or None))
            for dim in tensor_of(value.type).shape.dim
        ]
        kind = type_of(value.type) if value.type.WhichOneof("value") else type_name(dtype)
        return NodeArg(value.name, kind, shape)
