"""What code is made for: a CPU or a GPU, seen as the few numbers that schedules and LLVM need."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass, replace

from ..runtime.short_repr import short_repr
from .llvm_to_object import llvm
from .target_names import X86_LEVELS, TargetError, split_precision, unknown_target

# Levels of the x86-64 psABI, each with what it adds to the one before.
_X86_V2 = ("+cx16", "+popcnt", "+sahf", "+sse3", "+sse4.1", "+sse4.2", "+ssse3")
_X86_V3 = (*_X86_V2, "+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe", "+xsave")
_X86_V4 = (*_X86_V3, "+avx512bw", "+avx512cd", "+avx512dq", "+avx512f", "+avx512vl")
_X86_LEVELS = dict(zip(X86_LEVELS, (_X86_V2, _X86_V3, _X86_V4), strict=True))
_X86_TRIPLE, _ARM_TRIPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_CUDA_TRIPLE = "nvptx64-nvidia-cuda"

# One addition of more lanes than any register has: the registers in its machine code tell the width.
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
    """What an NVIDIA GPU can do, and what one of its multiprocessors has.

    Attributes:
        sm: the compute capability as a number, 90 for 9.0.
        is_specific: whether code may use what this very architecture alone has, as wgmma in `sm_90a`.
        shared_bytes: the shared memory that one block may have.
        multiprocessor_shared_bytes: the shared memory of a multiprocessor; each block on it takes 1 KiB besides.
        multiprocessor_threads: how many threads a multiprocessor holds.
        multiprocessors: how many the largest chip of this kind has: what a grid should keep busy.
        registers: the 32-bit registers of a multiprocessor.
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
        """Whether warp groups multiply matrices in shared memory by `wgmma`."""
        return self.sm == 90 and self.is_specific

    @property
    def has_tensor_copies(self) -> bool:
        """Whether the copy engine moves boxes of tensors (TMA), and blocks form clusters."""
        return self.sm >= 90

    @property
    def has_float8(self) -> bool:
        """Whether tensor cores multiply 8-bit floats."""
        return self.sm >= 89


# From the CUDA programming guide's table of compute capabilities; multiprocessors of A100, A10, L40, H100/H200, B200.
_CAPABILITIES = {
    "sm_80": Capability(80, False, 163 * 1024, 164 * 1024, 2048, 108),
    "sm_86": Capability(86, False, 99 * 1024, 100 * 1024, 1536, 72),
    "sm_89": Capability(89, False, 99 * 1024, 100 * 1024, 1536, 142),
    "sm_90a": Capability(90, True, 227 * 1024, 228 * 1024, 2048, 132),
    "sm_100a": Capability(100, True, 227 * 1024, 228 * 1024, 2048, 148),
}
# The oldest versions of PTX that know these architectures: any driver that knows the device reads them.
_PTX = {"sm_80": "+ptx80", "sm_86": "+ptx80", "sm_89": "+ptx80", "sm_90a": "+ptx80", "sm_100a": "+ptx86"}
_ACCESS_BYTES, _THREAD_REGISTERS = 16, 255


@short_repr
@dataclass(frozen=True)
class Target:
    """A machine to make code for.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's CPU name, for instruction timings and as the base of the features.
        features: what LLVM may use or must avoid, as sorted `+name` and `-name`.
        vector_bytes: the width of a vector register; of a GPU, of the widest access to memory by one thread.
        vector_registers: how many there are; of a GPU, of 32 bits in a thread.
        capability: of a GPU, what it has; None for a CPU.
        precision: what products of float32 are computed in, one of `PRECISIONS`.
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
        """This machine."""
        triple, cpu, features = llvm.host()
        return _measured(triple, cpu, tuple(sorted(filter(None, features.split(",")), key=lambda item: item[1:])))

    @staticmethod
    def parse_gpu(text: str) -> Target:
        """A GPU by its name.

        Raises:
            TargetError: there is no such target, or it is no GPU.
        """
        target = Target.parse(text)
        if not target.is_gpu:
            raise TargetError(f"'{text}' is no GPU")
        return target

    @staticmethod
    @functools.cache
    def parse(text: str) -> Target:
        """A target by its name: `cpu` (this machine), `cpu:NAME` (one of LLVM's CPU names, for this architecture),
        `x86-64-v2`, `x86-64-v3`, `x86-64-v4`, `aarch64`, `aarch64:NAME`, `cuda:sm_80` and other GPUs of NVIDIA; behind
        it maybe what products of float32 are computed in, as in `cuda:sm_80+tf32`.

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
        """Whether it is a GPU."""
        return self.capability is not None

    def lanes(self, element_bytes: int) -> int:
        """How many elements one vector register holds."""
        return self.vector_bytes // element_bytes

    def why_not_on(self, host: Target) -> str | None:
        """Why code for this target does not run on `host`; None where it does."""
        if self.architecture != host.architecture:
            return f"it is made for {self.architecture}, and this machine is {host.architecture}"
        missing = [item[1:] for item in self.features if item.startswith("+") and item not in host.features]
        if missing:
            return f"it needs {', '.join(missing)}, which this CPU ({host.cpu}) lacks"
        if not self.features and self.cpu != host.cpu:
            return f"it is made for the CPU {self.cpu}, and this is {host.cpu}"
        return None

    def runs_on(self, host: Target) -> bool:
        """Whether code for this target runs on `host`."""
        return self.why_not_on(host) is None

    @property
    def architecture(self) -> str:
        """The first part of the triple, `x86_64` or `aarch64`."""
        return self.triple.split("-", 1)[0]

    @property
    def multiplies_by_lane(self) -> bool:
        """Whether multiply-adds take one lane of a vector for all lanes, so that a broadcast need not be a load."""
        return self.architecture == "aarch64"

    @property
    def bytes_method(self) -> str:
        """How products of bytes are summed up in 32 bits.

        Four at a time ("dot"), by pairs of 16 bits ("pairs"), or one by one ("bytes").
        """
        if self.architecture != "x86_64":
            return "bytes"
        wanted = {"+avx512vnni", "+avx512vl"} if self.vector_bytes == 64 else {"+avxvnni"}
        return "dot" if wanted <= set(self.features) else "pairs"

    def to_json(self) -> str:
        """The target as a JSON object."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Target:
        """The target that `to_json` wrote."""
        fields = json.loads(text)
        capability = None if fields["capability"] is None else Capability(**fields["capability"])
        return Target(**(fields | {"features": tuple(fields["features"]), "capability": capability}))


def _measured(triple: str, cpu: str, features: tuple[str, ...]) -> Target:
    """A target whose vector registers are read off the code that LLVM makes for it."""
    with llvm.machine(triple, cpu, ",".join(features)) as machine, llvm.parsed(_PROBE, machine) as module:
        code = module.assembly()
    if triple.startswith("aarch64"):
        return Target(triple, cpu, features, 16, 32)
    if "zmm" in code:
        return Target(triple, cpu, features, 64, 32)
    return Target(triple, cpu, features, 32 if "ymm" in code else 16, 16)


def _known(triple: str, cpu: str) -> str:
    """The name of a CPU that LLVM knows: of others it only warns, and then fails an assertion, so its list is asked."""
    # The list goes to the standard error, and then llc complains that there is no input: the status means nothing.
    command = [str(llvm.tool("llc")), f"-mtriple={triple}", "-mcpu=help", "-filetype=null", os.devnull]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    if not re.search(rf"^  {re.escape(cpu)} +- ", listed, re.MULTILINE):
        raise TargetError(f"LLVM knows no CPU '{cpu}' for {triple}")
    return cpu
