"""The programs of one model or subgraph, by shapes and contents, with their use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...support.errors import ShapeError
from ...support.short_repr import short_repr
from ..execution.ranged_call import covering
from ..execution.workspace import LoadedProgram, Usage
from ..program import Program, Shape, TensorInfo
from .interfaces import ByContents, Contents
from .records import ProgramRecord

_Key = tuple[tuple[Shape, ...], tuple[tuple[int, bytes], ...]]
"""Input shapes, and the contents of some inputs by position. Shapes of a program for a range are its upper bounds."""

LIGHT_FLOPS = 10_000_000
"""Maximum number of operations of a light model, which numpy executes in the time of a compile."""


def key_of(shapes: tuple[Shape, ...], contents: Contents) -> _Key:
    """Returns the key of the program for shapes and contents."""
    return shapes, tuple((position, array.tobytes()) for position, array in contents.items())


@short_repr
@dataclass
class Choice:
    """The programs for one set of shapes that differ by the contents of some inputs.

    Attributes:
        by: the inputs, and the reason.
        entries: by the bytes of these inputs, the program or the next choice.
    """

    by: ByContents
    entries: dict[tuple[bytes, ...], LoadedProgram | Choice] = field(default_factory=dict)

    def key(self, arrays: Sequence[np.ndarray]) -> tuple[bytes, ...]:
        """Returns the contents of the inputs that select the entry."""
        return tuple([arrays[position].tobytes() for position in self.by.positions])


class ProgramTable:
    """The programs so far. Methods may be called from several threads; each change is one operation on a dictionary."""

    def __init__(self, inputs: Sequence[TensorInfo], programs: Iterable[Program] = ()) -> None:
        """Starts with programs that are never dropped."""
        self._inputs = tuple(inputs)
        names = [info.name for info in inputs]
        self._programs: dict[_Key, Program] = {}
        self._usage: dict[int, Usage] = {}
        for program in programs:
            contents = {names.index(name): array for name, array in program.contents.items()}
            self.add(key_of(program.input_shapes, contents), program)
        self._pinned = set(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def all(self) -> tuple[Program, ...]:
        """The programs."""
        return tuple(self._programs.copy().values())

    @property
    def keys(self) -> tuple[_Key, ...]:
        """The keys of the programs."""
        return tuple(self._programs.copy())

    def get(self, key: _Key) -> Program | None:
        """Returns the program with a key; None if there is none."""
        return self._programs.get(key)

    def add(self, key: _Key, program: Program) -> None:
        """Adds a program; one with the same key is replaced."""
        replaced = self._programs.get(key)
        if replaced is not None:
            self._usage.pop(id(replaced), None)
        self._programs[key] = program
        self.usage_of(program)

    def pin(self, key: _Key) -> None:
        """Keeps the program with a key, present or future."""
        self._pinned.add(key)

    def has_shapes(self, shapes: tuple[Shape, ...]) -> bool:
        """Returns whether there is a program for exactly these shapes."""
        return any(key[0] == shapes for key in self.keys)

    def covering(self, sizes: Mapping[str, int]) -> Program | None:
        """Returns the best program for a range that contains the sizes; None if there is none."""
        return covering(self.all, sizes)

    @property
    def has_ranges(self) -> bool:
        """True if a program serves a range of sizes."""
        return any(program.bounds is not None for program in self.all)

    @property
    def is_light(self) -> bool:
        """True if running the work takes any machine less time than compiling it."""
        flops = (sum(kernel.flops * kernel.calls for kernel in program.kernels) for program in self.all)
        return max(flops, default=0) <= LIGHT_FLOPS

    def distinguishing(self, shapes: tuple[Shape, ...], contents: Contents) -> ByContents:
        """Returns the next input by whose contents the programs for some shapes differ.

        Raises:
            ShapeError: there are none for these shapes, or none for such contents.
        """
        _, given = key_of(shapes, contents)
        for program_shapes, key in self.keys:
            if program_shapes == shapes and set(given) < set(key):
                return ByContents((next(place for place, _ in key if place not in contents),), "")
        requested = self.described(shapes, given)
        raise ShapeError(
            f"there is no code for {requested}, and no compiler is available; there is code for: {self.text}"
        )

    def usage_of(self, program: Program) -> Usage:
        """Returns the counters of a program in the table."""
        return self._usage.setdefault(id(program), Usage(last=time.perf_counter()))  # a new program is in use

    def records(self, others: Iterable[Program] = ()) -> tuple[ProgramRecord, ...]:
        """Returns the rows of the programs, and of others that run as part of the same model."""
        usage = self._usage.copy()
        unused = Usage()
        return tuple(ProgramRecord(program, usage.get(id(program), unused).calls) for program in (*self.all, *others))

    def drop_unused(self, most: int, is_kept: Callable[[Program], bool]) -> list[tuple[_Key, Program]]:
        """Removes the programs whose last call is longest ago, until `most` are left, and returns them.

        Those that are pinned, or that `is_kept` selects, are not counted and not removed.
        """
        found = [
            (key, program)
            for key, program in self._programs.copy().items()
            if key not in self._pinned and not is_kept(program)
        ]
        found.sort(key=lambda item: self.usage_of(item[1]).last)
        dropped = found[: max(0, len(found) - most)]
        for key, program in dropped:
            del self._programs[key]
            self._usage.pop(id(program), None)
        return dropped

    def described(self, shapes: tuple[Shape, ...], contents: tuple[tuple[int, bytes], ...]) -> str:
        """Describes shapes and contents of inputs, as in messages."""
        given = zip(self._inputs, shapes, strict=False)  # a program for a range has a table as its last input
        text = ", ".join(f"{info.name}={'x'.join(map(str, shape)) or 'scalar'}" for info, shape in given)
        held = {place: np.frombuffer(data, self._inputs[place].dtype).tolist() for place, data in contents}
        return text + "".join(f" with {self._inputs[place].name} = {values}" for place, values in held.items())

    @property
    def text(self) -> str:
        """The shapes and sizes that have code, as in messages."""
        texts = [
            self.described(*key) if program.bounds is None else program.serves
            for key, program in self._programs.copy().items()
        ]
        return "; ".join(texts) or "none"
