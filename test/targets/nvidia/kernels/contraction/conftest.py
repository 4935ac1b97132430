"""Fixtures of the tests of contractions: products of two matrices with given tiles, as PTX and on the simulator."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from mlir import ir
from mlir.dialects import gpu, vector
from stepwell.dialects import discardable
from stepwell.runtime.cuda.assembler import find_assembler
from stepwell.runtime.launch_plan import BufferSlice, TensorMap
from stepwell.targets.nvidia.instructions.integers import Int, both
from stepwell.targets.nvidia.instructions.loops import when
from stepwell.targets.nvidia.instructions.memory import element_pointer, global_memory, store
from stepwell.targets.nvidia.kernels.contraction import block, wgmma
from stepwell.targets.nvidia.kernels.contraction.access import OperandAccess
from stepwell.targets.nvidia.kernels.contraction.boxes import BoxedTile, box_of
from stepwell.targets.nvidia.kernels.contraction.choose import shared_bytes
from stepwell.targets.nvidia.kernels.contraction.copies import converted
from stepwell.targets.nvidia.kernels.contraction.tiles import Problem, Tiling
from stepwell.targets.nvidia.pipelines import nvvm_pipeline
from stepwell.targets.nvidia.ptx import ptx_of
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.harness import simulate
from stepwell.targets.nvidia.target import GpuTarget

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32}
TYPES |= {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}
_RAW = {2: np.uint16, 1: np.uint8}


@dataclass(frozen=True)
class Product:
    """A product of matrices and its schedule.

    Attributes:
        problem: sizes of the product.
        tiling: sizes of the tiles.
        compute: type of the operands in the multiply-add instructions.
        types: element types of left-hand side, right-hand side and result.
        lhs_transposed: whether the left-hand side is stored as [depth, rows].
        rhs_transposed: whether the right-hand side is stored as [depth, columns].
        blocks: number of blocks, if each computes several tiles.
    """

    problem: Problem
    tiling: Tiling
    compute: str
    types: tuple[str, str, str]
    lhs_transposed: bool = False
    rhs_transposed: bool = True
    blocks: int = 1


Write = Callable[[Int, Int, Int, list[ir.Value]], None]


def ptx(product: Product, architecture: str) -> str:
    """Returns the code of a product, as a kernel `k` of lhs, rhs and result."""
    problem, tiling = product.problem, product.tiling
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(module.body):
            code = gpu.GPUModuleOp("m.gpu").bodyRegion.blocks.append()
        kinds = [ir.Type.parse(name) for name in product.types]
        sizes = ((problem.rows, problem.depth), (problem.columns, problem.depth), (problem.rows, problem.columns))
        buffers = [
            ir.MemRefType.get([problem.batch * math.prod(size)], kind) for size, kind in zip(sizes, kinds, strict=True)
        ]
        is_boxed = tiling.method == "wgmma"
        pointer = ir.Type.parse("!llvm.ptr")
        arguments = [*buffers, pointer, pointer] if is_boxed else buffers
        with ir.InsertionPoint(code):
            kernel = gpu.GPUFuncOp(
                ir.FunctionType.get(arguments, []), "k", kernel=True, known_block_size=[tiling.threads, 1, 1]
            )
        if is_boxed:
            discardable.TENSOR_MAPS.write(kernel, 2)
            kernel.operation.attributes["nvvm.minctasm"] = ir.Attribute.parse("1 : i32")
        with ir.InsertionPoint(kernel.add_entry_block()):
            _body(product, kinds, list(kernel.entry_block.arguments))
            gpu.return_([])
        nvvm_pipeline(f"cuda:{architecture}").run(module)
        return ptx_of(module.body.operations[0].operation, GpuTarget.parse(f"cuda:{architecture}"))


def accesses(product: Product) -> tuple[OperandAccess, OperandAccess]:
    """Returns the access of both operands."""
    problem = product.problem
    bytes = [np.dtype(TYPES[name]).itemsize for name in product.types]
    lhs = OperandAccess.matrix(bytes[0], problem.rows, problem.depth, product.lhs_transposed, problem.batch)
    rhs = OperandAccess.matrix(bytes[1], problem.columns, problem.depth, product.rhs_transposed, problem.batch)
    return lhs, rhs


def _body(product: Product, kinds: list[ir.Type], arguments: list[ir.Value]) -> None:
    problem, tiling = product.problem, product.tiling
    result, write_bytes = global_memory(arguments[2]), np.dtype(TYPES[product.types[2]]).itemsize

    def write(batch: Int, row: Int, column: Int, sums: list[ir.Value]) -> None:
        start = (batch * problem.rows + row) * problem.columns + column
        width = math.gcd(len(sums), problem.columns)
        for first in range(0, len(sums), width):
            part = vector.from_elements(ir.VectorType.get([width], sums[0].type), sums[first : first + width])
            part = part if isinstance(kinds[2], ir.IntegerType) else converted(part, kinds[2])
            with when(both(row.below(problem.rows), (column + first).below(problem.columns))):
                store(part, element_pointer(result, kinds[2], start + first), width * write_bytes)

    lhs, rhs = accesses(product)
    if tiling.method == "wgmma":
        tiles = [
            BoxedTile(access, pointer, size, tiling.depth)
            for access, pointer, size in zip((lhs, rhs), arguments[3:], (tiling.rows, tiling.columns), strict=True)
        ]
        width = 8 if write_bytes == 2 else 4
        wgmma.emit(problem, tiling, product.compute, tiles[0], tiles[1], write, width, product.blocks)
        return
    sources = [
        block.OperandSource(access, kind, global_memory(argument))
        for access, kind, argument in zip((lhs, rhs), kinds, arguments, strict=False)
    ]
    width = max(1, 16 // write_bytes)
    block.emit(
        problem,
        tiling,
        product.compute,
        sources[0],
        sources[1],
        write,
        width,
    )


def operands(product: Product) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns random operands in their memory layout, and their product in double precision."""
    problem, random = product.problem, np.random.default_rng(0)

    def make(rows: int, kind: str, turned: bool) -> np.ndarray:
        shape = (problem.batch, *((problem.depth, rows) if turned else (rows, problem.depth)))
        return (random.integers(-20, 20, shape) if kind == "i8" else random.standard_normal(shape)).astype(TYPES[kind])

    lhs = make(problem.rows, product.types[0], product.lhs_transposed)
    rhs = make(problem.columns, product.types[1], product.rhs_transposed)
    left = lhs.swapaxes(1, 2) if product.lhs_transposed else lhs
    right = rhs if product.rhs_transposed else rhs.swapaxes(1, 2)
    return lhs, rhs, left.astype(np.float64) @ right.astype(np.float64)


