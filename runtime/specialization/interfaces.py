"""Interfaces of a model's specializations: to its compiler, and to models that run in steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ...sizes.buckets import Buckets
from ...sizes.deduced import DeducedSizes
from ...sizes.expressions import Expression
from ...support.short_repr import short_repr
from ..host.fallback import Fallback
from ..program import Program, Shape, TensorInfo

Contents = Mapping[int, np.ndarray]
"""Contents of some inputs, by position."""


@dataclass(frozen=True)
class Known:
    """The type of a value.

    Attributes:
        info: element type and shape of a tensor of static shape; None if that is not known.
        declared: the type as a serialized `onnx.TypeProto`, for nodes on the host whose inputs are not numeric
            tensors; empty if it is not known.
    """

    info: TensorInfo | None = None
    declared: bytes = b""


UNKNOWN = Known()


@short_repr
@dataclass(frozen=True)
class ByContents:
    """Returned in place of a program that also depends on the contents of some inputs.

    Attributes:
        positions: positions of the inputs.
        reason: why it depends on them.
    """

    positions: tuple[int, ...]
    reason: str


@short_repr
@dataclass(frozen=True)
class RangesAhead:
    """The result of compiling steps for ranges of sizes.

    Attributes:
        outputs: the outputs' types, with names of sizes; None for an unknown one.
        reasons: why there is no code for all sizes of a step, for each such step.
    """

    outputs: Sequence[TensorInfo | None]
    reasons: Sequence[str]


class HybridModel:
    """A model that runs in steps, some of them on the host: see `plan`.

    Not an ABC: every call checks whether its code is of this class, and for an ABC that takes half a microsecond.

    Attributes:
        reads_layouts: whether inputs of a call may be arrays that are not contiguous.
    """

    reads_layouts = False

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """Computes the outputs for the given inputs."""
        raise NotImplementedError

    def prepare(self, inputs: Sequence[Known], contents: Mapping[int, np.ndarray] | None = None) -> list[Known]:
        """Compiles as much as the types of the inputs and the contents of some of them determine.

        Returns:
            The types of the outputs.
        """
        raise NotImplementedError

    def prepare_ranges(self, inputs: Sequence[TensorInfo | None], sizes: DeducedSizes) -> RangesAhead:
        """Compiles the steps for inputs of given types and ranges of sizes.

        Args:
            inputs: the inputs' types, with names of sizes; None for an unknown one.
            sizes: these sizes, to which those inside of the model are added.
        """
        raise NotImplementedError

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code of the compiled steps."""
        raise NotImplementedError

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host."""
        raise NotImplementedError

    @property
    def uncompiled(self) -> list[str]:
        """The reasons why an artefact of the code so far could not run by itself."""
        raise NotImplementedError


@short_repr
@dataclass(frozen=True)
class RangedCode:
    """The code of a model for ranges of sizes.

    Attributes:
        programs: a program for each bucket of sizes; none if there are `steps` or a `reason`.
        steps: the steps in which the model runs, not compiled yet; None if it does not run in steps.
        reason: why there is no code; empty if there is some.
    """

    programs: Sequence[Program] = ()
    steps: HybridModel | None = None
    reason: str = ""


@runtime_checkable
class DeclaredRanges(Protocol):
    """A compiler that can also compile for declared ranges of sizes."""

    def for_buckets(
        self, inputs: Sequence[TensorInfo], buckets: Buckets, derived: Mapping[str, Expression]
    ) -> RangedCode:
        """Compiles for each bucket of sizes; `derived` gives the dimensions that are computed from theirs."""
        ...


CALL, AHEAD = "a call with new shapes", "ahead, for given shapes"
"""Reasons why code is needed."""

Specialize = Callable[[tuple[Shape, ...], Contents, str], Program | ByContents | HybridModel]
"""Compiles for input shapes, contents and a reason.

Returns the program, or the inputs whose contents it needs, or the steps to run in.
"""


@dataclass(frozen=True)
class SizePolicy:
    """The programs that calls may cause, for a model without declared ranges; see `Options`.

    Attributes:
        infers_ranges: whether a second size is a reason for a program for a range of sizes.
        adapts: whether programs are compiled in the background: for ranges, and for sizes that calls often have.
        max_programs: maximum number of programs to keep besides the one for the widest range.
        starts_in_range: whether sizes are known to vary, so that the first one is a reason for a range too.
    """

    infers_ranges: bool = False
    adapts: bool = False
    max_programs: int | None = None
    starts_in_range: bool = False


Done = Callable[[Program | str], None]
"""Called in another thread after a compile in the background, with the program or the reason why there is none."""


@runtime_checkable
class RangeCompiler(Protocol):
    """A compiler that can also compile programs for ranges that follow from the sizes of calls."""

    @property
    def policy(self) -> SizePolicy:
        """The programs that calls may cause."""
        ...

    def known_range(self, sizes: Mapping[str, int], alone: tuple[Shape, ...] | None = None) -> Program | None:
        """Returns a program for a range that contains some sizes, if an earlier process compiled one.

        Returns none if there is a program for the shapes `alone` too.
        """
        ...

    def range_over(self, inputs: Sequence[TensorInfo], seen: Sequence[Mapping[str, int]], why: str) -> Program | str:
        """Compiles one program for a range that contains all sizes seen; returns the reason if there is none."""
        ...

    def range_ahead(
        self, inputs: Sequence[TensorInfo], seen: Sequence[Mapping[str, int]], why: str, done: Done
    ) -> None:
        """Does the same in the background."""
        ...

    def shapes_ahead(self, shapes: tuple[Shape, ...], why: str, done: Done) -> None:
        """Compiles for input shapes in the background."""
        ...
