"""Calls: accepted inputs, the messages of refused ones, threads, and shapes compiled on demand."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import timeit
from dataclasses import replace

import numpy as np
import pytest
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.runtime.program import TensorInfo
from stepwell.support.errors import ArtefactError, InputError, ShapeError

F32 = np.dtype(np.float32)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
DYNAMIC = (TensorInfo("x", F32, ("n", "m")),), (TensorInfo("y", F32, ("n", "m")), TensorInfo("threads", F32, ()))


@pytest.fixture
def executable(program):
    made = program()
    return Executable(CompiledModel(made.inputs, made.outputs, [made]))


def test_inputs_by_position_and_by_name(executable, reference):
    for y, _ in (executable(X), executable(x=X)):
        np.testing.assert_array_equal(y, reference(X))
    assert executable.inputs[0] == TensorInfo("x", F32, (2, 3))
    assert executable.peak_bytes == 24


def test_one_output_comes_without_a_tuple(program, reference):
    made = program()
    # The table still has a slot for the second output: it is passed as the first parameter.
    single = replace(made, outputs=made.outputs[:1], parameters={"threads": np.zeros(1, np.int32), **made.parameters})
    np.testing.assert_array_equal(Executable(CompiledModel(single.inputs, single.outputs, [single]))(X), reference(X))


class Foreign:
    """A tensor of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    "given",
    [
        Foreign(X.copy()),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
    ids=["dlpack", "fortran", "strided", "misaligned"],
)
def test_any_layout_is_taken(executable, reference, given):
    np.testing.assert_array_equal(executable(given)[0], reference(X))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"input 'x' is missing; the inputs are x: float32\[2, 3\]"),
        ((X, X), {}, r"the model takes 1 input, but 2 were given: "),
        ((X,), {"x": X}, "by position and by name"),
        ((), {"z": X}, "no input is called 'z'; the inputs are x"),
        ((X.astype(np.float64),), {}, "input 'x' must be float32, but is float64"),
        ((X.astype(">f4"),), {}, "input 'x' must be float32"),
        ((X.reshape(6),), {}, r"must have 2 dimensions \(x: float32\[2, 3\]\), but has shape \(6,\)"),
        ((X.reshape(3, 2),), {}, r"must have 2 in dimension 0 .*, but has shape \(3, 2\)"),
        (([[1.0, 2.0, 3.0]],), {}, "must be a numpy array or have __dlpack__ .*, but is of type list"),
    ],
)
def test_wrong_inputs_say_what_was_expected_and_what_came(executable, args, kwargs, message):
    with pytest.raises(InputError, match=message):
        executable(*args, **kwargs)


@pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")
def test_shapes_are_compiled_once_on_demand(program, reference):
    asked = []

    def specialize(shapes, contents, why):
        asked.append(shapes)
        return program(*shapes[0])

    executable = Executable(CompiledModel(*DYNAMIC, specialize=specialize))
    for shape in ((2, 3), (4, 5), (2, 3), (1, 1)):
        x = np.ones(shape, np.float32)
        np.testing.assert_array_equal(executable(x)[0], reference(x))
    assert asked == [((2, 3),), ((4, 5),), ((1, 1),)]
    assert executable.prepare({"x": (4, 5)}).arena_bytes == 80 == executable.peak_bytes
    with pytest.raises(InputError, match="has no fixed shape"):
        executable.prepare({})
    with pytest.raises(InputError, match="no input is called 'y'"):
        executable.prepare({"y": (1,)})


def test_unknown_shapes_without_a_compiler_list_those_there(program):
    executable = Executable(CompiledModel(*DYNAMIC, [program(2, 3), program(4, 5)]))
    with pytest.raises(ShapeError, match=r"no code for x=7x7, .* there is code for: x=2x3; x=4x5"):
        executable(np.ones((7, 7), np.float32))


def test_a_symbol_is_one_number_everywhere():
    inputs = (TensorInfo("a", F32, ("n",)), TensorInfo("b", F32, (2, "n")))
    with pytest.raises(InputError, match=r"'b' must have 3 as in input 'a' in dimension 1"):
        Executable(CompiledModel(inputs, inputs))(np.ones(3, np.float32), np.ones((2, 4), np.float32))


@pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")
def test_calls_from_many_threads_do_not_mix(program, reference):
    executable = Executable(CompiledModel(*DYNAMIC, specialize=lambda shapes, contents, why: program(*shapes[0])))
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(200):
            x = random.random((random.integers(1, 4), 5), np.float32)
            if not np.array_equal(executable(x)[0], reference(x)):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(executable.programs) == 3


def test_each_executable_keeps_its_number_of_threads(program):
    made = program()
    one, three = (Executable(CompiledModel(made.inputs, made.outputs, [made]), threads=count) for count in (1, 3))
    assert [int(item(X)[1]) for item in (one, three, one)] == [1, 3, 1]


def test_a_call_costs_microseconds(executable):
    assert min(timeit.repeat(lambda: executable(X), timer=time.thread_time, number=1000, repeat=5)) / 1000 < 50e-6


def test_the_runtime_needs_no_mlir():
    code = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mlir", "onnx", "platformdirs"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
import stepwell.runtime.executable, stepwell.runtime.cache.cache
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_code_for_another_machine_is_made_but_not_run(program):
    made = program()
    foreign = replace(made, target=replace(made.target, triple="riscv64-unknown-linux-gnu"))
    executable = Executable(CompiledModel(made.inputs, made.outputs, specialize=lambda shapes, contents, why: foreign))
    assert executable.prepare({}) is foreign
    with pytest.raises(ArtefactError, match=r"the code is for .*riscv64-unknown-linux-gnu"):
        executable(X)


class Broken:
    """An object whose export raises an unrelated exception."""

    def __dlpack__(self, **options):
        raise KeyError("gone")

    def __dlpack_device__(self):
        return (1, 0)


def test_inputs_of_other_machines_and_broken_exports_are_refused(executable):
    with pytest.raises(InputError, match="float32 in non-native byte order"):
        executable(X.astype(X.dtype.newbyteorder()))
    with pytest.raises(InputError, match="cannot be read through __dlpack__"):
        executable(Broken())


@pytest.mark.parametrize("shape", [(-2, 3), ("a", 3), (2.5, 3), None])
def test_shapes_to_prepare_are_numbers(program, shape):
    made = program()
    with pytest.raises(InputError, match="the shape of input 'x' must"):
        Executable(CompiledModel(made.inputs, made.outputs, [made])).prepare({"x": shape})


@pytest.mark.parametrize("threads", [0, -1, 1 << 40, 2.5, "two"])
def test_a_number_of_threads_is_a_number(program, threads):
    made = program()
    with pytest.raises(InputError, match="threads is"):
        Executable(CompiledModel(made.inputs, made.outputs, [made]), threads=threads)