def run(
    product: Product, architecture: str = "sm_80", change: Callable[[str], str] = str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the product that the simulator computes from the changed code, and the expected one."""
    lhs, rhs, want = operands(product)
    got = np.zeros(want.shape, TYPES[product.types[2]])
    tiling = product.tiling
    in_shared = 4 if product.compute in ("f32", "tf32") else 2 if "f16" in product.compute else 1
    is_boxed = tiling.method == "wgmma"
    blocks = product.blocks if is_boxed else block.geometry(product.problem, tiling, in_shared).blocks
    geometry = GridGeometry((blocks, 1, 1), (tiling.threads, 1, 1), shared_bytes=shared_bytes(tiling, in_shared))
    raw = [item.view(_RAW[item.itemsize]) if item.dtype.kind == "V" else item for item in (lhs, rhs, got)]
    maps = [_map(product, side, array) for side, array in enumerate(raw[:2])] if is_boxed else []
    simulate(change(ptx(product, architecture)), "k", geometry, [*raw, *maps], outputs={2})
    return got.astype(np.float64), want


def _map(product: Product, side: int, array: np.ndarray) -> TensorMap:
    size = (product.tiling.rows, product.tiling.columns)[side]
    box = box_of(accesses(product)[side], size, product.tiling.depth)
    assert box is not None
    element = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}.get(product.types[side], "uint8")
    return TensorMap(
        element, box.sizes, box.strides, box.box, swizzle=128, buffer=BufferSlice("input", side, 0, array.nbytes)
    )


@pytest.fixture(scope="session")
def assembled() -> Callable[[str, str, Path], str]:
    """Returns ptxas's report on a module; skips the test if there is no ptxas."""
    tool = find_assembler()

    def assemble(text: str, architecture: str, folder: Path) -> str:
        if tool is None:
            pytest.skip("there is no ptxas to ask: install nvidia-cuda-nvcc")
        (folder / "k.ptx").write_text(text)
        command = [str(tool), "-v", f"-arch={architecture}", str(folder / "k.ptx"), "-o", str(folder / "k.cubin")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    return assemble


def spills(report: str) -> int:
    """Returns the number of spilled bytes in a report."""
    return sum(int(count) for count in re.findall(r"(\d+) bytes spill", report))
