"""Ranges of sizes that a session is compiled for at once, rather than for each size when a run first has it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from ...runtime.dims_option import read_dims, resolve_dims
from ...runtime.executable import Executable, Outputs
from ...runtime.program import Program, TensorInfo
from ...runtime.sizes import Range
from .options import SessionOptions

ENTRY = "stepwell.dims"
"""The setting of a session that names ranges, as in "n=1:64,m=1:128"."""

VARIABLE = "STEPWELL_DIMS"
"""What names ranges for all sessions that have no such setting."""


class Ranged:
    """A model compiled for ranges, and for each other size when a run first has it."""

    def __init__(self, ranged: Executable, plain: Executable) -> None:
        self.name, self.inputs, self.outputs = ranged.name, ranged.inputs, ranged.outputs
        self.ranges, self.prepare = ranged.ranges, plain.prepare
        self._ranged, self._plain = ranged, plain

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code at hand."""
        return self._ranged.programs + self._plain.programs

    def __call__(self, *args: Any) -> Outputs:
        """Runs the model; see `Executable`."""
        inside = all(_is_inside(info, value, self.ranges) for info, value in zip(self.inputs, args, strict=True))
        return (self._ranged if inside else self._plain)(*args)


def for_ranges(
    plain: Executable, model: Path | bytes | onnx.ModelProto, options: SessionOptions
) -> Executable | Ranged:
    """A model compiled for the ranges of its dimensions that are named; names that it has not are those of others.

    Raises:
        InputError: what is named is no range.
    """
    has_entry = options.has_session_config_entry(ENTRY)
    text = options.get_session_config_entry(ENTRY) if has_entry else os.environ.get(VARIABLE, "")
    varying = {dim for info in plain.inputs for dim in info.shape if isinstance(dim, str)}
    dims = {name: sizes for name, sizes in read_dims([text] if text else []).items() if name in varying}
    if not dims:
        return plain
    missing = sorted(varying - dims.keys() - resolve_dims(dims, plain.inputs).derived.keys())
    if missing:
        reason = f"dimension '{missing[0]}' varies too, and no range is named for it"
        return _warned(plain, reason)
    from ... import Options, compile  # what only imports the drop-in need not load a compiler

    ranged = compile(model, threads=plain.threads, options=Options(dims=dims))
    return _warned(plain, ranged.unranged) if ranged.unranged else Ranged(ranged, plain)


def _is_inside(info: TensorInfo, value: Any, ranges: Mapping[str, Range]) -> bool:
    sizes = zip(info.shape, getattr(value, "shape", ()), strict=False)
    return all(size in ranges[dim] for dim, size in sizes if isinstance(dim, str) and dim in ranges)


def _warned(executable: Executable, reason: str) -> Executable:
    message = f"{executable.name}: each size is compiled by itself, when a run first has it: {reason}"
    warnings.warn(message, stacklevel=6)
    return executable
