"""Objects loaded into this process without LLVM: references between them, and errors."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stepwell.runtime import processor
from stepwell.runtime.artefact import store
from stepwell.runtime.cache.cache import Cache
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.runtime.native import elf, loader, orc
from stepwell.runtime.native.elf_image import UnsupportedObjectError
from stepwell.runtime.program import Program
from stepwell.support.errors import NativeCodeError
from stepwell.support.packages import llvm_file

pytestmark = pytest.mark.skipif(not elf.is_supported(), reason="this machine's objects are of another kind")

_COUNTER = """
@count = internal global i64 40
@calls = internal global i64 0
define i64 @add(i64 %step) {
  %calls = load i64, ptr @calls
  %more = add i64 %calls, 1
  store i64 %more, ptr @calls
  %old = load i64, ptr @count
  %new = add i64 %old, %step
  store i64 %new, ptr @count
  ret i64 %new
}
define i64 @called() {
  %calls = load i64, ptr @calls
  ret i64 %calls
}
"""
_CALLER = """
declare i64 @add(i64)
declare i64 @labs(i64)
@table = internal constant [2 x ptr] [ptr @add, ptr @labs]
define i64 @twice(i64 %step) {
  %first = call i64 @add(i64 %step)
  %second = call i64 @add(i64 %step)
  ret i64 %second
}
define i64 @absolute(i64 %value) {
  %result = call i64 @labs(i64 %value)
  ret i64 %result
}
define i64 @by_table(i64 %which, i64 %value) {
  %place = getelementptr ptr, ptr @table, i64 %which
  %function = load ptr, ptr %place
  %result = call i64 %function(i64 %value)
  ret i64 %result
}
define ptr @address_of_labs() {
  ret ptr @labs
}
"""


@functools.cache
def _object(text: str) -> bytes:
    llc = llvm_file("bin/llc")
    triple = f"{processor.architecture()}-unknown-linux-gnu"
    command = [str(llc), "-filetype=obj", "-relocation-model=pic", f"-mtriple={triple}", "-o", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def _function(code: elf.ElfCode, name: str) -> Callable[..., int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * (2 if name == "by_table" else 1))(code.address(name))


def test_objects_share_functions_and_each_has_its_data() -> None:
    code = elf.ElfCode({"counter": _object(_COUNTER), "caller": _object(_CALLER)})
    assert _function(code, "twice")(1) == 42
    assert _function(code, "add")(8) == 50
    assert _function(code, "called")(0) == 3
    again = elf.ElfCode({"caller": _object(_CALLER), "counter": _object(_COUNTER)})
    assert _function(again, "called")(0) == 0


def test_functions_of_the_process_are_called_and_their_addresses_known() -> None:
    code = elf.ElfCode({"counter": _object(_COUNTER), "caller": _object(_CALLER)})
    assert _function(code, "absolute")(-5) == 5
    assert _function(code, "by_table")(1, -7) == 7
    assert _function(code, "by_table")(0, 2) == 42
    assert _function(code, "address_of_labs")(0) == ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([_CALLER], "'add' is defined neither in the objects nor in the process"),
        ([_COUNTER, _COUNTER], "the symbol 'add' is defined twice"),
    ],
)
def test_negative_symbols_that_are_missing_or_there_twice(texts: list[str], reason: str) -> None:
    with pytest.raises(NativeCodeError, match=reason):
        elf.ElfCode({str(number): _object(text) for number, text in enumerate(texts)})


def test_negative_an_undefined_symbol_has_no_address() -> None:
    with pytest.raises(NativeCodeError, match="no object defines 'nothing'"):
        elf.ElfCode({"counter": _object(_COUNTER)}).address("nothing")


def test_negative_damaged_objects_are_refused_whatever_is_cut_off() -> None:
    data = _object(_COUNTER)
    for size in range(0, len(data), 7):
        with pytest.raises(NativeCodeError):
            elf.ElfCode({"counter": data[:size]})
    with pytest.raises(NativeCodeError, match="not a relocatable ELF object"):
        elf.ElfCode({"counter": b"MZ" + data[2:]})


def test_objects_that_need_llvm_are_linked_by_llvm(program: Callable[..., Program]) -> None:
    made = program()
    variable = "@v = thread_local(initialexec) global i64 7\n"
    with pytest.raises(UnsupportedObjectError, match="thread-local"):
        elf.ElfCode({"variable": _object(variable)})
    unusual = replace(made, objects={**made.objects, "variable": _object(variable)})
    assert isinstance(loader.load(made).owner, elf.ElfCode)
    assert isinstance(loader.load(unusual).owner, orc.OrcCode)
    executable = Executable(CompiledModel(unusual.inputs, unusual.outputs, [unusual]))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(executable(x)[0], np.arange(6, dtype=np.float32).reshape(2, 3) + 0.5)


_START = """
import sys
import numpy as np
from stepwell.runtime.artefact import store
from stepwell.runtime.cache.cache import Cache
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
program = store.get_program(Cache(sys.argv[1]), "key")
Executable(CompiledModel(program.inputs, program.outputs, [program]), threads=1)(np.ones((2, 3), np.float32))
print("libLLVM" in open("/proc/self/maps").read())
"""


def test_a_start_from_the_cache_needs_no_llvm(program: Callable[..., Program], tmp_path: Path) -> None:
    store.put_program(Cache(tmp_path), "key", program())
    command = [sys.executable, "-c", _START, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
