"""The overloads of core ATen that are imported; the others are listed."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.frontend.torch.program import can_import  # noqa: E402

HOLES = {
    # Random numbers.
    "aten.randperm.default",
    # Changes of memory, which no functional graph has.
    "aten.resize_.default",
}

NUMBERS = {"aten.sym_size.int"}
"""Sizes, which are not ops of the graph but expressions over symbols."""

LAYOUT = {f"aten.{name}" for name in ("sym_is_contiguous.default", "sym_storage_offset.default", "sym_stride.int")}
"""Facts about memory, which torch resolves when it exports."""


def core_overloads():
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, overload = name.partition("::")
        packet, _, variant = overload.partition(".")
        if namespace != "aten" or not hasattr(torch.ops.aten, packet):
            continue
        op = getattr(getattr(torch.ops.aten, packet), variant or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            yield op


def test_core_overloads_are_imported_but_for_those_listed():
    missing = {str(op) for op in core_overloads() if not can_import(op)}
    assert missing == HOLES | NUMBERS | LAYOUT


def test_there_are_enough_core_overloads():
    assert len(list(core_overloads())) >= 193
