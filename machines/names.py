"""Names of machines: the family of one of LLVM's CPUs, and descriptions as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from ..support.errors import StepwellError
from .families import ESTIMATE, FAMILIES, INTEL, MEASURED, REFERENCE
from .machine import Machine

_CPUS = {
    **dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), "skylake-x"),
    **dict.fromkeys(("icelake-client", "tigerlake"), "rocketlake"),
    **dict.fromkeys(("emeraldrapids", "graniterapids", "graniterapids-d"), "sapphirerapids"),
    **{f"znver{number}": f"zen{number}" for number in (2, 3, 4, 5)},
    **dict.fromkeys(("grace", "neoverse-v3", "neoverse-v3ae"), "neoverse-v2"),
    **{f"apple-m{number}": "apple-m1" for number in (2, 3, 4)},
}
"""Families of LLVM's CPUs that have another name."""

CPUS_WITH_TILES = frozenset(("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids"))
"""LLVM's CPUs that have tile registers (AMX) by their name alone."""

_CPUS_WITH_BRAIN = CPUS_WITH_TILES | {"cooperlake", "znver4", "znver5"}
"""LLVM's CPUs that multiply bfloat16 in vectors by their name alone."""

_AMX_RATE = 1024.0
"""Products of bytes per cycle of AMX: 16 x 16 x 64 in 16 cycles."""

_FIELDS = {item.name: item for item in dataclasses.fields(Machine) if item.compare and item.name != "name"}


class MachineError(StepwellError, ValueError):
    """A machine was named that does not exist; the message lists the known ones."""


def machine_of_cpu(
    cpu: str, architecture: str, features: Collection[str], vector_bytes: int, vector_registers: int
) -> Machine:
    """Returns the description for code of a target.

    Args:
        cpu: LLVM's name of the CPU, or a level. For a CPU without a family, the level of its vectors is taken.
        architecture: first part of LLVM's triple.
        features: the target's features, as `+name`.
        vector_bytes: width of the vector registers that LLVM uses.
        vector_registers: number of these registers.
    """
    known = FAMILIES.get(_CPUS.get(cpu, cpu))
    if known is None:
        widths = {16: "x86-64-v2", 32: "x86-64-v3", 64: "x86-64-v4"}
        known = FAMILIES["aarch64" if architecture == "aarch64" else widths[vector_bytes]]
    # Virtual machines may report the model of an older CPU with the features of the real one.
    if "+amx-tile" in features and not known.is_level:
        known = REFERENCE
    if "+avx512bf16" in features or (cpu in _CPUS_WITH_BRAIN and not features):
        # AMD's units multiply pairs as fast as single numbers, Intel's take four times as long.
        rate, source = (2.0, ESTIMATE) if known.name.startswith("zen") else (0.5, MEASURED)
        known = with_figures(known, {"brain_rate": rate}, source)
    if {"+amx-int8", "+amx-bf16"} <= set(features) or (cpu in CPUS_WITH_TILES and not features):
        known = with_figures(known, {"matrix_rate": _AMX_RATE}, INTEL)
    return dataclasses.replace(known, vector_bytes=vector_bytes, vector_registers=vector_registers)


def with_figures(machine: Machine, figures: Mapping[str, float], source: str) -> Machine:
    """Returns a description with other numbers, all of one source.

    Raises:
        MachineError: there is no such field.
    """
    unknown = sorted(figures.keys() - _FIELDS.keys())
    if unknown:
        raise MachineError(f"a machine has no field '{unknown[0]}'")
    values: dict[str, Any] = {name: type(getattr(machine, name))(value) for name, value in figures.items()}
    sources = {**dict(machine.sources), **dict.fromkeys(figures, source)}
    return dataclasses.replace(machine, sources=tuple(sources.items()), **values)


def parse(text: str) -> Machine:
    """Returns the description with a text.

    Raises:
        MachineError: the name or a field is unknown, or a value is not a number.
    """
    name, *changes = text.split("+")
    if name not in FAMILIES:
        raise MachineError(f"unknown machine '{name}'; known are {', '.join(FAMILIES)}")
    figures = {}
    for change in changes:
        key, _, value = change.partition("=")
        try:
            figures[key] = float(value)
        except ValueError:
            raise MachineError(f"'{change}' in machine '{text}' must be a field and a number") from None
    return with_figures(FAMILIES[name], figures, "given")
