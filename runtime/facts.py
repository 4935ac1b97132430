"""The compiler's facts about a program that its code no longer shows, for its report.

`driver/facts.py` collects them.

A program holds them in the encoded form, compressed JSON. Most programs are run without a report.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..support.errors import ArtefactError
from ..support.short_repr import short_repr
from .recomputation import Recomputation
from .remarks import Remark

SCHEMA = 3
"""Version of the encoded facts. A reader accepts no other version."""

_MAX_BYTES = 256 << 20
"""Maximum size of decompressed facts, so that a forged file cannot fill the memory: a choice."""
FATES = ("kernel", "merged", "view", "constant", "computed at compile time", "shared", "removed")
"""The fates of nodes; docs/report.md explains them."""


@dataclass(frozen=True)
class TensorFacts:
    """The type of a tensor: its element type, and its sizes (-1 if not known at import)."""

    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def read(record: Mapping[str, Any]) -> TensorFacts:
        """Reads the record that JSON made of it."""
        return TensorFacts(str(record["dtype"]), tuple(map(int, record["shape"])))


@dataclass(frozen=True)
class Operand(TensorFacts):
    """A tensor that a kernel reads or writes, and its layout."""

    layout: str
    is_result: bool = False

    @staticmethod
    def read(record: Mapping[str, Any]) -> Operand:
        """Reads the record that JSON made of it."""
        tensor = TensorFacts.read(record)
        return Operand(tensor.dtype, tensor.shape, str(record["layout"]), bool(record["is_result"]))

    def record(self) -> dict[str, Any]:
        """Returns the report's record of it."""
        record = {"dtype": self.dtype, "shape": list(self.shape), "layout": self.layout}
        return {**record, "is_result": True} if self.is_result else record


@dataclass(frozen=True)
class NodeFacts:
    """A node of the model.

    Attributes:
        name: its name.
        type: its operator.
        outputs: its outputs.
        fate: how it was compiled or removed, one of `FATES`.
        by: the pattern or pass that decided it; "import" or "" if none did.
        into: the nodes that do its work.
    """

    name: str
    type: str
    outputs: tuple[TensorFacts, ...]
    fate: str
    by: str = ""
    into: tuple[str, ...] = ()

    @staticmethod
    def read(record: Mapping[str, Any]) -> NodeFacts:
        """Reads the record that JSON made of it."""
        if record["fate"] not in FATES:
            raise ValueError(f"{record['fate']!r} is not the fate of a node")
        outputs, into = tuple(map(TensorFacts.read, record["outputs"])), tuple(map(str, record["into"]))
        return NodeFacts(str(record["name"]), str(record["type"]), outputs, record["fate"], str(record["by"]), into)


@dataclass(frozen=True)
class CallFacts:
    """A call of a kernel.

    Attributes:
        kernel: its name.
        nodes: the nodes that it computes; the one that does most of the work comes first.
        versions: the kernels of which a call runs one, by the sizes; empty if there is only one.
        choice: the entry of the table of extents with the number of the version; -1 if there is only one.
    """

    kernel: str
    nodes: tuple[str, ...]
    versions: tuple[str, ...] = ()
    choice: int = -1

    @staticmethod
    def read(record: Mapping[str, Any]) -> CallFacts:
        """Reads the record that JSON made of it."""
        nodes, versions = (tuple(map(str, record[name])) for name in ("nodes", "versions"))
        return CallFacts(str(record["kernel"]), nodes, versions, int(record["choice"]))


@dataclass(frozen=True)
class CodeShape:
    """Vector width of a kernel's code.

    Attributes:
        vector_bits: width of most vector ops in bits; 0 without any.
        scalar_share: fraction of all ops done on single elements.
        gathers: vectors that are read or written element by element.
        calls: number of calls of the math library, by function.
    """

    vector_bits: int = 0
    scalar_share: float = 0.0
    gathers: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def read(record: Mapping[str, Any]) -> CodeShape:
        """Reads the record that JSON made of it."""
        calls = {str(name): int(count) for name, count in record["calls"].items()}
        return CodeShape(int(record["vector_bits"]), float(record["scalar_share"]), int(record["gathers"]), calls)


