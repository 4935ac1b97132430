"""Versions of kernels, specialised for different sizes, and the calls that select one of them at run time."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from ...dialects import discardable


def versions_of(call: ir.Operation | ir.OpView) -> list[str]:
    """The kernels that a call may run: its callee and the other versions."""
    names = discardable.VERSIONS.read(call)
    return [ir.FlatSymbolRefAttr(call.attributes["callee"]).value] if names is None else list(names)


def rename_versions(call: ir.Operation, renamed: Callable[[str], str]) -> None:
    """Renames the versions in a call."""
    if discardable.VERSIONS.is_on(call):
        discardable.VERSIONS.write(call, [renamed(name) for name in versions_of(call)])
