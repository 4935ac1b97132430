"""Programs, which the compiler hands to the runtime: native code for one set of input shapes, and all its data.

The native entry is `void stepwell_main(void **table)`. The table holds the address of every input, output and
parameter, in the order of the program's fields, then the address of the arena, and last that of a thread pool
(thread_pool.py), or null if the calling thread is to do everything. Programs that use thread pools have a second
function, which the workers run: `void stepwell_work(void *pool, int64_t thread)`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..sizes.bounds import Bounds
from ..sizes.layouts import Appended
from ..support.short_repr import cut, short_repr, size_of
from ..support.wording import quantity
from .facts import CompileFacts
from .launch_plan import LaunchPlan
from .memory import is_splat
from .recomputation import Recomputation

Shape = tuple[int, ...]
ENTRY = "stepwell_main"
WORK = "stepwell_work"
ANY_RANK = "..."
MAX_LISTING_LENGTH = 300
"""Maximum number of characters of a listing of inputs or outputs in a summary."""


@short_repr
@dataclass(frozen=True)
class TensorInfo:
    """A model's input or output.

    Attributes:
        name: its name in the model.
        dtype: numpy element type; Python objects for strings and for values other than tensors.
        shape: a number per dimension, or the symbol (or expression) that stands for one; `ANY_RANK` alone if even the
            number of dimensions is unknown.
        kind: "tensor", or another type: "seq(float32)", "optional(int64)", ...; "" if it is known only at run time.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str, ...]
    kind: str = "tensor"

    @property
    def is_static(self) -> bool:
        """True if every dimension is a number."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes of a tensor of static shape."""
        return int(np.prod([int(dim) for dim in self.shape], dtype=np.int64)) * self.dtype.itemsize

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind or 'unknown'}"
        kind = "string" if self.dtype == object else self.dtype.name
        return f"{self.name}: {kind}[{', '.join(map(str, self.shape))}]"


PRECISIONS = ("f32", "tf32", "bf16", "f16")
"""Element types in which products of float32 may be computed, the exact one first."""


@short_repr
@dataclass(frozen=True)
class CodeTarget:
    """The machine that code is built for.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's name of the processor or level, such as "x86-64-v3", or of the GPU, such as "sm_80".
        features: LLVM's names of the instruction sets that the code may use.
        precision: element type in which products of float32 are computed, one of `PRECISIONS`.
        device: the device that runs the program, which selects its loader: "cpu", "cuda", or a device of another
            package by the name of its target, such as "cube:v1"; then the other fields are of the CPU that runs the
            rest.
    """

    triple: str
    cpu: str
    features: tuple[str, ...] = ()
    precision: str = "f32"
    device: str = "cpu"

    @property
    def name(self) -> str:
        """The processor or the device of another package, and the precision if it is not float32."""
        cpu = self.architecture if self.cpu == "generic" else self.cpu
        machine = cpu if self.device in ("cpu", "cuda") else self.device
        return machine if self.precision == "f32" else f"{machine}+{self.precision}"

    @property
    def architecture(self) -> str:
        """The first part of the triple, such as "x86_64"."""
        return self.triple.split("-", 1)[0]

    @property
    def family(self) -> str:
        """The family of the device: its name up to a colon."""
        return self.device.partition(":")[0]

    def __str__(self) -> str:
        return f"{self.name} ({self.triple})"


@short_repr
@dataclass(frozen=True)
class KernelInfo:
    """A row of a program's kernel table.

    Attributes:
        name: the function's symbol.
        kind: its class: contraction, convolution, elementwise...
        ops: the model's nodes that it computes.
        calls: number of calls in the program; one for a call in a loop with a varying number of iterations.
        flops: floating-point operations of one call.
        bytes: minimum number of bytes that one call moves.
        schedule: name of the schedule that generated it.
        arguments: number of values a call passes, addresses or 64-bit numbers; 0 if unknown.
        blocks: number of blocks of work, if the last two arguments select the blocks to compute; else 0.
        sites: for each of its calls, in program order, the model's nodes it computes with their shares of the work; the
            iterations of a loop share one entry.
    """

    name: str
    kind: str
    ops: tuple[str, ...] = ()
    calls: int = 1
    flops: int = 0
    bytes: int = 0
    schedule: str = ""
    arguments: int = 0
    blocks: int = 0
    sites: tuple[tuple[tuple[str, float], ...], ...] = ()

    @staticmethod
    def read(record: Mapping[str, Any]) -> KernelInfo:
        """Reads the record that `dataclasses.asdict` and JSON made of a row."""
        sites = tuple(tuple((str(name), float(share)) for name, share in site) for site in record["sites"])
        return KernelInfo(**{**record, "ops": tuple(record["ops"]), "sites": sites})


SHORT_NAME = len("kernel_") + 8
"""Number of characters of kernel names in tables: all tools shorten names to this, and accept the short form."""