@dataclass(frozen=True)
class KernelDetails:
    """A kernel's code.

    Attributes:
        code: its vector width; None if it was not examined, as code for a GPU.
        schedule: the name (`name`) and the parameters of its schedule.
        blocks: number of blocks of work in each of its phases, which are distributed among threads.
        serial: why it runs on one thread; "" if it does not.
        unbounded: reasons why it does more work than a call needs when sizes vary.
        entries: the entries of the table of extents that its code reads.
        device: further facts that its backend knows, by title.
    """

    code: CodeShape | None = None
    schedule: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[int, ...] = ()
    serial: str = ""
    unbounded: tuple[str, ...] = ()
    entries: tuple[int, ...] = ()
    device: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(record: Mapping[str, Any]) -> KernelDetails:
        """Reads the record that JSON made of it.

        Raises:
            KeyError, ValueError, TypeError, AttributeError: it is not such a record.
        """
        return KernelDetails(
            None if record["code"] is None else CodeShape.read(record["code"]),
            dict(record["schedule"]),
            tuple(map(int, record["blocks"])),
            str(record["serial"]),
            tuple(map(str, record["unbounded"])),
            tuple(map(int, record["entries"])),
            dict(record["device"]),
        )

    @property
    def schedule_name(self) -> str:
        """The name of its schedule; "" if it has none."""
        return str(self.schedule.get("name", ""))


@short_repr
@dataclass(frozen=True)
class CompileFacts:
    """The compiler's facts about a program.

    Attributes:
        nodes: the model's nodes, in order.
        calls: the calls of kernels, in order.
        operands: the tensors that a kernel reads, and the one that it writes, by the kernel's name.
        remarks: the remarks of the passes, in order.
        vector_bytes: width of the target's vectors; 0 if unknown.
        details: facts about each kernel's code, by the kernel's name.
        tuned: for kernels with a tuned schedule, by name: `gain`, its confidence interval `low` and `high`, `threads`.
        recomputation: the plan of the memory of a training step within a budget; None for other programs.
    """

    nodes: Sequence[NodeFacts] = ()
    calls: Sequence[CallFacts] = ()
    operands: Mapping[str, Sequence[Operand]] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()
    vector_bytes: int = 0
    details: Mapping[str, KernelDetails] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    recomputation: Recomputation | None = None

    def details_of(self, kernel: str) -> KernelDetails:
        """Returns the facts about a kernel's code; empty ones if it has none."""
        return self.details.get(kernel, KernelDetails())

    def operands_of(self, kernel: str) -> Sequence[Operand]:
        """Returns the operands of a kernel; none if they are not known."""
        return self.operands.get(kernel, ())

    def encoded(self) -> bytes:
        """Returns the facts as compressed JSON."""
        record = {
            "schema": SCHEMA,
            "nodes": list(map(asdict, self.nodes)),
            "calls": list(map(asdict, self.calls)),
            "operands": {name: list(map(asdict, operands)) for name, operands in self.operands.items()},
            "remarks": [remark.record() for remark in self.remarks],
            "vector_bytes": self.vector_bytes,
            "details": {name: asdict(details) for name, details in self.details.items()},
            "tuned": {name: dict(found) for name, found in self.tuned.items()},
        }
        if self.recomputation is not None:
            record["recomputation"] = self.recomputation.record()
        return zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 6)

    @staticmethod
    def decoded(data: bytes) -> CompileFacts:
        """Returns encoded facts; all are empty for no bytes, as of a program from MLIR past the first phases.

        Raises:
            ArtefactError: they are damaged, or have another version.
        """
        if not data:
            return CompileFacts()
        try:
            record = json.loads(zlib.decompressobj().decompress(data, _MAX_BYTES))
            if record.get("schema") != SCHEMA:
                raise ValueError(f"they have version {record.get('schema')}, not {SCHEMA}; compile the model again")
            return CompileFacts(
                tuple(map(NodeFacts.read, record["nodes"])),
                tuple(map(CallFacts.read, record["calls"])),
                {str(name): tuple(map(Operand.read, found)) for name, found in record["operands"].items()},
                tuple(map(Remark.read, record["remarks"])),
                int(record["vector_bytes"]),
                {str(name): KernelDetails.read(found) for name, found in record["details"].items()},
                _tuned(record["tuned"]),
                Recomputation.read(record["recomputation"]) if "recomputation" in record else None,
            )
        except (zlib.error, KeyError, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise ArtefactError(f"the facts for its report cannot be read: {error!r}") from error


def _tuned(record: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    return {str(name): {str(key): float(value) for key, value in found.items()} for name, found in record.items()}
