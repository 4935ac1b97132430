"""Facts about a compile that the program itself no longer shows, for its report.

They are stored with the program as compressed JSON, so that a report of a program from the cache or an artefact equals
that of a fresh compile. The runtime reads them (`runtime/report`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlir import ir

from ..dialects.registry import view_of
from ..dialects.types import numpy_dtype
from ..lowering.code_shape import code_shape
from ..lowering.vector_to_llvm.choose_parallel_loops import ChooseParallelLoopsPass, microseconds
from ..passes.infra.journal import Journal
from ..passes.ir.functions import main_function, strings
from ..passes.ir.locations import dominant, names_in
from ..passes.ir.rewriting import walk
from ..passes.kernel.demand import UNBOUNDED
from ..passes.kernel.form_kernels import WORK
from ..targets.registry import backend_of, target_of

_SCHEDULE, _PHASES = "stepwell.schedule", "stepwell.phases"
_VIEWS = {"stepwell.reshape", "tensor.extract_slice", "tensor.insert_slice", "tensor.cast"}


def kernel_details(kernel: ir.Operation, target: str) -> dict[str, Any]:
    """Returns facts about a kernel's code for a target, once its buffers and its blocks of work are planned."""
    details: dict[str, Any] = {"code": code_shape(kernel, 8 * target_of(target).vector_bytes)}
    device = backend_of(target).kernel_facts(kernel)
    if device:
        details["device"] = dict(device)
    if _SCHEDULE in kernel.attributes:
        recorded = ir.DictAttr(kernel.attributes[_SCHEDULE])
        details["schedule"] = {item.name: _plain(item.attr) for item in recorded}
    if _PHASES in kernel.attributes:
        ends = list(ir.DenseI64ArrayAttr(kernel.attributes[_PHASES]))
        details["blocks"] = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    else:
        details["serial"] = _serial(kernel)
    if UNBOUNDED in kernel.attributes:
        details["unbounded"] = list(strings(kernel.attributes[UNBOUNDED]))
    return details


def _serial(kernel: ir.Operation) -> str:
    """Returns why a kernel runs on one thread."""
    if microseconds(kernel) < ChooseParallelLoopsPass.min_microseconds:
        return "too small to distribute"
    return "its schedule has too few iterations to distribute, or they depend on each other"


def _plain(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.StringAttr | ir.IntegerAttr):
        return attribute.value
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    return [_plain(item) for item in ir.ArrayAttr(attribute)]


def operands_of(kernel: ir.Operation) -> list[dict[str, Any]]:
    """Returns the tensors that a kernel of stepwell ops reads, and the one that it writes, each with its layout."""
    block = kernel.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1]
    named: dict[ir.Value, str] = {}
    for op in block.operations:
        layout = _layout(op.operation)
        if layout is None:
            continue
        named[op.operands[0]] = named[op.results[0]] = layout
        if len(op.operands) > 1 and ".packed_" in op.operation.name:
            named[op.operands[1]] = "packed"
    made = returned.operands[0]
    layout = named.get(made) or next(iter(named.values()), "")
    found = [_operand(value, named.get(value, "")) for value in block.arguments]
    return [*found, {**_operand(made, layout), "is_result": True}]


def _layout(op: ir.Operation) -> str | None:
    view = view_of(op)
    layout = None if view is None else view.attribute_values().get("layout")
    if layout is None and op.name.removeprefix("stepwell.").endswith("conv"):
        layout = "channels_last"
    if layout is None:
        return "rows" if op.name == "stepwell.packed_matmul" else None
    return str(layout)


def _operand(value: ir.Value, layout: str) -> dict[str, Any]:
    return {**_tensor(value.type), "layout": layout or "row-major"}


def _tensor(kind: ir.Type) -> dict[str, Any]:
    if not isinstance(kind, ir.RankedTensorType):
        return {"dtype": str(kind), "shape": []}
    shape = [size if size >= 0 else -1 for size in kind.shape]
    return {"dtype": numpy_dtype(kind.element_type).name, "shape": shape}


