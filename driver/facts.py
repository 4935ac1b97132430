"""Collects the facts about a compile that the program itself no longer shows, for its report (`runtime/facts.py`).

They are stored with the program, so that a report of a program from the cache or an artefact equals that of a fresh
compile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..dialects import discardable
from ..dialects.registry import view_of
from ..dialects.types import numpy_dtype
from ..lowering.code_shape import code_shape
from ..lowering.vector_to_llvm.choose_parallel_loops import microseconds
from ..machines.machine import Machine
from ..machines.paces import paces_of
from ..passes.infra.tuning import Tuning
from ..passes.ir.functions import body_of, main_function
from ..passes.ir.locations import names_in
from ..passes.ir.rewriting import walk
from ..passes.ir.values import integer_of
from ..runtime.facts import CallFacts, CompileFacts, KernelDetails, NodeFacts, Operand, TensorFacts
from ..runtime.recomputation import Recomputation
from ..runtime.remarks import ABSORBED, FOLDED, FUSE, HOW, INTO, PASSED, READS, REWRITTEN, SHARED, Remark
from ..targets.registry import backend_of, target_of

_VIEWS = {"stepwell.reshape", "tensor.extract_slice", "tensor.insert_slice", "tensor.cast"}


def kernel_details(kernel: ir.Operation, target: str) -> KernelDetails:
    """Returns facts about a kernel's code for a target, once its buffers and its blocks of work are planned."""
    parsed = target_of(target)
    recorded, ends = discardable.SCHEDULE.read(kernel), discardable.PHASES.read(kernel)
    return KernelDetails(
        code_shape(kernel, 8 * parsed.vector_bytes),
        {item.name: _plain(item.attr) for item in recorded} if isinstance(recorded, ir.DictAttr) else {},
        tuple(end - start for start, end in zip([0, *(ends or ())], ends or (), strict=False)),
        _serial(kernel, parsed.machine) if ends is None and parsed.device == "cpu" else "",
        tuple(discardable.UNBOUNDED.read(kernel, ())),
        _entries_of(kernel),
        dict(backend_of(target).kernel_facts(kernel)),
    )


def _entries_of(kernel: ir.Operation) -> tuple[int, ...]:
    """Returns the entries of the table of extents that a kernel's code reads."""
    number = discardable.TABLE_ARGUMENT.read(kernel)
    if number is None:
        return ()
    table = body_of(kernel).arguments[number]
    found = {integer_of(use.owner.operands[1]) for use in table.uses if use.owner.name == "memref.load"}
    return tuple(sorted(entry for entry in found if entry is not None))


def _serial(kernel: ir.Operation, machine: Machine) -> str:
    """Returns why a kernel runs on one thread."""
    if 1e3 * microseconds(kernel, machine) < paces_of(machine).parallel_ns:
        return "too small to distribute"
    return "its schedule has too few iterations to distribute, or they depend on each other"


def _plain(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.StringAttr | ir.IntegerAttr):
        return attribute.value
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    return [_plain(item) for item in ir.ArrayAttr(attribute)]


def operands_of(kernel: ir.Operation) -> list[Operand]:
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
    return [*found, _operand(made, layout, is_result=True)]


def _layout(op: ir.Operation) -> str | None:
    view = view_of(op)
    layout = None if view is None else view.attribute_values().get("layout")
    if layout is None and op.name.removeprefix("stepwell.").endswith("conv"):
        layout = "channels_last"
    if layout is None:
        return "rows" if op.name == "stepwell.packed_matmul" else None
    return str(layout)


def _operand(value: ir.Value, layout: str, is_result: bool = False) -> Operand:
    tensor = _tensor(value.type)
    return Operand(tensor.dtype, tensor.shape, layout or "row-major", is_result)


def _tensor(kind: ir.Type) -> TensorFacts:
    if not isinstance(kind, ir.RankedTensorType):
        return TensorFacts(str(kind), ())
    shape = tuple(size if size >= 0 else -1 for size in kind.shape)
    return TensorFacts(numpy_dtype(kind.element_type).name, shape)


def facts_of(
    module: ir.Module,
    nodes: Sequence[Any],
    remarks: Sequence[Remark],
    initial: Iterable[str],
    operands: Mapping[str, Sequence[Operand]],
) -> CompileFacts:
    """Collects the facts of a module whose kernels have their final names.

    Args:
        module: the module, whose @main is a list of calls.
        nodes: the model's nodes (`ImportedNode`), in order.
        remarks: the remarks of the passes.
        initial: the names of nodes that @init computed.
        operands: `operands_of` each kernel, by name.
    """
    main = main_function(module.operation)
    calls, views, homes = [], set(), {}
    for op in walk(main):
        if op.name == "func.call":
            work = work_of(op)
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            versions = tuple(discardable.VERSIONS.read(op, ()))
            calls.append(CallFacts(callee, tuple(work), versions, discardable.CHOICE.read(op, -1)))
            home = [name for name, amount in work.items() if amount][:1]
            for name in work:
                homes.setdefault(name, []).extend(home if not work[name] else [name])
        elif op.name in _VIEWS:
            views.update(names_in(op.location))
    known = _Fates(homes, views, set(initial), _removals(remarks))
    described = [
        NodeFacts(node.name, node.op_type, tuple(map(_tensor, node.outputs)), *known.of(node.name, node.is_constant))
        for node in nodes
    ]
    plans = [Recomputation.read(record) for record in discardable.RECOMPUTATION.read(module.operation, ())]
    plan = plans[0] if plans else None
    return CompileFacts(described, calls, dict(operands), worth_reporting(remarks, calls), recomputation=plan)


