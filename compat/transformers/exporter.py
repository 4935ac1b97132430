"""The exporter and the runner that `transformers.exporters` finds as "stepwell" after `register()`."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers.exporters.auto import register_backend
from transformers.exporters.configs import DynamoConfig
from transformers.exporters.exporter_dynamo import DynamoExporter
from transformers.exporters.metadata import ExportMetadata, load_treespec
from transformers.exporters.runners.base import ModelRunner

from ...driver.api import compile
from ...driver.options import Options
from ...support.errors import InputError

FORMAT = "stepwell"


class StepwellConfig(DynamoConfig):
    """The configuration of an export; its fields are those of `DynamoConfig`."""

    export_format = FORMAT  # pyright: ignore[reportAssignmentType]  # an enumeration of the formats of transformers


class StepwellExporter(DynamoExporter):
    """Exports models by `torch.export`; their programs are compiled when they are first run."""

    export_format = FORMAT  # pyright: ignore[reportAssignmentType]  # as above
    config_class = StepwellConfig


class StepwellModelRunner(ModelRunner):
    """Runs an exported program as native code."""

    def __init__(self, run: Any, metadata: ExportMetadata) -> None:
        """Keeps a compiled program, and what the exporter recorded about it."""
        super().__init__(metadata)
        self.executable = run
        assert metadata.in_spec is not None, "the exporter records it"
        self._names = load_treespec(metadata.in_spec).child(1).context

    @property
    def device(self) -> torch.device:
        """The processor."""
        return torch.device("cpu")

    @classmethod
    def from_program(
        cls,
        program: torch.export.ExportedProgram,
        metadata: ExportMetadata,
        device: Any = None,
        options: Options | Mapping[str, Any] | None = None,
    ) -> StepwellModelRunner:
        """Compiles a program.

        Raises:
            InputError: the device is not the CPU.
        """
        if device is not None and torch.device(device).type != "cpu":
            raise InputError(f"the runner computes on the CPU, and was asked for {device}")
        return cls(compile(program, options=options), metadata)

    def __call__(self, share_inputs: bool = True, share_outputs: bool = False, **kwargs: Any) -> Any:
        """Runs the program on the keyword arguments of the traced `forward`; nothing is copied in or out."""
        given = {**self.metadata.in_constants, **kwargs}
        return self.executable(**{name: given[name] for name in self._names if name in given})


def register() -> None:
    """Makes transformers find the exporter and the runner by their format, "stepwell"."""
    register_backend(StepwellExporter, StepwellModelRunner)
