"""Writes a reproducer of a fault: a folder with the IR before the pass, its inputs, and the expected outputs."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...frontend.mlir_text import PARAMETERS
from ...passes.infra.options import PipelineError
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.reproducer import Reproducer
from ...runtime import safetensors
from .result import Fault

BEFORE, AFTER, INPUTS, EXPECTED, COMMAND = "before.mlir", "after.mlir", "inputs.npz", "expected.npz", "command.txt"
FILES = (BEFORE, AFTER, INPUTS, EXPECTED, PARAMETERS, COMMAND)
_COMMENT = "// Written by stepwell-bisect.\n"

Save = Callable[[Path, bytes], object]
"""Writes bytes to a file."""


def write(fault: Fault, folder: Path, save: Save = Path.write_bytes, more: Sequence[str] = ()) -> str:
    """Writes a reproducer; returns the command that shows the fault again.

    Args:
        fault: the fault.
        folder: the folder of the reproducer; created if needed.
        save: writes each of the files, which are some of `FILES`.
        more: further arguments of the command.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fault.reproducer = str(folder)
    save(folder / INPUTS, _arrays(fault.inputs))
    if fault.before is None:
        return ""
    text = str(fault.before.get_asm(enable_debug_info=True))
    try:
        text = Reproducer(Pipeline([fault.pass_name])).print(text)
    except PipelineError:
        text = f"{text}\n"  # the cause is not a pass
    save(folder / BEFORE, f"{_COMMENT}{text}".encode())
    if fault.after is not None:
        save(folder / AFTER, f"{_COMMENT}{fault.after.get_asm(enable_debug_info=True)}".encode())
    if fault.parameters:
        save(folder / PARAMETERS, b"".join(safetensors.chunks(fault.parameters, {"made_by": "stepwell"})))
    save(folder / EXPECTED, _arrays(fault.expected))
    command = shlex.join(["stepwell-bisect", str(folder / BEFORE), "--inputs", str(folder / INPUTS), *more])
    save(folder / COMMAND, f"{command}\n".encode())
    return command


def _arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
