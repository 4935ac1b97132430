"""The table of an executable's programs: the sizes that each serves, why it was compiled, and its calls."""

from __future__ import annotations

from dataclasses import dataclass

from ...support.short_repr import size_of
from ...support.wording import quantity
from ..program import Program


@dataclass(frozen=True)
class ProgramRecord:
    """A row of an executable's table of programs.

    Attributes:
        program: the program.
        calls: number of its calls.
    """

    program: Program
    calls: int

    @property
    def sizes(self) -> str:
        """The sizes that it serves."""
        return self.program.serves

    @property
    def why(self) -> str:
        """Why it was needed."""
        return self.program.why or "part of the artefact"

    @property
    def compile_seconds(self) -> float:
        """The time of its compile in this process; 0 if it was stored."""
        return self.program.compile_seconds

    @property
    def bytes(self) -> int:
        """The size of its code and parameters in bytes."""
        return self.program.nbytes

    @property
    def summary(self) -> str:
        """Its sizes, its kernels, its calls, and why it was compiled, in one line."""
        program = self.program
        kernels = f"{quantity(len(program.kernels), 'kernel')}, {program.arena_bytes / 1e6:.1f} MB of scratch memory"
        kind = "one program for all of these sizes" if program.bounds is not None else "for these shapes only"
        compiled = f"compiled in {self.compile_seconds:.2f} s" if self.compile_seconds else "stored before"
        use = f"{quantity(self.calls, 'call')}, {size_of(self.bytes)}, {compiled}: {self.why}"
        return f"{self.sizes}: {kernels}; {kind}; {use}"

    def __str__(self) -> str:
        """Returns the summary, and a line for each kernel that does more work than a call needs when sizes vary."""
        return "\n".join([self.summary, *unbounded(self.program)])


def unbounded(program: Program) -> list[str]:
    """Returns a line for each kernel that does more work than a call needs, with its nodes and the reason."""
    facts, found = program.compile_facts, []
    for kernel in program.kernels:
        reasons = facts.details_of(kernel.name).unbounded
        names = ", ".join(dict.fromkeys(kernel.ops)) or "no node of the model"
        found += [f"  {kernel.kind} {kernel.name} ({names}) is not bounded: {reason}" for reason in reasons]
    return found
