"""Launch plan of a GPU program: the kernels launched in sequence on one stream, and the locations of their data.

A plan holds no code. A launch names an entry and its module, whose PTX and cubin are among the program's objects as
`<module>.ptx` and `<module>.cubin`. A plan read from an artefact is validated before use (launch_checks.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..support.short_repr import short_repr

INPUT, OUTPUT, PARAMETER, ARENA = "input", "output", "parameter", "arena"
SPACES = (INPUT, OUTPUT, PARAMETER, ARENA)

ELEMENT_BYTES = {
    "uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "tfloat32": 4, "float64": 8,
}  # fmt: skip
"""Element types of a tensor map, and their sizes in bytes; elements of 8-bit floats are moved as uint8."""

SCALAR_BYTES = {"int32": 4, "int64": 8, "float32": 4, "float64": 8}

GridDims = tuple[int, int, int]


@dataclass(frozen=True)
class BufferSlice:
    """Part of one of the program's buffers.

    Attributes:
        space: "input", "output", "parameter" or "arena".
        index: index of the input, output or parameter; 0 for the arena.
        offset: offset of the part in bytes.
        bytes: size of the part; a kernel must not access memory beyond it.
    """

    space: str
    index: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class TensorBoxes:
    """Tensor that the copy engine reads or writes by boxes; dimensions are listed innermost first.

    Attributes:
        element: a key of `ELEMENT_BYTES`.
        sizes: elements in each dimension.
        strides: distance of elements in bytes, for each dimension but the innermost, which is dense.
        box: elements that one copy moves, in each dimension.
        swizzle: bytes within which 16-byte chunks are permuted: 0, 32, 64 or 128.
        fill: value of elements out of bounds: "zero" or "nan".
        promotion: bytes that a miss brings to the second-level cache: 0, 64, 128 or 256.
        steps: traversal stride in each dimension; all 1 if empty.
    """

    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zero"
    promotion: int = 128
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class TensorMap(TensorBoxes):
    """Tensor in a program's buffer, for the copy engine (`cuTensorMapEncodeTiled`).

    Attributes:
        buffer: location of the tensor.
    """

    buffer: BufferSlice = field(kw_only=True)

    @property
    def extent(self) -> int:
        """Number of bytes that the tensor spans."""
        outer = sum((size - 1) * stride for size, stride in zip(self.sizes[1:], self.strides, strict=True))
        return outer + self.sizes[0] * ELEMENT_BYTES[self.element]


@dataclass(frozen=True)
class Scalar:
    """A number passed by value.

    Attributes:
        type: "int32", "int64", "float32" or "float64".
        value: the number.
    """

    type: str
    value: int | float


LaunchArgument = BufferSlice | TensorMap | Scalar


@dataclass(frozen=True)
class LaunchGeometry:
    """Number of threads and blocks of a launch, and their shared memory.

    Attributes:
        grid: blocks in x, y and z.
        block: threads per block in x, y and z.
        cluster: blocks per cluster in x, y and z; (1, 1, 1) for none.
        shared_bytes: dynamic shared memory per block.
    """

    grid: GridDims
    block: GridDims
    cluster: GridDims = (1, 1, 1)
    shared_bytes: int = 0


@short_repr
@dataclass(frozen=True)
class Launch(LaunchGeometry):
    """One launch of a kernel.

    Attributes:
        module: name of the module whose PTX or cubin holds the entry.
        entry: name of the kernel in the module.
        arguments: arguments of the kernel, in order.
        kernel: entry of the program's kernel table that the launch belongs to.
    """

    module: str = field(kw_only=True)
    entry: str = field(kw_only=True)
    arguments: tuple[LaunchArgument, ...] = field(kw_only=True)
    kernel: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Fill:
    """Sets every byte of a part of the arena or of an output."""

    buffer: BufferSlice
    value: int = 0


@dataclass(frozen=True)
class DeviceCopy:
    """Copies between two parts of equal size, which must not overlap."""

    source: BufferSlice
    target: BufferSlice


DeviceStep = Launch | Fill | DeviceCopy


@short_repr
@dataclass(frozen=True)
class LaunchPlan:
    """The steps of a program in execution order; each step sees the writes of those before it.

    Attributes:
        steps: the steps.
        arena_bytes: scratch memory on the device per call.
    """

    steps: tuple[DeviceStep, ...]
    arena_bytes: int

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The steps that are launches."""
        return tuple(step for step in self.steps if isinstance(step, Launch))

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the launches, without duplicates, in order of first use."""
        return tuple(dict.fromkeys(launch.module for launch in self.launches))

    def record(self) -> dict[str, Any]:
        """Returns the plan as a JSON-serializable dictionary; `LaunchPlan.read` is the inverse."""
        return {"arena_bytes": self.arena_bytes, "steps": [_step_record(step) for step in self.steps]}

    @staticmethod
    def read(record: Mapping[str, Any]) -> LaunchPlan:
        """Reads a plan from the JSON form of `record`; does not validate the steps themselves.

        Raises:
            ValueError, KeyError, TypeError: the record is malformed.
        """
        arena_bytes = _natural(record["arena_bytes"])
        return LaunchPlan(tuple(_read_step(entry) for entry in record["steps"]), arena_bytes)


def argument_bytes(argument: LaunchArgument) -> int:
    """Returns the size of an argument in the kernel's parameters, in bytes."""
    if isinstance(argument, Scalar):
        return SCALAR_BYTES[argument.type]
    return 128 if isinstance(argument, TensorMap) else 8


