# %% [markdown]
# # Chapter 5: add a target
#
# A target is a machine that code is made for. Another package adds a family of targets with two classes: a `Backend`
# generates code, and a `Loader` runs it. This chapter adds the family `counted` in one file: this machine's CPU, with a
# call into Python at the start of each kernel, which counts. It touches all places that a new machine needs, and leaves
# the hard part, code for a machine that is no CPU, to a [complete package](plugins/cube_target): a matrix accelerator
# with instructions, a simulator and cycles.

# %%
import ctypes
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import stepwell
from mlir import ir
from stepwell.lowering import invariants
from stepwell.lowering.target import Target
from stepwell.lowering.target_names import TargetError
from stepwell.passes.infra.base import Pass, register
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.runtime.devices.native import NativeLoader
from stepwell.runtime.program import CodeTarget, Program
from stepwell.targets.base import Backend, Phase
from stepwell.targets.cpu import CpuBackend
from stepwell.targets.name_kernels import NameKernelsPass
from stepwell.targets.registry import backend_of

HOST = "cpu"
DEVICE = "counted:cpu"

# %% [markdown]
# ## The machine
#
# A `Target` has the numbers that schedules and LLVM need: vector width, registers, features. `device` says what runs
# the code; the part before the colon is the family.


# %%
@dataclass(frozen=True)
class CountedTarget(Target):
    """This machine's CPU, with counted kernels."""

    device: ClassVar[str] = DEVICE


# %% [markdown]
# ## A pass
#
# Kernels are functions of the LLVM dialect after the CPU's last phase. This pass lets each call an external function of
# its own.


# %%
@register
@dataclass(frozen=True)
class CountCallsPass(Pass):
    """Call `count_NAME` at the start of each kernel.

    Preconditions: LLVM dialect.
    """

    name = "ladder-count-calls"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Adds the calls and declarations."""
        (body,) = op.regions[0].blocks
        for function in list(body.operations):
            name = str(function.attributes["sym_name"]).strip('"') if "sym_name" in function.attributes else ""
            if not name.startswith("kernel_") or not function.regions[0].blocks:
                continue
            source = ir.Module.parse(
                f"llvm.func @count_{name}()\n"
                f"llvm.func @caller() {{\n  llvm.call @count_{name}() : () -> ()\n  llvm.return\n}}"
            )
            declaration, caller = source.body.operations
            declaration.operation.clone(ip=ir.InsertionPoint.at_block_begin(body))
            (call, _) = caller.regions[0].blocks[0].operations
            call.operation.clone(ip=ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]))


# %% [markdown]
# ## The backend
#
# The backend lists the machine's part of the *route*: the pipelines to the graph level and to kernels, the phases from
# there on, and the code generator at the end. The compiler, `stepwell-opt`, bisection and all other tools take it from
# here. This backend follows the host's, and adds a phase.


# %%
class CountedBackend(Backend):
    """Code for this machine's CPU, with counted kernels."""

    family = "counted"
    placed = CpuBackend.placed
    call_attributes = CpuBackend.call_attributes

    def names(self) -> Sequence[str]:
        """Returns the only target."""
        return (DEVICE,)

    def target(self, name: str) -> CountedTarget:
        """Returns this machine."""
        if name != DEVICE:
            raise TargetError(f"unknown target '{name}'; known is {DEVICE}")
        return CountedTarget(**vars(Target.parse(HOST)))

    def graph(self, name: str) -> Pipeline:
        """Returns the host's pipeline."""
        return backend_of(HOST).graph(HOST)

    def form_kernels(self, name: str) -> Pipeline:
        """Returns the host's pipeline; the names of kernels, under which code is cached, depend on the target."""
        passes = backend_of(HOST).form_kernels(HOST).elements
        return Pipeline(replace(item, target=name) if isinstance(item, NameKernelsPass) else item for item in passes)

    def lower_kernels(self, name: str) -> Pipeline:
        """Returns the host's pipeline."""
        return backend_of(HOST).lower_kernels(HOST)

    def phases(self) -> Sequence[Phase]:
        """Returns the host's phases, and one more."""
        host = [replace(phase, pipeline=lambda name, phase=phase: phase.pipeline(HOST)) for phase in _host_phases()]
        counted = Phase("counted", "kernels count their calls", lambda name: _COUNTED, invariants.check_llvm)
        return (*host, counted)

    def emit(self, module: ir.Module, name: str, state: CompileState, threads: int) -> dict[str, bytes]:
        """Returns the objects of the host."""
        return backend_of(HOST).emit(module, HOST, state, threads)

    def assembly(self, module: ir.Module, name: str, threads: int) -> dict[str, str]:
        """Returns the host's machine code."""
        return backend_of(HOST).assembly(module, HOST, threads)


