"""IR at the phases of a compile: `--compile-to` stops at one, `--dump-phases` writes all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..runtime import safetensors
from ..support.errors import StepwellError
from .flags import UsageError
from .outputs import IR, PARAMETERS, OutputFile, Outputs

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir


PARAMETERS_FILE = "parameters.safetensors"


class StoppedAtPhase(StepwellError):
    """Raised when the requested phase is reached; `text` is the module there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


@dataclass
class PhaseWatcher:
    """Called at the end of each phase: writes its IR, and stops at the requested phase."""

    start: str | None
    stop: str | None
    dump: PhaseDump | None
    kernel: str | None = None
    has_ranges: bool = False
    _seen: list[str] = field(default_factory=list)

    def __call__(self, phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        """Called by the compiler at the end of each phase."""
        if not self._seen:
            phase = _declared_phase(module) or phase
            if self.start not in (None, phase):
                raise UsageError(f"--compile-from={self.start}: the module is in phase {phase}")
        self._seen.append(phase)
        if self.dump is not None:
            if self.has_ranges and self._seen.count("import") > 1 and phase == "import":
                self.dump.begin(self._seen.count("import"))
            self.dump.files[phase].write_text(_text(module, phase))
            stored = safetensors.chunks(parameters, {"made_by": "stepwell"})
            self.dump.files[PARAMETERS_FILE].write_bytes(b"".join(stored))
        if phase == self.stop:
            raise StoppedAtPhase(
                _text(module, phase) if self.kernel is None else _kernel_text(module, self.kernel, phase)
            )


class PhaseDump:
    """The files of `--dump-phases`.

    Attributes:
        files: the files of the current module by phase, and that of its parameters.
    """

    def __init__(self, outputs: Outputs, folder: Path, phases: Sequence[str]) -> None:
        self._outputs, self._folder, self._phases = outputs, folder, phases
        self.files: dict[str, OutputFile] = {}

    def begin(self, number: int) -> None:
        """Claims the files of a module by its number; each module but the first, of another range, has a folder."""
        folder = self._folder if number == 1 else self._folder / f"range-{number}"
        self.files = {
            phase: self._outputs.claim("--dump-phases", folder / f"{index}-{phase}.mlir", IR)
            for index, phase in enumerate(self._phases)
        }
        self.files[PARAMETERS_FILE] = self._outputs.claim("--dump-phases", folder / PARAMETERS_FILE, PARAMETERS)
        folder.mkdir(parents=True, exist_ok=True)


def _kernel_text(module: ir.Module, kernel: str, phase: str) -> str:
    from ..driver.substitution import isolate

    return isolate(module, kernel, phase)


def _declared_phase(module: ir.Module) -> str | None:
    from ..dialects import discardable

    return discardable.PHASE.read(module.operation)


def _text(module: ir.Module, phase: str) -> str:
    """Prints the module with its phase and the model's nodes as locations, so that it can be fed back."""
    from ..dialects import discardable

    with module.context:
        discardable.PHASE.write(module.operation, phase)
    text = str(module.operation.get_asm(enable_debug_info=True))
    discardable.PHASE.remove(module.operation)
    return text