class ArenaBuffer(NamedTuple):
    """A part of the arena that is in use for some steps.

    Attributes:
        name: the kernel that fills it, with ".workspace" appended if only that kernel uses it; else its purpose.
        node: the model's node whose result it is; "" if none.
        offset: offset in bytes.
        bytes: size in bytes.
        first: the first step at which it is in use; steps count the program's kernel calls and copies.
        last: the last such step, inclusive.
    """

    name: str
    node: str
    offset: int
    bytes: int
    first: int
    last: int

    @staticmethod
    def read(record: Sequence[Any]) -> ArenaBuffer:
        """Reads the list that JSON made of a buffer."""
        name, node, *numbers = record
        if len(numbers) != 4 or any(not isinstance(number, int) or number < 0 for number in numbers):
            raise ValueError(f"{record!r} is not a part of the arena")
        return ArenaBuffer(str(name), str(node), *numbers)


class Count(NamedTuple):
    """A number of elements that a call computes: outputs have room for the most, and are cropped to it.

    Attributes:
        cropped: the outputs it crops, each with the dimension whose extent it is.
    """

    cropped: tuple[tuple[int, int], ...]

    @staticmethod
    def of(numbers: Sequence[int]) -> Count:
        """Reads the flat list of pairs that the compiler writes."""
        return Count(tuple(zip(numbers[::2], numbers[1::2], strict=True)))


@dataclass(frozen=True, repr=False)
class Program:
    """Native code for one set of input shapes.

    Attributes:
        inputs: inputs in table order, with static shapes.
        outputs: outputs in table order, with static shapes.
        guards: texts of the guards. Each guard is a bool after the outputs in the table; if it is false after a call,
            the outputs are invalid for the reason in the text.
        counts: extents of outputs that depend on data. Each is an i64 scalar after the guards in the table.
        parameters: contents by name, in table order; a broadcast array (all strides 0) is stored as one element.
        arena_bytes: scratch memory of a call, in bytes.
        target: the machine it was built for.
        objects: relocatable object files by name; if `library` is present, only those that a profile links
            again around the library's kernels: the entry function and the worker function.
        library: all objects, linked to a shared library.
        kernels: the kernels it calls.
        uses_threads: whether its code distributes work to a thread pool.
        is_short: whether a call ends before another Python thread could make use of a released interpreter lock.
        contents: contents that some inputs, by name, must have for the program to be valid, in the order in which they
            were found; the program does not read these inputs.
        bounds: the sizes it serves, if more than those of its shapes; its last input is then a table of sizes.
        buffers: the parts of the arena, with the steps at which they are in use.
        facts: the compiler's facts about it, for its report, in encoded form; `compile_facts` decodes them.
        appended: the inputs that it appends to, and reads as they lie in memory, if sizes vary.
        launches: the launches of a GPU program, which has no entry function; its objects are PTX, with names in ".ptx".
        why: the reason why this process needed it; empty if it comes from an artefact. Not stored.
        compile_seconds: the time of its compile in this process; 0 if it was stored. Not stored.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    parameters: Mapping[str, np.ndarray]
    arena_bytes: int
    target: CodeTarget
    guards: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    objects: Mapping[str, bytes] = field(default_factory=dict)
    library: bytes | None = None
    kernels: Sequence[KernelInfo] = ()
    uses_threads: bool = True
    is_short: bool = False
    contents: Mapping[str, np.ndarray] = field(default_factory=dict)
    bounds: Bounds | None = None
    buffers: Sequence[ArenaBuffer] = ()
    facts: bytes = b""
    launches: LaunchPlan | None = None
    appended: Sequence[Appended] = ()
    why: str = field(default="", compare=False)
    compile_seconds: float = field(default=0.0, compare=False)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.inputs)) if self.bounds is None else self.serves
        parts = [
            cut(sizes, MAX_LISTING_LENGTH),
            str(self.target),
            quantity(len(self.kernels), "kernel"),
            f"{size_of(self.parameter_bytes)} of parameters",
            f"{size_of(self.arena_bytes)} of scratch memory",
            *([self.why] if self.why else []),
        ]
        return f"<Program for {'; '.join(parts)}>"

    @property
    def serves(self) -> str:
        """The sizes that it serves: its ranges, or the shapes of its inputs."""
        if self.bounds is not None:
            return ", ".join(f"{name} {values}" for name, values in self.bounds.ranges.items())
        return ", ".join(f"{info.name}={'x'.join(map(str, info.shape)) or 'scalar'}" for info in self.inputs)

    @property
    def parameter_bytes(self) -> int:
        """The size of its parameters in bytes; a broadcast array counts as one element."""
        return sum(array.itemsize if is_splat(array) else array.nbytes for array in self.parameters.values())

    @property
    def nbytes(self) -> int:
        """The size of its code and parameters in bytes, without the scratch memory of a call."""
        return self.parameter_bytes + sum(map(len, self.objects.values())) + len(self.library or b"")

    @functools.cached_property
    def compile_facts(self) -> CompileFacts:
        """The compiler's facts about it.

        Raises:
            ArtefactError: they are damaged.
        """
        return CompileFacts.decoded(self.facts)

    @property
    def recomputation(self) -> Recomputation | None:
        """The plan of the memory of a training step within a budget, with the bytes that it takes; None for others.

        Raises:
            ArtefactError: the compiler's facts are damaged.
        """
        plan = self.compile_facts.recomputation
        return None if plan is None else replace(plan, peak=self.arena_bytes)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shapes it was compiled for, in input order."""
        return tuple(tuple(int(dim) for dim in item.shape) for item in self.inputs)
