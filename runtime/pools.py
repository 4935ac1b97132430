"""`Pools`: inputs in which models store rows in place, shared by several executables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import InputError
from .arguments import accept, listing
from .execution.input_shapes import check_shapes
from .execution.ranged_call import RangedCall
from .memory import aligned_zeros

if TYPE_CHECKING:
    from .specialization.specialization import Specializations


class Pools:
    """The memory of inputs in which models store rows, such as keys and values in pages (docs/paging.md).

    Attributes:
        arrays: the pools by the names of the inputs. A caller may change them between calls.
    """

    def __init__(self, code: Specializations) -> None:
        """Makes pools filled with 0. The system provides their memory as rows are stored.

        Args:
            code: the code of a model.

        Raises:
            InputError: the model stores rows in no input.
        """
        infos = [code.inputs[number] for number in _outputs_of(code)]
        self.arrays = {
            info.name: aligned_zeros(info.nbytes).view(info.dtype).reshape(tuple(map(int, info.shape)))
            for info in infos
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all pools."""
        return sum(array.nbytes for array in self.arrays.values())


class PooledModel:
    """A model as a callable on its inputs other than pools, in which it stores rows.

    Calls that use the same pools must follow each other.

    Attributes:
        pools: the pools.
    """

    def __init__(self, code: Specializations, threads: int, pools: Pools | None = None) -> None:
        """Connects a model with pools.

        Args:
            code: the code of the model.
            threads: number of threads of a call.
            pools: the pools; None for new ones.

        Raises:
            InputError: the model stores rows in other inputs, or in pools of other sizes.
        """
        self._code, self._inputs, self._threads, outputs = code, code.inputs, threads, _outputs_of(code)
        self.pools = pools = Pools(code) if pools is None else pools
        self._given = [info for number, info in enumerate(self._inputs) if number not in outputs]
        self._pools: dict[int, np.ndarray] = {}
        for number in outputs:
            info = self._inputs[number]
            array = pools.arrays.get(info.name)
            if array is None or array.shape != info.shape or array.dtype != info.dtype:
                raise InputError(f"the model stores rows in {info}, and the pools are {', '.join(pools.arrays)}")
            self._pools[number] = array
        self._blocks = {output: self._pools[number].reshape(-1).view(np.uint8) for number, output in outputs.items()}

    def __call__(self, **given: Any) -> Any:
        """Runs the model.

        Returns:
            The outputs other than pools: one as a `numpy.ndarray`, several as a tuple of them, in the model's order.

        Raises:
            InputError: the inputs do not match the model's inputs, or no program for ranges of sizes serves them.
        """
        if len(given) != len(self._given) or any(info.name not in given for info in self._given):
            raise InputError(f"a call takes {listing(self._given)}, but was given {', '.join(given)}")
        arrays = [
            self._pools[number] if number in self._pools else accept(given[info.name], info)
            for number, info in enumerate(self._inputs)
        ]
        shapes = tuple([array.shape for array in arrays])
        if shapes not in self._code.loaded:
            check_shapes(self._inputs, shapes)
        loaded = self._code.choose(shapes, arrays)
        if not isinstance(loaded, RangedCall):
            raise InputError(
                "no program for ranges of sizes serves these inputs, and others copy the pools: declare the ranges in "
                "`Options.dims`"
            )
        outputs = self._code.run(loaded, arrays, self._threads, self._blocks)
        others = [array for number, array in enumerate(outputs) if number not in self._blocks]
        return others[0] if len(others) == 1 else tuple(others)


def _outputs_of(code: Specializations) -> dict[int, int]:
    """Returns for the inputs in which a model stores rows the outputs that continue them.

    Raises:
        InputError: there are none.
    """
    found = {
        (item.input, item.output)
        for program in code.own_programs
        for item in program.appended
        if item.output >= 0 and code.inputs[item.input].is_static
    }
    if not found:
        raise InputError(
            "the model stores rows in no input: page its state with stepwell-page-state, and declare the ranges of its "
            "sizes in `Options.dims`"
        )
    return dict(sorted(found))
