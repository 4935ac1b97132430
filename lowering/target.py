"""Targets of code generation: a machine, reduced to the few numbers that schedules and LLVM need."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from ..machines.block_tiles import has_dots
from ..machines.machine import Machine
from ..machines.names import machine_of_cpu, with_figures
from ..runtime import processor
from ..runtime.devices import figures
from ..support.short_repr import short_repr
from . import llvm
from .aarch64_features import features_of
from .target_names import X86_LEVELS, TargetError, split_precision

# Levels of the x86-64 psABI, each with its additions to the level before.
_X86_V2 = ("+cx16", "+popcnt", "+sahf", "+sse3", "+sse4.1", "+sse4.2", "+ssse3")
_X86_V3 = (*_X86_V2, "+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe", "+xsave")
_X86_V4 = (*_X86_V3, "+avx512bw", "+avx512cd", "+avx512dq", "+avx512f", "+avx512vl")
_X86_LEVELS = dict(zip(X86_LEVELS, (_X86_V2, _X86_V3, _X86_V4), strict=True))
_X86_TRIPLE, _ARM_TRIPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"

# An addition with more lanes than any register has; the registers in its machine code show their width.
_PROBE = """
define void @probe(ptr %x) {
  %v = load <32 x float>, ptr %x
  %s = fadd <32 x float> %v, %v
  store <32 x float> %s, ptr %x
  ret void
}
"""


@short_repr
@dataclass(frozen=True)
class Target:
    """A machine to generate code for. Machines other than CPUs are subclasses.

    Attributes:
        device: the kind of device that runs the code: "cpu", or the family of other devices.
        triple: LLVM's target triple.
        cpu: LLVM's CPU name, for instruction timings and as the base of the features.
        features: features that LLVM may use or must avoid, as sorted `+name` and `-name`.
        vector_bytes: width of a vector register in bytes.
        vector_registers: number of vector registers.
        precision: precision in which products of float32 are computed, one of `PRECISIONS`.
        figures: measured numbers of this machine, by fields of `Machine`, which replace those of the CPU's family.
    """

    device: ClassVar[str] = "cpu"

    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    precision: str = "f32"
    figures: tuple[tuple[str, float], ...] = ()

    @staticmethod
    @functools.cache
    def host() -> Target:
        """Returns the target for this machine."""
        triple, cpu, features = llvm.host()
        names = tuple(sorted(filter(None, _usable(features).split(",")), key=lambda item: item[1:]))
        return replace(_measured(triple, cpu, names), figures=tuple(sorted(figures.figures().items())))

    @staticmethod
    @functools.cache
    def parse(text: str) -> Target:
        """Returns a CPU by its name.

        Names are `cpu` (this machine), `cpu:NAME` (one of LLVM's CPU names, for this architecture), `x86-64-v2`,
        `x86-64-v3`, `x86-64-v4`, `aarch64`, and `aarch64:NAME`. The precision of products of float32 may follow, as in
        `cpu+bf16`.

        Raises:
            TargetError: there is no such CPU.
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
        if family == "aarch64":
            cpu = _known(_ARM_TRIPLE, cpu) if cpu not in ("", "generic") else "generic"
            return _measured(_ARM_TRIPLE, cpu, features_of(_ARM_TRIPLE, cpu))
        if family == "cpu" and cpu:
            return _measured(Target.host().triple, _known(Target.host().triple, cpu), ())
        raise TargetError(f"'{text}' is not a CPU")

    @functools.cached_property
    def machine(self) -> Machine:
        """Description of the CPU, by which schedules are chosen; of other devices, the CPU beside the device."""
        registers = self.vector_bytes, self.vector_registers
        family = machine_of_cpu(self.cpu, self.architecture, self.features, *registers)
        return with_figures(family, dict(self.figures), "measured on this machine")

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
    def converts_half_floats(self) -> bool:
        """True if there are instructions for conversions of f16. A CPU by its name has them if it has AVX."""
        return (
            self.architecture != "x86_64" or "+f16c" in self.features or (not self.features and self.vector_bytes >= 32)
        )

    @property
    def bytes_method(self) -> str:
        """Method of summing products of bytes in 32 bits, see `linalg_to_vector/byte_products.py`."""
        if self.architecture == "aarch64":
            by_feature = {"+i8mm": "usdot", "+dotprod": "sdot"}
            return next((method for feature, method in by_feature.items() if feature in self.features), "long_pairs")
        if not self.features:  # a CPU by its name: LLVM alone knows the features
            return "dot" if self.vector_bytes == 64 and has_dots(self.machine) else "pairs"
        wanted = {"+avx512vnni", "+avx512vl"} if self.vector_bytes == 64 else {"+avxvnni"}
        return "dot" if wanted <= set(self.features) else "pairs"

    def to_json(self) -> str:
        """Returns the target as a JSON object, which identifies the code that is generated for it."""
        return _as_json(self)


@functools.cache
def _as_json(target: Target) -> str:
    return json.dumps({"device": target.device, **asdict(target)}, sort_keys=True)


def _usable(features: str) -> str:
    """Returns LLVM's features of this machine without tile registers if this process may not use them."""
    is_granted = processor.TILE_FEATURES & (processor.features() or frozenset())
    return features if is_granted else features.replace("+amx", "-amx")


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
