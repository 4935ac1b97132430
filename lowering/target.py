"""Targets of code generation: a CPU or a GPU, reduced to the few numbers that schedules and LLVM need."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass, replace

from ..support.short_repr import short_repr
from .llvm_to_object import llvm
from .target_names import X86_LEVELS, TargetError, split_precision, unknown_target

# Levels of the x86-64 psABI, each with its additions to the level before.
_X86_V2 = ("+cx16", "+popcnt", "+sahf", "+sse3", "+sse4.1", "+sse4.2", "+ssse3")
_X86_V3 = (*_X86_V2, "+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe", "+xsave")
_X86_V4 = (*_X86_V3, "+avx512bw", "+avx512cd", "+avx512dq", "+avx512f", "+avx512vl")
_X86_LEVELS = dict(zip(X86_LEVELS, (_X86_V2, _X86_V3, _X86_V4), strict=True))
_X86_TRIPLE, _ARM_TRIPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_CUDA_TRIPLE = "nvptx64-nvidia-cuda"

# One addition of more lanes than any register has: the registers in its machine code reveal the width.
_PROBE = """
define void @probe(ptr %x) {
  %v = load <32 x float>, ptr %x
  %s = fadd <32 x float> %v, %v
  store <32 x float> %s, ptr %x
  ret void
}
"""


@dataclass(frozen=True)
class Capability:
    """Capabilities of an NVIDIA GPU and resources of one of its multiprocessors.

    Attributes:
        sm: compute capability as a number, 90 for 9.0.
        is_specific: whether code may use features of this very architecture alone, such as wgmma in `sm_90a`.
        shared_bytes: maximum shared memory of one block in bytes.
        multiprocessor_shared_bytes: shared memory of a multiprocessor in bytes; each block takes 1 KiB more.
        multiprocessor_threads: maximum number of threads on a multiprocessor.
        multiprocessors: number on the largest chip of this kind, which a grid should keep busy.
        registers: number of 32-bit registers of a multiprocessor.
    """

    sm: int
    is_specific: bool
    shared_bytes: int
    multiprocessor_shared_bytes: int
    multiprocessor_threads: int
    multiprocessors: int
    registers: int = 65536

    @property
    def has_wgmma(self) -> bool:
        """True if warp groups multiply matrices in shared memory by `wgmma`."""
        return self.sm == 90 and self.is_specific

    @property
    def has_tensor_copies(self) -> bool:
        """True if the copy engine moves boxes of tensors (TMA), and blocks form clusters."""
        return self.sm >= 90

    @property
    def has_float8(self) -> bool:
        """True if tensor cores multiply 8-bit floats."""
        return self.sm >= 89


# From the CUDA programming guide's table of compute capabilities; multiprocessors of A100, A10, L40, H100/H200, B200.
_CAPABILITIES = {
    "sm_80": Capability(80, False, 163 * 1024, 164 * 1024, 2048, 108),
    "sm_86": Capability(86, False, 99 * 1024, 100 * 1024, 1536, 72),
    "sm_89": Capability(89, False, 99 * 1024, 100 * 1024, 1536, 142),
    "sm_90a": Capability(90, True, 227 * 1024, 228 * 1024, 2048, 132),
    "sm_100a": Capability(100, True, 227 * 1024, 228 * 1024, 2048, 148),
}
# The oldest versions of PTX that support these architectures: any driver that supports the device reads them.
_PTX = {"sm_80": "+ptx80", "sm_86": "+ptx80", "sm_89": "+ptx80", "sm_90a": "+ptx80", "sm_100a": "+ptx86"}
_ACCESS_BYTES, _THREAD_REGISTERS = 16, 255


@short_repr
@dataclass(frozen=True)
class Target:
    """A machine to generate code for.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's CPU name, for instruction timings and as the base of the features.
        features: features that LLVM may use or must avoid, as sorted `+name` and `-name`.
        vector_bytes: width of a vector register in bytes; for a GPU, of a thread's widest memory access.
        vector_registers: number of vector registers; for a GPU, of 32-bit registers per thread.
        capability: capabilities of a GPU; None for a CPU.
        precision: precision in which products of float32 are computed, one of `PRECISIONS`.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    capability: Capability | None = None
    precision: str = "f32"

    @staticmethod
    @functools.cache
    def host() -> Target:
        """Returns the target for this machine."""
        triple, cpu, features = llvm.host()
        return _measured(triple, cpu, tuple(sorted(filter(None, features.split(",")), key=lambda item: item[1:])))

    @staticmethod
    def parse_gpu(text: str) -> Target:
        """Returns a GPU by its name.

        Raises:
            TargetError: there is no such target, or it is not a GPU.
        """
        target = Target.parse(text)
        if not target.is_gpu:
            raise TargetError(f"'{text}' is not a GPU")
        return target

    @staticmethod
    @functools.cache
    def parse(text: str) -> Target:
        """Returns a target by its name.

        Names are `cpu` (this machine), `cpu:NAME` (one of LLVM's CPU names, for this architecture), `x86-64-v2`,
        `x86-64-v3`, `x86-64-v4`, `aarch64`, `aarch64:NAME`, `cuda:sm_80` and other GPUs of NVIDIA. The precision of
        products of float32 may follow, as in `cuda:sm_80+tf32`.

        Raises:
            TargetError: there is no such target.
        """
        machine, precision = split_precision(text)
        return replace(Target._machine(machine), precision=precision)

    @staticmethod
    def _machine(text: str) -> Target:
        if text == "cpu":
            return Target.host()
        if text in _X86_LEVELS:
            return _measured(_X86_TRIPLE, text, _X86_LEVELS[text])
        family, _, cpu = text.partition(":")
        if family == "cuda" and cpu in _CAPABILITIES:
            return Target(_CUDA_TRIPLE, cpu, (_PTX[cpu],), _ACCESS_BYTES, _THREAD_REGISTERS, _CAPABILITIES[cpu])
        if family == "aarch64":
            cpu = _known(_ARM_TRIPLE, cpu) if cpu not in ("", "generic") else "generic"
            return _measured(_ARM_TRIPLE, cpu, ("+neon",))
        if family == "cpu" and cpu:
            return _measured(Target.host().triple, _known(Target.host().triple, cpu), ())
        raise unknown_target(text)

    @property
    def is_gpu(self) -> bool:
        """True if the target is a GPU."""
        return self.capability is not None

    def lanes(self, element_bytes: int) -> int:
        """Returns the number of elements per vector register."""
        return self.vector_bytes // element_bytes

    def why_not_on(self, host: Target) -> str | None:
        """Returns the reason why code for this target does not run on `host`; None if it runs."""
        if self.architecture != host.architecture:
            return f"it is compiled for {self.architecture}, but this machine is {host.architecture}"
        missing = [item[1:] for item in self.features if item.startswith("+") and item not in host.features]
        if missing:
            return f"it needs {', '.join(missing)}, which this CPU ({host.cpu}) lacks"
        if not self.features and self.cpu != host.cpu:
            return f"it is compiled for the CPU {self.cpu}, but this one is {host.cpu}"
        return None

    def runs_on(self, host: Target) -> bool:
        """Returns whether code for this target runs on `host`."""
        return self.why_not_on(host) is None

    @property
    def architecture(self) -> str:
        """First part of the triple, `x86_64` or `aarch64`."""
        return self.triple.split("-", 1)[0]

    @property
    def multiplies_by_lane(self) -> bool:
        """True if multiply-adds can take one lane of a vector for all lanes, so that a broadcast need not be a load."""
        return self.architecture == "aarch64"

    @property
    def bytes_method(self) -> str:
        """Method of summing up products of bytes in 32 bits.

        Four at a time ("dot"), by pairs of 16 bits ("pairs"), or one by one ("bytes").
        """
        if self.architecture != "x86_64":
            return "bytes"
        wanted = {"+avx512vnni", "+avx512vl"} if self.vector_bytes == 64 else {"+avxvnni"}
        return "dot" if wanted <= set(self.features) else "pairs"

    def to_json(self) -> str:
        """Returns the target as a JSON object."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Target:
        """Returns the target that `to_json` wrote."""
        fields = json.loads(text)
        capability = None if fields["capability"] is None else Capability(**fields["capability"])
        return Target(**(fields | {"features": tuple(fields["features"]), "capability": capability}))


def _measured(triple: str, cpu: str, features: tuple[str, ...]) -> Target:
    """Returns a target with its vector registers determined from the code that LLVM generates for it."""
    with llvm.machine(triple, cpu, ",".join(features)) as machine, llvm.parsed(_PROBE, machine) as module:
        code = module.assembly()
    if triple.startswith("aarch64"):
        return Target(triple, cpu, features, 16, 32)
    if "zmm" in code:
        return Target(triple, cpu, features, 64, 32)
    return Target(triple, cpu, features, 32 if "ymm" in code else 16, 16)


def _known(triple: str, cpu: str) -> str:
    """Returns a CPU name checked against LLVM's list: LLVM only warns of unknown names, then fails an assertion."""
    # The list goes to standard error; then llc reports that there is no input, so its exit status is meaningless.
    command = [str(llvm.tool("llc")), f"-mtriple={triple}", "-mcpu=help", "-filetype=null", os.devnull]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    if not re.search(rf"^  {re.escape(cpu)} +- ", listed, re.MULTILINE):
        raise TargetError(f"LLVM does not know a CPU '{cpu}' for {triple}")
    return cpu
