"""Versions of kernels, specialised for different sizes, and the calls that select one of them at run time."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

VERSIONS = "stepwell.versions"
"""Attribute of calls: the versions of a kernel, starting with the callee."""

CHOICE = "stepwell.choice"
"""Attribute of calls of kernels with versions: the entry of the table of extents that selects the version."""

TILE = "stepwell.tile"
"""Attribute of versions: the number of rows in their tiles along the last two loops over rows."""


def versions_of(call: ir.Operation | ir.OpView) -> list[str]:
    """The kernels that a call may run: its callee and the other versions."""
    if VERSIONS not in call.attributes:
        return [ir.FlatSymbolRefAttr(call.attributes["callee"]).value]
    return [ir.FlatSymbolRefAttr(item).value for item in ir.ArrayAttr(call.attributes[VERSIONS])]


def rename_versions(call: ir.Operation, renamed: Callable[[str], str]) -> None:
    """Renames the versions in a call."""
    if VERSIONS in call.attributes:
        names = [ir.FlatSymbolRefAttr.get(renamed(name)) for name in versions_of(call)]
        call.attributes[VERSIONS] = ir.ArrayAttr.get(names)
