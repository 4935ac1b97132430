"""The memory of results is reused when no reference to it is left, and only then."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.runtime.execution import results
from stepwell.runtime.execution.results import LEAST_BYTES, Shelf, shelves_for

F32 = np.dtype(np.float32)
ROWS, COLUMNS = 128, 192


@pytest.fixture
def shelf() -> Shelf:
    """A shelf that belongs to no program."""
    alone = Shelf(LEAST_BYTES)
    alone.most = 2
    return alone


def new(shelf: Shelf) -> Any:
    """An array that takes half of a block."""
    return shelf.array((LEAST_BYTES // 8,), F32)


def executable() -> stepwell.Executable:
    """y = x + x, large enough for a shelf."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, COLUMNS]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", ports[:1], ports[1:])
    return stepwell.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=1)


def test_memory_is_used_again(shelf: Shelf) -> None:
    first = new(shelf)
    place = first.ctypes.data
    assert place % 64 == 0
    del first
    assert new(shelf).ctypes.data == place


@pytest.mark.parametrize(
    "kept",
    [
        lambda array: array,
        lambda array: array[5:9],
        lambda array: array.reshape(64, -1).T[1:],
        lambda array: array.view(np.int32)[::2],
        memoryview,
        lambda array: np.from_dlpack(array),
        lambda array: {"cycle": [array]},
        lambda array: np.broadcast_to(array, (3, *array.shape)),
    ],
)
def test_references_keep_the_memory(shelf: Shelf, kept: Callable) -> None:
    shelf.most = 5  # the shelf keeps all blocks; one that it drops may get any address when it is made anew
    first = new(shelf)
    place = first.ctypes.data
    view = kept(first)
    del first
    others = [new(shelf) for _ in range(4)]
    assert place not in [other.ctypes.data for other in others]
    del view
    gc.collect()
    assert new(shelf).ctypes.data == place


def test_a_shelf_is_bounded(shelf: Shelf) -> None:
    held = [new(shelf) for _ in range(5)]
    blocks = [weakref.ref(array.base) for array in held if array.base is not None]
    assert len(blocks) == 5
    held.clear()
    assert sum(block() is not None for block in blocks) == 2


def test_arrays_that_are_kept_do_not_occupy_the_shelf(shelf: Shelf) -> None:
    kept = [new(shelf), new(shelf)]
    last, places = new(shelf), set()
    for _ in range(4):
        last = new(shelf)
        places.add(last.ctypes.data)
    assert len(places) == 2
    assert not places & {array.ctypes.data for array in kept}


def test_arrays_outlive_the_shelf() -> None:
    alone = Shelf(LEAST_BYTES)
    alone.most = 2
    held, free = new(alone), new(alone)
    held[:] = 7
    assert free.base is not None
    block = weakref.ref(free.base)
    del free
    assert block() is not None
    del alone
    gc.collect()
    assert block() is None
    assert (held == 7).all()


def test_programs_share_shelves_while_they_live() -> None:
    size = 3 << 40  # used by no other test; no block is ever allocated
    small, first, second = shelves_for([100, size, size])
    assert small is None
    assert first is not None and first is second
    assert first.nbytes == 1 << 42
    assert first.most == 4
    assert shelves_for([size])[0] is first
    assert first.most == 4
    gone = weakref.ref(first)
    del first, second
    assert gone() is None
    assert 1 << 42 not in results._SHELVES


def test_calls_give_arrays_of_their_own() -> None:
    double, x = executable(), np.ones((ROWS, COLUMNS), np.float32)
    held = [double(x * number) for number in range(6)]
    for number, array in enumerate(held):
        assert isinstance(array, np.ndarray)
        assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
        np.testing.assert_array_equal(array, x * (2 * number))


def test_results_can_be_inputs_and_outlive_the_executable() -> None:
    double = executable()
    value = np.ones((ROWS, COLUMNS), np.float32)
    for _ in range(5):
        value = double(value)
    del double
    gc.collect()
    assert isinstance(value, np.ndarray)
    np.testing.assert_array_equal(value, np.full((ROWS, COLUMNS), 32, np.float32))
    value += 1  # the memory is still valid
    assert float(value[0, 0]) == 33


def test_results_are_right_under_many_threads() -> None:
    double, wrong = executable(), []

    def work(seed: int) -> None:
        last, expected = None, np.zeros(1, np.float32)
        for step in range(60):
            number = np.float32(seed * 100 + step)
            result = double(np.full((ROWS, COLUMNS), number, np.float32))
            if last is not None and not (last == expected).all():
                wrong.append((seed, step))
            last, expected = result, 2 * number

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