_COUNTED = Pipeline((CountCallsPass(),))


def _host_phases() -> Sequence[Phase]:
    return backend_of(HOST).phases()


# %% [markdown]
# ## The loader
#
# The loader belongs to the runtime: it says whether a program runs on this machine, and makes it callable. It must not
# import MLIR, so in a package it is in another module than the backend. Here it extends the loader of native code, and
# provides the functions that the kernels call.

# %%
CALLS: Counter[str] = Counter()
_FUNCTIONS: list[object] = []  # functions that native code calls must stay alive


class CountedLoader(NativeLoader):
    """Loads native code that counts."""

    links = False  # a shared library cannot refer to functions of this process

    def rank(self, target: CodeTarget) -> tuple[int, int]:
        """Returns a key below that of the plain CPU: counting must be asked for."""
        return -1, 0

    def symbols(self, program: Program) -> Mapping[str, int]:
        """Returns the addresses of the counting functions."""
        addresses = {}
        for kernel in program.kernels:
            function = ctypes.CFUNCTYPE(None)(lambda kernel=kernel: CALLS.update([" ".join(kernel.ops)]))
            _FUNCTIONS.append(function)
            addresses[f"count_{kernel.name}"] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return addresses


# %% [markdown]
# ## Make it known
#
# A package names a module with two functions in its `pyproject.toml`:
#
#     [project.entry-points."stepwell.targets"]
#     counted = "counted_target"
#
# As this chapter is a script and not an installed package, it writes the two files that `pip` would, and names itself
# as the module.


# %%
def backend() -> CountedBackend:
    """Returns what generates code for the targets `counted:...`."""
    return CountedBackend()


def loader() -> CountedLoader:
    """Returns what runs programs for the targets `counted:...`."""
    return CountedLoader()


folder = Path("build/ladder/ch5")
(folder / "counted-1.dist-info").mkdir(parents=True, exist_ok=True)
(folder / "counted-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1\n")
(folder / "counted-1.dist-info" / "entry_points.txt").write_text("[stepwell.targets]\ncounted = __main__\n")
sys.path.append(str(folder))

# %% [markdown]
# ## Use it
#
# From here on the target is like any other:

# %%
MODEL = """
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32> loc("product")
  %1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<8x32xf32>) -> tensor<8x32xf32> loc("choice")
  return %1 : tensor<8x32xf32>
}
"""
random = np.random.default_rng(0)
x, w = random.standard_normal((8, 64), np.float32) / 8, random.standard_normal((64, 32), np.float32)
counted = stepwell.compile(MODEL.encode(), target=DEVICE, threads=1, options=stepwell.Options(cache=False))
for _ in range(3):
    result = counted(x, w)
np.testing.assert_array_equal(result, stepwell.compile(MODEL.encode())(x, w))
print(counted.programs[0].target.device)
for ops, calls in sorted(CALLS.items()):
    print(f"{ops}: {calls} calls")
# > counted:cpu
# > choice: 3 calls
# > product: 3 calls

# %% [markdown]
# ## What else to know
#
# A real accelerator has its own phases in place of the CPU's, from tiles to instructions, and kernels that it cannot
# compute stay on the CPU: [writing a target](../docs/writing-a-target.md).
#
# This is the last chapter. [Architecture](../docs/architecture.md) shows the whole, and the [index of the
# documentation](../docs/README.md) what to read next.
