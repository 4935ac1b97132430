"""Calls of code that keeps arrays between calls: parameters, and the state of an optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.errors import InputError
from .executable import Executable
from .program import Shape
from .recomputation import Recomputation


@dataclass(frozen=True)
class StepCode:
    """The code for batches of one set of shapes.

    Attributes:
        executable: takes a batch and the held arrays, by name. An output with the name of an input continues it.
        contents: first contents of the inputs that are held.
    """

    executable: Executable
    contents: Mapping[str, np.ndarray]


KEY = "random_key"
"""Name of the state that is the key of random choices; a training step adds 1 to it."""

SUM, WEIGHT = ".gradient_sum", "gradient_weight"
"""Suffix that makes the name of a parameter the name of the sum of its gradients over micro-batches, and the name of
the sum of the weights of these."""

COUNT = "micro_batches"
"""Name of the state that is the number of micro-batches since the last step."""

_Make = Callable[[Mapping[str, Shape]], StepCode]
"""Compiles code for the shapes of a batch, by the names of its arrays."""


class TrainingStep:
    """A function of batches that updates the arrays that it holds. Its calls must not overlap.

    Attributes:
        batch: names of the arrays of a batch, in order.
        held: the arrays that are kept between calls, by name. A call replaces arrays and never changes one, so a copy
            of the dictionary is a snapshot.
    """

    def __init__(
        self,
        batch: Sequence[str],
        make: _Make | None,
        codes: Mapping[tuple[Shape, ...], StepCode] | None = None,
        held: dict[str, np.ndarray] | None = None,
    ) -> None:
        """Starts with the code compiled so far.

        Args:
            batch: names of the arrays of a batch, in order.
            make: compiles code for other shapes; None without a compiler.
            codes: the code by the shapes of a batch.
            held: the arrays that are kept; several functions may share them. A new dictionary if None.
        """
        self.batch = tuple(batch)
        self.held: dict[str, np.ndarray] = {} if held is None else held
        self._make, self._codes = make, dict(codes or {})
        for code in self._codes.values():
            self._hold(code)

    @property
    def executables(self) -> list[Executable]:
        """The code compiled so far, for each set of shapes."""
        return [code.executable for code in self._codes.values()]

    @property
    def recomputations(self) -> list[Recomputation]:
        """The plans of the code compiled within a budget of memory, for each set of shapes."""
        programs = [program for executable in self.executables for program in executable.programs]
        return [plan for program in programs if (plan := program.recomputation) is not None]

    def prepare(self, shapes: Mapping[str, Shape]) -> Executable:
        """Compiles for the shapes of a batch, by name, unless there is code for them.

        Raises:
            InputError: a name is missing, or there is no code for these shapes and no compiler.
        """
        missing = [name for name in self.batch if name not in shapes]
        if missing:
            raise InputError(f"the shape of '{missing[0]}' is missing; a batch has {', '.join(self.batch)}")
        return self._code_for(tuple(tuple(shapes[name]) for name in self.batch)).executable

    def prepare_for(self, *batch: Any, **named: Any) -> Executable:
        """Compiles for a batch, unless there is code for its shapes.

        Raises:
            InputError: the batch has other arrays, or there is no code for its shapes and no compiler.
        """
        given = self._by_name(batch, named)
        return self.prepare({name: _shape(value) for name, value in given.items()})

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Replaces arrays that are held.

        Raises:
            InputError: there is no such array, or it has another shape or element type.
        """
        for name, array in state.items():
            known = self.held.get(name)
            if known is None:
                raise InputError(f"the trainer has no state '{name}'; it has {', '.join(self.held)}")
            if known.shape != array.shape or known.dtype != array.dtype:
                raise InputError(
                    f"state '{name}' is {known.dtype.name}{list(known.shape)}, but {array.dtype.name}"
                    f"{list(array.shape)} was given"
                )
        self.held |= {name: np.array(array) for name, array in state.items()}

    def __call__(self, *batch: Any, **named: Any) -> dict[str, np.ndarray]:
        """Runs the step, and returns the outputs that continue nothing.

        Args:
            batch: the arrays of a batch in order, or anything with `__dlpack__`.
            named: those that are not in order, by name.

        Raises:
            InputError: the batch has other arrays, or they do not fit the model.
        """
        given = self._by_name(batch, named)
        code = self._code_for(tuple(_shape(given[name]) for name in self.batch)).executable
        arguments = {info.name: self.held.get(info.name, given.get(info.name)) for info in code.inputs}
        outputs = dict(zip([info.name for info in code.outputs], code.outputs_for(arguments), strict=True))
        self.held |= {name: array for name, array in outputs.items() if name in self.held}
        return {name: array for name, array in outputs.items() if name not in self.held}

    def _by_name(self, batch: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(zip(self.batch, batch, strict=False)) | dict(named)
        if len(batch) > len(self.batch) or given.keys() != set(self.batch):
            raise InputError(
                f"a batch has {', '.join(self.batch)}, but {len(batch)} arrays were given"
                + (f" and {', '.join(named)}" if named else "")
            )
        return given

    def _code_for(self, shapes: tuple[Shape, ...]) -> StepCode:
        if shapes not in self._codes:
            if self._make is None:
                known = "; ".join(", ".join(map(str, item)) for item in self._codes)
                raise InputError(
                    f"there is no code for a batch with the shapes {', '.join(map(str, shapes))}, but for {known}. "
                    "The compiler is needed for other shapes"
                )
            self._codes[shapes] = self._make(dict(zip(self.batch, shapes, strict=True)))
            self._hold(self._codes[shapes])
        return self._codes[shapes]

    def _hold(self, code: StepCode) -> None:
        self.held |= {name: array for name, array in code.contents.items() if name not in self.held}


def _shape(value: Any) -> Shape:
    return tuple(map(int, value.shape)) if hasattr(value, "shape") else np.asarray(value).shape
