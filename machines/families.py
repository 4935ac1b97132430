"""Descriptions of families of CPUs, and of the levels of their instruction sets.

Numbers without a published figure are estimates from the next family that has one, and say so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .machine import Machine

_Group = tuple[str, Mapping[str, Any]]
"""Fields that have one source: the source, and the values."""

MEASURED = "stepwell-bench machine, on a virtual machine with two cores of a Sapphire Rapids"
INTEL = "Intel 64 and IA-32 Architectures Optimization Reference Manual"
UOPS = "uops.info"
SHEET = "data sheet"
_OF_FEATURES = "none, unless the target's features have such instructions"
ESTIMATE = "estimate"
_AMD = "AMD Software Optimization Guide for family {}"
_ARM = "Arm {} Software Optimization Guide"
_FIELDS = tuple(item.name for item in dataclasses.fields(Machine) if item.name not in ("name", "is_level", "sources"))


def _family(name: str, *groups: _Group, base: Machine | None = None, is_level: bool = False) -> Machine:
    """Returns a description from groups of fields: later groups win, and missing fields are those of `base`."""
    sources = dict(base.sources) if base is not None else dict.fromkeys(("brain_rate", "matrix_rate"), _OF_FEATURES)
    values = {} if base is None else {item: getattr(base, item) for item in _FIELDS}
    for source, group in groups:
        values |= group
        sources |= dict.fromkeys(group, source)
    return Machine(name=name, is_level=is_level, sources=tuple(sources.items()), **values)


def _estimated(base: Machine) -> Machine:
    """Returns a description all of whose numbers are estimates for a similar machine."""
    return dataclasses.replace(base, sources=tuple((name, f"{ESTIMATE}, as of {base.name}") for name in _FIELDS))


REFERENCE = _family(
    "sapphirerapids",
    ("psABI", {"architecture": "x86_64", "vector_bytes": 64, "vector_registers": 32, "page_bytes": 4096}),
    (
        MEASURED,
        {
            "clock": 3.77,
            "wide_clock": 3.58,
            "l1_rate": 87.0,
            "l2_rate": 48.0,
            "l3_rate": 7.8,
            "memory_rate": 16.7,
            "memory_total": 33.7,
            "l3_latency": 147.0,
            "memory_latency": 170.0,
            "wake_ns": 29000.0,
            "handover_ns": 290.0,
        },
    ),
    (UOPS, {"fma_units": 2, "fma_latency": 4, "loads": 2, "stores": 1, "l1_latency": 5.0, "l2_latency": 15.0}),
    (UOPS, {"vector_units": 2}),
    (INTEL, {"double_rate": 0.5, "half_rate": 2.0, "byte_rate": 4.0, "line_bytes": 64}),
    (INTEL, {"l1_bytes": 48 << 10, "l2_bytes": 2 << 20, "l2_cores": 1}),
    (f"{SHEET} of the Xeon Silver 4416+", {"cores": 20, "l3_cores": 20, "l3_bytes": 36 << 20}),
    ("duration of an empty kernel in a program", {"call_ns": 300.0}),
)
"""The machine on which the paces (`paces.py`) were measured."""

_LEVEL = f"that of {REFERENCE.name}, as code for a level runs on machines of many kinds"


def _level(name: str, architecture: str, vector_bytes: int, vector_registers: int, byte_rate: float) -> Machine:
    levels = {name: getattr(REFERENCE, name) for name in _FIELDS}
    vectors = {"architecture": architecture, "vector_bytes": vector_bytes, "vector_registers": vector_registers}
    # Without an instruction for sums of four products: pairs are summed in 16 bits, or widened one by one.
    return _family(
        name, (_LEVEL, levels), ("psABI", vectors), ("instruction count", {"byte_rate": byte_rate}), is_level=True
    )


LEVELS = tuple(
    _level(*given)
    for given in (
        ("x86-64-v2", "x86_64", 16, 16, 4 / 3),
        ("x86-64-v3", "x86_64", 32, 16, 4 / 3),
        ("x86-64-v4", "x86_64", 64, 32, 4 / 3),
        ("aarch64", "aarch64", 16, 32, 1.0),
    )
)

_SKYLAKE = _family(
    "skylake-x",
    (INTEL, {"l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "byte_rate": 4 / 3, "half_rate": 1.0}),
    (UOPS, {"fma_latency": 4, "l1_latency": 5.0, "l2_latency": 14.0}),
    (f"{SHEET} of the Xeon Gold 6148", {"cores": 20, "l3_cores": 20, "l3_bytes": 27 << 20}),
    (f"{SHEET} of the Xeon Gold 6148", {"clock": 3.1, "wide_clock": 2.2, "memory_total": 100.0}),
    (ESTIMATE, {"l2_rate": 40.0, "l3_rate": 8.0, "l3_latency": 70.0, "memory_rate": 12.0, "memory_latency": 90.0}),
    base=_estimated(REFERENCE),
)
_ICE_LAKE = _family(
    "icelake-server",
    (INTEL, {"l1_bytes": 48 << 10, "l2_bytes": 1280 << 10, "byte_rate": 4.0}),
    (f"{SHEET} of the Xeon Platinum 8375C", {"cores": 32, "l3_cores": 32, "l3_bytes": 54 << 20}),
    (f"{SHEET} of the Xeon Platinum 8375C", {"clock": 3.5, "wide_clock": 2.9, "memory_total": 170.0}),
    base=_estimated(_SKYLAKE),
)
_ROCKET_LAKE = _family(
    "rocketlake",
    (INTEL, {"l1_bytes": 48 << 10, "l2_bytes": 512 << 10, "byte_rate": 4.0}),
    (UOPS, {"fma_units": 1, "loads": 2, "stores": 1, "l2_latency": 13.0}),
    (f"{SHEET} of the Core i7-11700K", {"cores": 8, "l3_cores": 8, "l3_bytes": 16 << 20, "memory_total": 45.0}),
    (f"{SHEET} of the Core i7-11700K", {"clock": 4.6, "wide_clock": 4.6}),
    (ESTIMATE, {"l3_rate": 16.0, "l3_latency": 50.0, "memory_rate": 30.0, "memory_latency": 70.0}),
    base=_estimated(_ICE_LAKE),
)

_ZEN_2 = _family(
    "zen2",
    (_AMD.format("17h"), {"l1_bytes": 32 << 10, "l2_bytes": 512 << 10, "l3_bytes": 16 << 20, "l3_cores": 4}),
    (_AMD.format("17h"), {"vector_bytes": 32, "vector_registers": 16, "loads": 2, "stores": 1, "l2_rate": 28.0}),
    (_AMD.format("17h"), {"l2_latency": 12.0, "l3_latency": 39.0}),
    (UOPS, {"vector_units": 4}),
    (UOPS, {"fma_units": 2, "fma_latency": 5, "half_rate": 1.0, "byte_rate": 4 / 3, "l1_latency": 7.0}),
    (f"{SHEET} of the EPYC 7742", {"cores": 64, "clock": 3.2, "wide_clock": 3.2, "memory_total": 190.0}),
    (ESTIMATE, {"l1_rate": 56.0, "l3_rate": 14.0, "memory_rate": 20.0, "memory_latency": 100.0}),
    base=_estimated(REFERENCE),
)
_ZEN_3 = _family(
    "zen3",
    (_AMD.format("19h"), {"l3_bytes": 32 << 20, "l3_cores": 8, "l3_latency": 46.0, "loads": 2, "stores": 1}),
    (UOPS, {"fma_latency": 4}),
    (f"{SHEET} of the EPYC 7763", {"cores": 64, "clock": 3.4, "wide_clock": 3.4, "memory_total": 190.0}),
    base=_estimated(_ZEN_2),
)
_ZEN_4 = _family(
    "zen4",
    # Vectors of 64 bytes take two passes through units of 32.
    (
        _AMD.format("19h, models 10h"),
        {"vector_bytes": 64, "vector_registers": 32, "l2_bytes": 1 << 20, "byte_rate": 4.0},
    ),
    (_AMD.format("19h, models 10h"), {"vector_units": 2}),
    (_AMD.format("19h, models 10h"), {"fma_units": 1, "loads": 1, "stores": 1, "l2_latency": 14.0, "l3_latency": 50.0}),
    (f"{SHEET} of the EPYC 9654", {"cores": 96, "clock": 3.77, "wide_clock": 3.5, "memory_total": 430.0}),
    base=_estimated(_ZEN_3),
)
_ZEN_5 = _family(
    "zen5",
    (_AMD.format("1Ah"), {"vector_units": 4}),
    (_AMD.format("1Ah"), {"l1_bytes": 48 << 10, "fma_units": 2, "loads": 2, "stores": 1, "l2_rate": 50.0}),
    (f"{SHEET} of the EPYC 9755", {"cores": 128, "clock": 4.0, "wide_clock": 3.8, "memory_total": 540.0}),
    (ESTIMATE, {"l1_rate": 110.0, "memory_rate": 30.0}),
    base=_estimated(_ZEN_4),
)

_NEOVERSE_N1 = _family(
    "neoverse-n1",
    ("AAPCS64", {"architecture": "aarch64", "vector_bytes": 16, "vector_registers": 32}),
    (_ARM.format("Neoverse N1"), {"fma_units": 2, "fma_latency": 4, "loads": 2, "stores": 1, "half_rate": 2.0}),
    (_ARM.format("Neoverse N1"), {"vector_units": 2}),
    (_ARM.format("Neoverse N1"), {"byte_rate": 4.0, "l1_latency": 4.0, "l2_latency": 11.0}),
    (_ARM.format("Neoverse N1") + " (sizes of Graviton 2)", {"l1_bytes": 64 << 10, "l2_bytes": 1 << 20}),
    (f"{SHEET} of Graviton 2", {"cores": 64, "l3_cores": 64, "l3_bytes": 32 << 20, "clock": 2.5, "wide_clock": 2.5}),
    (ESTIMATE, {"l1_rate": 28.0, "l2_rate": 20.0, "l3_rate": 8.0, "l3_latency": 80.0, "memory_rate": 18.0}),
    (ESTIMATE, {"memory_total": 160.0, "memory_latency": 100.0}),
    base=_estimated(REFERENCE),
)
_NEOVERSE_V1 = _family(
    "neoverse-v1",
    (_ARM.format("Neoverse V1"), {"vector_units": 4}),
    (_ARM.format("Neoverse V1"), {"fma_units": 4, "fma_latency": 4, "loads": 3, "stores": 2, "l2_latency": 10.0}),
    (f"{SHEET} of Graviton 3", {"clock": 2.6, "wide_clock": 2.6, "memory_total": 280.0}),
    (ESTIMATE, {"l1_rate": 42.0, "l2_rate": 28.0, "memory_rate": 25.0}),
    base=_estimated(_NEOVERSE_N1),
)
_NEOVERSE_V2 = _family(
    "neoverse-v2",
    (_ARM.format("Neoverse V2"), {"fma_units": 4, "fma_latency": 4, "loads": 3, "stores": 2, "l2_latency": 10.0}),
    (f"{SHEET} of Graviton 4", {"cores": 96, "l3_cores": 96, "l2_bytes": 2 << 20, "l3_bytes": 36 << 20}),
    (f"{SHEET} of Graviton 4", {"clock": 2.8, "wide_clock": 2.8, "memory_total": 500.0}),
    base=_estimated(_NEOVERSE_V1),
)
_APPLE_M1 = _family(
    "apple-m1",
    ("sysctl hw on an M1", {"line_bytes": 128, "page_bytes": 16384, "l1_bytes": 128 << 10, "l2_bytes": 12 << 20}),
    ("sysctl hw on an M1", {"cores": 4, "l2_cores": 4, "l3_cores": 8}),
    ("Apple Silicon CPU Optimization Guide", {"fma_units": 4, "fma_latency": 4, "loads": 3, "stores": 2}),
    (
        ESTIMATE,
        {"clock": 3.2, "wide_clock": 3.2, "l3_bytes": 8 << 20, "l1_rate": 46.0, "l2_rate": 24.0, "l3_rate": 12.0},
    ),
    (ESTIMATE, {"l1_latency": 3.0, "l2_latency": 18.0, "l3_latency": 100.0}),
    (ESTIMATE, {"memory_rate": 55.0, "memory_total": 60.0, "memory_latency": 100.0}),
    base=_estimated(_NEOVERSE_V1),
)

FAMILIES: dict[str, Machine] = {
    item.name: item
    for item in (
        *LEVELS,
        *(REFERENCE, _SKYLAKE, _ICE_LAKE, _ROCKET_LAKE),
        *(_ZEN_2, _ZEN_3, _ZEN_4, _ZEN_5),
        *(_NEOVERSE_N1, _NEOVERSE_V1, _NEOVERSE_V2, _APPLE_M1),
    )
}
"""All descriptions by name."""

WIDEST_VECTOR_BYTES = max(item.vector_bytes for item in FAMILIES.values())
"""Width in bytes of the widest vector register of any family.

Code that is the same for all CPUs uses vectors of this width or a multiple of it, which LLVM splits into the registers
of the target.
"""