def work_of(call: ir.Operation) -> dict[str, int]:
    """Returns the work of a kernel call for each node of the model, beginning with that of its heaviest op.

    The work of a node that was merged into another one is 0.
    """
    ops, given = discardable.OPS.read(call, ()), discardable.WORK.read(call, ())
    amounts: dict[str, int] = {}
    for name, amount in zip(ops, given if len(given) == len(ops) else [1] * len(ops), strict=True):
        amounts[name] = amounts.get(name, 0) + amount
    return amounts if any(amounts.values()) else dict.fromkeys(amounts, 1)


def worth_reporting(remarks: Iterable[Remark], calls: Iterable[CallFacts]) -> list[Remark]:
    """Returns the remarks without repetitions, and without those on the fusion of ops that are in no kernel."""
    found, called = {}, {name for call in calls for name in call.nodes}
    for remark in remarks:
        around = {*remark.nodes, *remark.names(READS)}
        if remark.rule != FUSE or (len(around) > 1 and around <= called):
            found[remark] = None
    return list(found)


def tuned_kernels(tuning: Tuning | None, kernels: Iterable[str]) -> dict[str, dict[str, float]]:
    """Returns the tuned schedule and its gain for each kernel that has one."""
    if tuning is None:
        return {}
    found = {name: tuning.kernels[name] for name in kernels if tuning.schedule_of(name) is not None}
    return {
        name: {"gain": item.gain, "low": item.low, "high": item.high, "threads": item.threads}
        for name, item in found.items()
    }


@dataclass(frozen=True)
class _Removal:
    """The removal of an op of a node.

    Attributes:
        how: how the op was removed, a value of `HOW`.
        by: the pattern or pass.
        into: other nodes, whose ops replaced it.
    """

    how: str
    by: str
    into: Sequence[str]


def _removals(remarks: Iterable[Remark]) -> dict[str, list[_Removal]]:
    """Returns the removals of the ops of each node, in order."""
    found: dict[str, list[_Removal]] = {}
    for remark in remarks:
        how = remark.argument(HOW)
        if remark.kind != PASSED or not how:
            continue
        by = remark.rule if how in (REWRITTEN, ABSORBED) else remark.pass_name
        removal = _Removal(str(how), by, [name for name in remark.names(INTO) if name not in remark.nodes])
        for name in remark.nodes:
            found.setdefault(name, []).append(removal)
    return found


_Fate = tuple[str, str, tuple[str, ...]]
"""A node's fate, the pass or pattern that decided it, and the nodes that do its work."""


class _Fates:
    def __init__(
        self,
        homes: Mapping[str, Sequence[str]],
        views: set[str],
        initial: set[str],
        removals: Mapping[str, Sequence[_Removal]],
    ) -> None:
        self._homes, self._views, self._initial, self._removals = homes, views, initial, removals

    def of(self, name: str, is_constant: bool) -> _Fate:
        """Returns the fate of a node."""
        homes, events = self._homes.get(name, []), self._removals.get(name, [])
        if name in homes:
            return "kernel", "", ()
        if homes:
            by = next((event.by for event in events if not set(homes).isdisjoint(event.into)), "")
            return "merged", by, tuple(dict.fromkeys(homes))
        if name in self._views:
            return "view", "", ()
        if is_constant:
            return "constant", "import", ()
        if name in self._initial:
            return "computed at compile time", "stepwell-hoist-parameters", ()
        return self._fate_by_removals(events)

    def _fate_by_removals(self, events: Sequence[_Removal]) -> _Fate:
        """Returns the fate of a node without work at run time, by the removals of its ops."""
        if not events:
            return "removed", "import", ()
        last = events[-1]
        if last.how == FOLDED:
            return "constant", last.by, ()
        if last.how == SHARED:
            return "shared", last.by, tuple(last.into)
        # A node may become several ops (an image's padding, a product, its bias), which are rewritten independently.
        for event in reversed(events):
            if event.how == ABSORBED and (home := self._home(event.into)):
                return "merged", event.by, tuple(home)
        return "removed", last.by, ()

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
                pending.extend(other for event in self._removals.get(name, ()) for other in event.into)
        return found
