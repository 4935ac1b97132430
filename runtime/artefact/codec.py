"""One encoding of programs and tensors as JSON, for the cache and for artefacts.

Code and arrays are not part of a record: the cache stores them under their digests, an artefact as its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from ...sizes.bounds import Bounds, decode_bounds, encode_bounds
from ...sizes.expressions import evaluate
from ...sizes.layouts import Appended
from ..launch_plan import LaunchPlan
from ..program import ENTRY, ArenaBuffer, CodeTarget, Count, KernelInfo, TensorInfo
from ..safetensors import dtype_of

SCHEMA = 11
"""Version of the records. A reader accepts no other version."""
_HOST_DTYPES = ("object", "complex64", "complex128")


class Described(Protocol):
    """The fields of a program that its record holds: all but its code and arrays."""

    @property
    def inputs(self) -> Sequence[TensorInfo]: ...
    @property
    def outputs(self) -> Sequence[TensorInfo]: ...
    @property
    def arena_bytes(self) -> int: ...
    @property
    def target(self) -> CodeTarget: ...
    @property
    def kernels(self) -> Sequence[KernelInfo]: ...
    @property
    def uses_threads(self) -> bool: ...
    @property
    def is_short(self) -> bool: ...
    @property
    def guards(self) -> Sequence[str]: ...
    @property
    def counts(self) -> Sequence[Count]: ...
    @property
    def bounds(self) -> Bounds | None: ...
    @property
    def buffers(self) -> Sequence[ArenaBuffer]: ...
    @property
    def launches(self) -> LaunchPlan | None: ...
    @property
    def appended(self) -> Sequence[Appended]: ...


def encode_program(program: Described) -> dict[str, Any]:
    """Returns the record of a program, without its code and arrays."""
    return {
        "entry": ENTRY,
        "target": asdict(program.target),
        "inputs": encode_tensors(program.inputs),
        "outputs": encode_tensors(program.outputs),
        "arena_bytes": program.arena_bytes,
        "uses_threads": program.uses_threads,
        "is_short": program.is_short,
        "guards": list(program.guards),
        "counts": [list(count.cropped) for count in program.counts],
        "bounds": encode_bounds(program.bounds),
        "buffers": list(program.buffers),
        "launches": None if program.launches is None else program.launches.record(),
        "kernels": [asdict(kernel) for kernel in program.kernels],
        "appended": [item.record() for item in program.appended],
    }


def decode_program(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the checked fields of a program by name, from its record.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the record is not one of `encode_program`.
    """
    if record["entry"] != ENTRY:
        raise ValueError(f"unknown entry {record['entry']!r}")
    target = record["target"]
    inputs, outputs = decode_tensors(record["inputs"]), decode_tensors(record["outputs"])
    if not all(info.is_static for info in (*inputs, *outputs)):
        raise ValueError("a program's shapes must be numbers")
    bounds = _decode_bounds(record["bounds"], len(inputs), outputs)
    ranks, entries = [len(info.shape) for info in inputs[:-1]], len(bounds.table) if bounds is not None else 0
    return {
        "inputs": inputs,
        "outputs": outputs,
        "arena_bytes": natural(record["arena_bytes"]),
        "target": CodeTarget(
            str(target["triple"]),
            str(target["cpu"]),
            tuple(map(str, target["features"])),
            str(target["precision"]),
            str(target["device"]),
        ),
        "kernels": tuple(map(KernelInfo.read, record["kernels"])),
        "uses_threads": bool(record["uses_threads"]),
        "is_short": bool(record["is_short"]),
        "guards": tuple(map(str, record["guards"])),
        "counts": tuple(_decode_count(item, outputs) for item in record["counts"]),
        "bounds": bounds,
        "buffers": tuple(map(ArenaBuffer.read, record["buffers"])),
        "launches": None if record["launches"] is None else LaunchPlan.read(record["launches"]),
        "appended": tuple(Appended.read(item, ranks, len(outputs), entries) for item in record["appended"]),
    }


def encode_tensors(tensors: Iterable[TensorInfo]) -> list[dict[str, Any]]:
    """Returns the records of inputs or outputs."""
    return [
        {"name": info.name, "dtype": info.dtype.name, "shape": list(info.shape), "kind": info.kind} for info in tensors
    ]


def decode_tensors(records: Sequence[Mapping[str, Any]]) -> tuple[TensorInfo, ...]:
    """Returns inputs or outputs from their records.

    Raises:
        ValueError, KeyError, TypeError: they are not records of `encode_tensors`.
    """
    return tuple(
        TensorInfo(str(item["name"]), _decode_dtype(item["dtype"]), _decode_shape(item["shape"]), str(item["kind"]))
        for item in records
    )


def natural(value: Any) -> int:
    """Returns a number that must not be negative.

    Raises:
        ValueError: it is negative, or not an integer.
    """
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a size")
    return value


def _decode_dtype(name: str) -> np.dtype:
    """Returns an element type, including those that only steps on the host have."""
    return np.dtype(name) if name in _HOST_DTYPES else dtype_of(name)


def _decode_shape(shape: Sequence[int | str]) -> tuple[int | str, ...]:
    if any(not isinstance(dim, str | int) or (isinstance(dim, int) and dim < 0) for dim in shape):
        raise ValueError(f"{shape} is not a shape")
    return tuple(shape)


def _decode_count(record: Sequence[Sequence[int]], outputs: Sequence[TensorInfo]) -> Count:
    pairs = tuple((natural(output), natural(axis)) for output, axis in record)
    if any(output >= len(outputs) or axis >= len(outputs[output].shape) for output, axis in pairs):
        raise ValueError(f"{record} are not dimensions of outputs")
    return Count(pairs)


def _decode_bounds(record: Mapping[str, Any] | None, inputs: int, outputs: Sequence[TensorInfo]) -> Bounds | None:
    bounds = decode_bounds(record)
    if bounds is None:
        return None
    most = {name: values.high for name, values in bounds.ranges.items()}
    largest = [tuple(evaluate(dim, most) for dim in shape) for shape in bounds.outputs]
    if not inputs or largest != [info.shape for info in outputs]:
        raise ValueError("the output shapes differ from those at the upper bounds")
    return bounds
