"""What is needed to see a fault again: a folder with the IR before the pass, what goes in, what should come out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...frontend.mlir_text import PARAMETERS
from ...passes.options import PipelineError
from ...passes.pipeline import Pipeline
from ...passes.reproducer import Reproducer
from ...runtime import safetensors
from .result import Fault


def write(fault: Fault, folder: Path) -> str:
    """Writes a reproducer; returns the command that shows the fault again.

    Args:
        fault: what was found.
        folder: where to write; made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fault.reproducer = str(folder)
    if fault.before is None:
        np.savez(folder / "inputs.npz", allow_pickle=False, **fault.inputs)
        return ""
    text = str(fault.before.get_asm(enable_debug_info=True))
    try:
        text = Reproducer(Pipeline([fault.pass_name])).print(text)
    except PipelineError:
        text = f"{text}\n"  # what did it is no pass
    (folder / "before.mlir").write_text(text, encoding="utf-8")
    if fault.after is not None:
        (folder / "after.mlir").write_text(str(fault.after.get_asm(enable_debug_info=True)), encoding="utf-8")
    if fault.parameters:
        (folder / PARAMETERS).write_bytes(b"".join(safetensors.chunks(fault.parameters)))
    np.savez(folder / "inputs.npz", allow_pickle=False, **fault.inputs)
    np.savez(folder / "expected.npz", allow_pickle=False, **fault.expected)
    command = f"stepwell-bisect {folder / 'before.mlir'} --inputs {folder / 'inputs.npz'}"
    (folder / "command.txt").write_text(f"{command}\n", encoding="utf-8")
    return command
