"""Programs that follow from the sizes of calls: for ranges of them, and for single sizes that occur often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...sizes.bounds import with_derived
from ...sizes.inferred import corners
from ...sizes.ranges import sizes_of
from ...support.wording import listed
from ..program import ANY_RANK, Program, Shape, TensorInfo
from .interfaces import RangeCompiler

HOT_CALLS = 32
"""Number of calls at one size, in a range, after which a program for that size is compiled in the background."""

_MOST_SEEN = 64
"""Maximum number of sizes that are remembered; ranges follow from the extremes."""


class Adaptive:
    """Decides which programs a model gets besides those for single sizes, and requests them.

    The first size is compiled for alone, so that a model with one size costs no more than if its inputs had fixed
    shapes; if sizes are known to vary, a range is compiled for at once, as if a call with twice the sizes had followed.
    The second size shows that sizes vary: a program for a range is compiled that contains both, and further
    sizes in it need no compile. A size outside extends the range; since ranges end well above the largest size, their
    number is logarithmic in it. If there is no program for a range, each size is compiled separately.

    Attributes:
        policy: the options.
        reason: why no program serves a range of sizes; empty if one may.
    """

    def __init__(self, inputs: Sequence[TensorInfo], compiler: RangeCompiler) -> None:
        """Starts without sizes.

        Args:
            inputs: the model's inputs, in order.
            compiler: compiles programs for ranges.
        """
        self.policy, self.reason = compiler.policy, ""
        self._inputs, self._compiler = tuple(inputs), compiler
        self._seen: list[dict[str, int]] = []
        self._widest: Program | None = None
        self._refused: Mapping[str, int] | None = None
        self._refusal = ""
        self._is_running = False
        self._requested: set[tuple[Shape, ...]] = set()
        self._lock = threading.Lock()

    @staticmethod
    def of(inputs: Sequence[TensorInfo], compiler: object) -> Adaptive | None:
        """Returns the policy of a model for calls whose sizes vary; None if there is no compiler, or no sizes vary."""
        if not isinstance(compiler, RangeCompiler) or not compiler.policy.infers_ranges:
            return None
        if not all(info.kind == "tensor" and ANY_RANK not in info.shape for info in inputs):
            return None
        return None if all(info.is_static for info in inputs) else Adaptive(inputs, compiler)

    def start_with(self, programs: Iterable[Program]) -> None:
        """Takes over the sizes that programs serve: of a copy, or of an artefact."""
        for program in programs:
            if program.bounds is None and not program.contents:
                self.met(program.input_shapes)
            elif program.bounds is not None:
                self._widen(program)

    def is_widest(self, program: Program) -> bool:
        """Returns whether a program is the one for the widest range, which is kept as long as the model."""
        return program is self._widest

    def range_for(self, shapes: tuple[Shape, ...], install: Callable[[Program], None]) -> Program | None:
        """Returns a new program for a range that contains the given shapes, or None if they are to be compiled alone.

        Args:
            shapes: the shapes of a call, for which there is no code.
            install: adds a program that was compiled in the background.
        """
        if self.reason or self._is_running:
            return None
        sizes = sizes_of(self._inputs, shapes)
        is_first = not self._seen and self._widest is None
        known = self._compiler.known_range(sizes, shapes if is_first else None)
        if known is not None:
            self._widen(known)
        if known is not None:
            return known
        seen = [*self._seen, *self._corners(), sizes]
        if is_first and self.policy.starts_in_range:
            seen.append({name: max(2 * size, 1) for name, size in sizes.items()})  # a size that varies may start at 0
            return self._take(self._compiler.range_over(self._inputs, seen, "sizes are known to vary"), sizes)
        if all(sizes == other for other in seen):
            return None
        why = self._why(seen, sizes)
        if self.policy.adapts:
            self._is_running = True
            self._compiler.range_ahead(
                self._inputs, seen, why, lambda made: self._take_from_background(made, sizes, install)
            )
            return None
        return self._take(self._compiler.range_over(self._inputs, seen, why), sizes)

    def met(self, shapes: tuple[Shape, ...]) -> None:
        """Records shapes that there is code for now, so that they are valid: a refused range was not their fault."""
        sizes = sizes_of(self._inputs, shapes)
        if sizes not in self._seen:
            self._seen = [*self._seen[: _MOST_SEEN - 1], sizes]
        if sizes == self._refused:
            self.reason = self.reason or self._refusal

    def hot(self, shapes: tuple[Shape, ...], install: Callable[[Program], None]) -> None:
        """Requests a program for shapes that calls often have; `install` adds it."""
        with self._lock:
            if shapes in self._requested:
                return
            self._requested.add(shapes)

        def done(made: Program | str) -> None:
            if isinstance(made, Program):
                install(made)
                self._requested.discard(shapes)  # if it is dropped, it may be requested again

        self._compiler.shapes_ahead(shapes, f"{HOT_CALLS} calls at this size", done)

    def _take(self, made: Program | str, sizes: Mapping[str, int]) -> Program | None:
        """Takes over the result of a compile for a range, which a call with some sizes caused."""
        if isinstance(made, str):
            self._refused, self._refusal = sizes, made
            return None
        self._widen(made)
        return made

    def _take_from_background(
        self, made: Program | str, sizes: Mapping[str, int], install: Callable[[Program], None]
    ) -> None:
        program = self._take(made, sizes)
        if program is not None:
            install(program)
        elif sizes in self._seen:  # the model works at these sizes
            self.reason = self._refusal
        self._is_running = False

    def _widen(self, program: Program) -> None:
        widest = None if self._widest is None else self._widest.bounds
        if widest is None or (program.bounds is not None and program.bounds.volume >= widest.volume):
            self._widest = program

    def _corners(self) -> list[dict[str, int]]:
        bounds = None if self._widest is None else self._widest.bounds
        return [] if bounds is None else [with_derived(sizes, bounds.derived) for sizes in corners(bounds.ranges)]

    def _why(self, seen: Sequence[Mapping[str, int]], sizes: Mapping[str, int]) -> str:
        bounds = None if self._widest is None else self._widest.bounds
        if bounds is not None:
            outside = [
                f"'{name}' is {sizes[name]}" for name, values in bounds.ranges.items() if sizes[name] not in values
            ]
            ranges = ", ".join(f"'{name}' {values}" for name, values in bounds.ranges.items())
            return f"{listed(outside) or 'the sizes are'} outside of {ranges}"
        varied = [name for name in sizes if any(other[name] != sizes[name] for other in seen)]
        columns = [f"'{name}' was {listed([str(other[name]) for other in seen])}" for name in varied]
        return f"dimension {listed(columns)}"
