"""Objects: they compute the right results, use no foreign symbols, and can be made for other machines."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from mlir import ir
from stepwell.lowering import llvm
from stepwell.lowering.llvm_to_object.codegen import CodegenError, assembly, emit_objects
from stepwell.lowering.target import Target
from stepwell.runtime.native import orc

SHAPE = (64, 128)
FOREIGN = {"clock_gettime", "memcpy", "memmove", "memset", "sched_yield", "syscall"}
FUNCTIONS = ["add", "double", "stepwell_work", "stepwell_main"]

INVALID = """
define i32 @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 1
  br label %b
b:
  ret i32 %x
}
"""


class Runner:
    """Calls `stepwell_main` with its own table of arguments."""

    def __init__(self, code: orc.OrcCode, arena_bytes: int, w: np.ndarray) -> None:
        self._entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("stepwell_main"))
        self._code, self._arena_bytes, self._w = code, arena_bytes, w

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y, z, arena = np.zeros(SHAPE, np.float32), np.zeros(8192, np.float32), np.zeros(self._arena_bytes, np.uint8)
        addresses = [array.ctypes.data for array in (x, y, z, self._w, arena)]
        self._entry((ctypes.c_void_p * 6)(*addresses, None))
        return y, z


@pytest.fixture
def run(lowered) -> Runner:
    with lowered() as module:
        objects = emit_objects(module, Target.host())
        assert list(objects) == FUNCTIONS
        arena_bytes = ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value
    return Runner(orc.load_objects(objects), arena_bytes, np.random.default_rng(0).random(SHAPE, np.float32))


def check(run: Runner, x: np.ndarray) -> None:
    y, z = run(x)
    doubled = 2 * (x + run._w)
    np.testing.assert_array_equal(z, doubled.ravel())
    np.testing.assert_array_equal(y, doubled + x)


def test_objects_compute(run: Runner) -> None:
    check(run, np.random.default_rng(0).random(SHAPE, np.float32))


@pytest.mark.parametrize(
    ("target", "machine"), [("x86-64-v3", "x86-64"), ("x86-64-v4", "x86-64"), ("aarch64", "aarch64")]
)
def test_objects_for_other_machines(lowered, tmp_path, target: str, machine: str) -> None:
    with lowered(target=target) as module:
        objects = emit_objects(module, Target.parse(target))
    for name, data in objects.items():
        path = tmp_path / f"{name}.o"
        path.write_bytes(data)
        header = subprocess.run([llvm.tool("llvm-objdump"), "-f", path], check=True, capture_output=True, text=True)
        assert f"elf64-{'littleaarch64' if machine == 'aarch64' else 'x86-64'}" in header.stdout
        needed = symbols(path, "--undefined-only")
        assert needed <= FOREIGN | objects.keys()
        assert symbols(path, "--defined-only", "--extern-only") == {name}


NARROW = """
func.func private @narrow(%x: tensor<16xbf16>, %out: tensor<16xbf16>) -> tensor<16xbf16> {
  %zero = arith.constant 0.0 : bf16
  %c0 = arith.constant 0 : index
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : tensor<16xbf16>, vector<16xbf16>
  %product = arith.mulf %a, %a : vector<16xbf16>
  %w = vector.transfer_write %product, %out[%c0] {in_bounds = [true]} : vector<16xbf16>, tensor<16xbf16>
  return %w : tensor<16xbf16>
}
func.func @main(%x: tensor<16xbf16>) -> tensor<16xbf16> {
  %d = tensor.empty() : tensor<16xbf16>
  %0 = func.call @narrow(%x, %d) : (tensor<16xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
  return %0 : tensor<16xbf16>
}
"""


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "cpu"])
def test_narrow_floats_need_no_library(lowered, tmp_path, target: str) -> None:
    with lowered(NARROW, target) as module:
        objects = emit_objects(module, Target.parse(target))
    path = tmp_path / "narrow.o"
    path.write_bytes(objects["narrow"])
    assert not symbols(path, "--undefined-only")


def symbols(path, *flags: str) -> set[str]:
    listed = subprocess.run(
        [llvm.tool("llvm-nm"), "--format=just-symbols", *flags, path], check=True, capture_output=True, text=True
    )
    return set(listed.stdout.split())


def test_assembly_uses_the_whole_register(lowered) -> None:
    with lowered() as module:
        assert "%zmm" in assembly(module, "double", Target.parse("x86-64-v4"))
        code = assembly(module, "double", Target.parse("x86-64-v3"))
        assert "%ymm" in code and "%zmm" not in code
        with pytest.raises(CodegenError, match=f"there is no function 'triple'; there are: {', '.join(FUNCTIONS)}"):
            assembly(module, "triple", Target.host())


def test_objects_are_the_same_every_time(lowered) -> None:
    made = []
    for _ in range(2):
        with lowered() as module:
            made.append(emit_objects(module, Target.parse("x86-64-v3")))
    assert made[0] == made[1]


def test_errors_are_exceptions() -> None:
    with llvm.machine(*llvm.host()) as machine:
        with pytest.raises(llvm.LLVMError, match="expected type"):
            llvm.LlvmModule("define nothing", machine)
        with pytest.raises(llvm.LLVMError, match="does not dominate all uses"):
            llvm.LlvmModule(INVALID, machine)
        module = llvm.LlvmModule("define void @f() {\n ret void\n}", machine)
        with pytest.raises(llvm.LLVMError, match="no-such-pass"):
            module.optimize("no-such-pass")
        module.close()
    with pytest.raises(llvm.LLVMError, match="No available targets"):
        llvm.TargetMachine("sparc-unknown-linux", "", "")
    with pytest.raises(orc.NativeCodeError, match="no_such_symbol"):
        orc.load_objects({}).address("no_such_symbol")
