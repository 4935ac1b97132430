"""Versions of kernels, each for other sizes, and the calls of which one runs at a time."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

VERSIONS = "stepwell.versions"
"""The attribute of calls that names the versions of a kernel, the one that the call names first."""

CHOICE = "stepwell.choice"
"""The attribute of calls of kernels with versions: the entry of the table of extents that says which is to run."""

TILE = "stepwell.tile"
"""The attribute of versions that says how many rows their tiles have along the last two loops over rows."""


def versions_of(call: ir.Operation | ir.OpView) -> list[str]:
    """The kernels that a call may be of: its callee, and other versions of it."""
    if VERSIONS not in call.attributes:
        return [ir.FlatSymbolRefAttr(call.attributes["callee"]).value]
    return [ir.FlatSymbolRefAttr(item).value for item in ir.ArrayAttr(call.attributes[VERSIONS])]


def rename_versions(call: ir.Operation, renamed: Callable[[str], str]) -> None:
    """Gives the versions of a call other names."""
    if VERSIONS in call.attributes:
        names = [ir.FlatSymbolRefAttr.get(renamed(name)) for name in versions_of(call)]
        call.attributes[VERSIONS] = ir.ArrayAttr.get(names)
