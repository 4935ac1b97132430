"""Calls of a model, and of the kernels in them, as a profile recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.short_repr import short_repr
from ..execution.recorder import Recording
from ..program import KernelInfo


@short_repr
@dataclass(frozen=True)
class Instance:
    """One call of a kernel.

    Attributes:
        kernel: its row in the kernel table.
        site: index among the program's calls of that kernel; None if a loop makes several calls at one site.
        start: start of the first thread, in nanoseconds.
        end: end of the last thread, in nanoseconds.
        pieces: the rows of the recording that belong to it.
    """

    kernel: KernelInfo
    site: int | None
    start: int
    end: int
    pieces: Sequence[Sequence[int]]


@short_repr
@dataclass(frozen=True)
class Call:
    """One call of the model.

    Attributes:
        start: its start, in nanoseconds.
        end: its end, in nanoseconds.
        programs: the programs that ran, each with its kernels in order of their start.
        nodes: nodes that ran on the host: name, operator, start, end.
    """

    start: int
    end: int
    programs: Sequence[tuple[Recording, Sequence[Instance]]]
    nodes: Sequence[tuple[str, str, int, int]]