def _step_record(step: DeviceStep) -> dict[str, Any]:
    if isinstance(step, Fill):
        return {"kind": "fill", "buffer": asdict(step.buffer), "value": step.value}
    if isinstance(step, DeviceCopy):
        return {"kind": "copy", "source": asdict(step.source), "target": asdict(step.target)}
    arguments = [_argument_record(argument) for argument in step.arguments]
    fields = {name: list(getattr(step, name)) for name in ("grid", "block", "cluster")}
    return {
        "kind": "launch", "module": step.module, "entry": step.entry, "kernel": step.kernel, **fields,
        "shared_bytes": step.shared_bytes, "arguments": arguments,
    }  # fmt: skip


def _argument_record(argument: LaunchArgument) -> dict[str, Any]:
    kind = {BufferSlice: "buffer", TensorMap: "map", Scalar: "scalar"}[type(argument)]
    return {"kind": kind, **asdict(argument)}


def _read_step(entry: Mapping[str, Any]) -> DeviceStep:
    kind = entry["kind"]
    if kind == "fill":
        return Fill(_read_buffer(entry["buffer"]), _natural(entry["value"]))
    if kind == "copy":
        return DeviceCopy(_read_buffer(entry["source"]), _read_buffer(entry["target"]))
    if kind != "launch":
        raise ValueError(f"{kind!r} is not a step of a launch plan")
    return Launch(
        module=_text(entry["module"]),
        entry=_text(entry["entry"]),
        grid=_dims(entry["grid"]),
        block=_dims(entry["block"]),
        arguments=tuple(_read_argument(argument) for argument in entry["arguments"]),
        cluster=_dims(entry["cluster"]),
        shared_bytes=_natural(entry["shared_bytes"]),
        kernel=_text(entry["kernel"]),
    )


def _read_argument(entry: Mapping[str, Any]) -> LaunchArgument:
    kind = entry["kind"]
    if kind == "buffer":
        return _read_buffer(entry)
    if kind == "scalar":
        return _read_scalar(entry)
    if kind != "map":
        raise ValueError(f"{kind!r} is not an argument of a launch")
    return TensorMap(
        buffer=_read_buffer(entry["buffer"]),
        element=_text(entry["element"]),
        sizes=_naturals(entry["sizes"]),
        strides=_naturals(entry["strides"]),
        box=_naturals(entry["box"]),
        swizzle=_natural(entry["swizzle"]),
        fill=_text(entry["fill"]),
        promotion=_natural(entry["promotion"]),
        steps=_naturals(entry["steps"]),
    )


def _read_scalar(entry: Mapping[str, Any]) -> Scalar:
    kind, value = entry["type"], entry["value"]
    if kind not in SCALAR_BYTES or isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number of type {kind!r}")
    return Scalar(kind, value)


def _read_buffer(entry: Mapping[str, Any]) -> BufferSlice:
    if entry["space"] not in SPACES:
        raise ValueError(f"{entry['space']!r} is not a kind of buffer")
    return BufferSlice(entry["space"], *(_natural(entry[name]) for name in ("index", "offset", "bytes")))


def _dims(entry: Sequence[Any]) -> GridDims:
    x, y, z = _naturals(entry)
    return x, y, z


def _naturals(entry: Sequence[Any]) -> tuple[int, ...]:
    if not isinstance(entry, list | tuple):
        raise ValueError(f"{entry!r} is not a list of sizes")
    return tuple(map(_natural, entry))


def _natural(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a size")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a name")
    return value