def facts_of(
    module: ir.Module, nodes: Sequence[Any], kept: Journal, initial: Iterable[str], operands: Mapping[str, Any]
) -> dict[str, Any]:
    """Collects the facts of a module whose kernels have their final names.

    Args:
        module: the module, whose @main is a list of calls.
        nodes: the model's nodes (`ImportedNode`), in order.
        kept: the optimisation remarks of passes.
        initial: the names of nodes that @init computed.
        operands: `operands_of` each kernel, by name.
    """
    main = main_function(module.operation)
    calls, views, homes = [], set(), {}
    for op in walk(main):
        if op.name == "func.call":
            work = work_of(op)
            calls.append([ir.FlatSymbolRefAttr(op.attributes["callee"]).value, list(work)])
            home = [name for name, amount in work.items() if amount][:1]
            for name in work:
                homes.setdefault(name, []).extend(home if not work[name] else [name])
        elif op.name in _VIEWS:
            views.update(names_in(op.location))
    called = {name for _, names in calls for name in names}
    remarks = _remarks_by_name(kept)
    known = _Fates(homes, views, set(initial), remarks)
    described = [
        {
            "name": node.name,
            "type": node.op_type,
            "outputs": [_tensor(kind) for kind in node.outputs],
            **known.of(node.name, node.is_constant),
        }
        for node in nodes
    ]
    return {
        "nodes": described,
        "calls": calls,
        "operands": dict(operands),
        "apart": _not_fused(kept, called),
        "refused": _refusals(kept),
    }


def work_of(call: ir.Operation) -> dict[str, int]:
    """Returns the work of a kernel call for each node of the model, beginning with that of its heaviest op.

    The work of a node that was merged into another one is 0.
    """
    ops = strings(call.attributes["stepwell.ops"]) if "stepwell.ops" in call.attributes else ()
    given = list(ir.DenseI64ArrayAttr(call.attributes[WORK])) if WORK in call.attributes else []
    amounts: dict[str, int] = {}
    for name, amount in zip(ops, given if len(given) == len(ops) else [1] * len(ops), strict=True):
        amounts[name] = amounts.get(name, 0) + amount
    return amounts if any(amounts.values()) else dict.fromkeys(amounts, 1)


def packed(facts: Mapping[str, Any]) -> bytes:
    """Encodes facts for storage with a program."""
    return zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), 6)


def _remarks_by_name(kept: Journal) -> dict[str, list[tuple[str, str, list[str]]]]:
    """Returns all remarks about each name, in order."""
    found: dict[str, list[tuple[str, str, list[str]]]] = {}
    for removal in kept.removals:
        names = names_in(removal.location)
        into = [other for place in removal.into for other in names_in(place) if other not in names]
        for name in names:
            found.setdefault(name, []).append((removal.how, removal.by, into))
    return found


class _Fates:
    def __init__(
        self,
        homes: Mapping[str, Sequence[str]],
        views: set[str],
        initial: set[str],
        remarks: dict[str, list[tuple[str, str, list[str]]]],
    ) -> None:
        self._homes, self._views, self._initial, self._remarks_by_name = homes, views, initial, remarks

    def of(self, name: str, is_constant: bool) -> dict[str, Any]:
        """Returns a node's `fate`, the pass or pattern that decided it, and the nodes that it was merged into."""
        homes = self._homes.get(name, [])
        if name in homes:
            return {"fate": "kernel", "by": "", "into": []}
        if homes:
            found = [by for _, by, into in self._remarks_by_name.get(name, []) if not set(homes).isdisjoint(into)]
            by = found[0] if found else ""
            return {"fate": "merged", "by": by, "into": list(dict.fromkeys(homes))}
        if name in self._views:
            return {"fate": "view", "by": "", "into": []}
        if is_constant:
            return {"fate": "constant", "by": "import", "into": []}
        if name in self._initial:
            return {"fate": "computed at compile time", "by": "stepwell-hoist-parameters", "into": []}
        events = self._remarks_by_name.get(name, [])
        how, by, into = events[-1] if events else ("", "", [])
        if how == "folded":
            return {"fate": "constant", "by": by, "into": []}
        if how == "shared":
            return {"fate": "shared", "by": by, "into": into}
        # A node may become several ops (an image's padding, a product, its bias), which are rewritten independently.
        for event, pattern, others in reversed(events):
            if event == "absorbed" and (home := self._home(others)):
                return {"fate": "merged", "by": pattern, "into": home}
        if how in ("absorbed", "rewritten"):
            return {"fate": "removed", "by": by, "into": []}
        return {"fate": "removed", "by": by or ("" if how else "import"), "into": []}

    def _home(self, names: Sequence[str]) -> list[str]:
        """Returns the nodes in kernels that replaced the given ones, directly or through others."""
        seen: set[str] = set()
        pending, found = list(names), []
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._homes:
                found.append(name)
            else:
                pending.extend(other for _, _, others in self._remarks_by_name.get(name, ()) for other in others)
        return found


def _not_fused(kept: Journal, called: set[str]) -> list[list[str]]:
    found = dict.fromkeys(
        (maker, reader, item.reason)
        for item in kept.unfused
        if (maker := dominant(item.maker)) != (reader := dominant(item.reader)) and {maker, reader} <= called
    )
    return [list(item) for item in found]


def _refusals(kept: Journal) -> list[list[str]]:
    found = dict.fromkeys(
        (name, item.pattern, item.reason) for item in kept.refused for name in names_in(item.location)
    )
    return [list(item) for item in found]
