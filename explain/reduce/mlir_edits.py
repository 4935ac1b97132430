"""Edits of an MLIR module: removes ops, replaces ops by their bodies, drops attributes.

All edits run in trial processes, so an edit that crashes native code only loses a candidate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from mlir import ir

from ...passes.infra.diagnostics import MLIRError

_ZEROS = ("0", "0.0", "false", "dense<0>", "dense<0.0>", "dense<false>")
_RETURNS = ("func.return", "llvm.return", "gpu.return")


def ops_of(module: ir.Module) -> list[ir.Operation]:
    """Returns all ops except the module itself, in the order of the text."""
    return list(_walk(module.operation))


def _walk(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region:
            for view in block.operations:
                yield view.operation
                yield from _walk(view.operation)


def is_last(op: ir.Operation) -> bool:
    """Returns whether an op is the terminator that its block needs, which cannot be removed."""
    operations = op.block.operations
    is_end = operations[len(operations) - 1].operation == op
    return is_end and (op.name in _RETURNS or len(op.successors) > 0 or "yield" in op.name or "terminator" in op.name)


def take_out(module: ir.Module, chosen: Collection[int], way: str) -> bool:
    """Erases ops by index and replaces the uses of their results; returns whether all uses could be replaced.

    Args:
        module: the module, which is changed.
        chosen: the indices of ops.
        way: replacement of results: "operand" of the op with the same type if there is one, else (and for "argument") a
            new argument of the function; "constant": zeros.
    """
    everything, end = ops_of(module), 0
    ends = _ends(module)
    outermost = []
    for index in sorted(chosen):
        if index >= end:
            outermost.append(index)
            end = ends[index]
    for index in reversed(outermost):
        op = everything[index]
        for result in op.results:
            if any(True for _ in result.uses) and not _replace(op, result, way):
                return False
        op.erase()
    return True


def _ends(module: ir.Module) -> list[int]:
    """Returns for each op the index of the first op after all that are nested in it."""
    ends: list[int] = []

    def visit(op: ir.Operation) -> None:
        for region in op.regions:
            for block in region:
                for view in block.operations:
                    index = len(ends)
                    ends.append(0)
                    visit(view.operation)
                    ends[index] = len(ends)

    visit(module.operation)
    return ends


def _replace(op: ir.Operation, result: ir.Value, way: str) -> bool:
    if way == "operand":
        same = [operand for operand in op.operands if operand.type == result.type]
        if same:
            result.replace_all_uses_with(same[0])
            return True
    substitute = _constant(op, result.type) if way == "constant" else _argument(op, result.type)
    if substitute is None:
        return False
    result.replace_all_uses_with(substitute)
    return True


def _constant(op: ir.Operation, kind: ir.Type) -> ir.Value:
    with op.location, ir.InsertionPoint(op):
        zero = _parsed(*(f"{text} : {kind}" for text in _ZEROS))
        if zero is not None:
            return ir.Operation.create("arith.constant", results=[kind], attributes={"value": zero}).result
        poison = {"value": ir.Attribute.parse("#ub.poison")}
        return ir.Operation.create("ub.poison", results=[kind], attributes=poison).result


def _parsed(*texts: str) -> ir.Attribute | None:
    """Returns the first of some texts that parses as an attribute."""
    for text in texts:
        try:
            return ir.Attribute.parse(text)
        except MLIRError:
            continue
    return None


def _argument(op: ir.Operation, kind: ir.Type) -> ir.Value | None:
    """Adds an argument to the function around an op; returns None if it is called, or is not a function."""
    function = op.parent
    while function is not None and function.operation.name != "func.func":
        function = function.operation.parent
    if function is None or _is_called(function.operation):
        return None
    operation = function.operation
    block = operation.regions[0].blocks[0]
    old = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
    value = block.add_argument(kind, op.location)
    changed = ir.FunctionType.get([*old.inputs, kind], list(old.results))
    operation.attributes["function_type"] = ir.TypeAttr.get(changed)
    if "arg_attrs" in operation.attributes:
        known = list(ir.ArrayAttr(operation.attributes["arg_attrs"]))
        operation.attributes["arg_attrs"] = ir.ArrayAttr.get([*known, ir.DictAttr.get({})])
    return value


def _is_called(function: ir.Operation) -> bool:
    name = f"@{ir.StringAttr(function.attributes['sym_name']).value}"
    pattern = re.compile(rf"{re.escape(name)}(?![\w.$-])")
    root = function
    while root.parent is not None:
        root = root.parent.operation
    return any(
        pattern.search(str(op.attributes[key])) for op in _walk(root) for key in op.attributes if key != "sym_name"
    )


def drop_results(module: ir.Module, index: int, kept: Collection[int]) -> bool:
    """Removes all but the `kept` results of a function that has no callers."""
    function = ops_of(module)[index]
    if function.name != "func.func" or _is_called(function):
        return False
    old = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    results = [kind for place, kind in enumerate(old.results) if place in kept]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(list(old.inputs), results))
    if "res_attrs" in function.attributes:
        known = list(ir.ArrayAttr(function.attributes["res_attrs"]))
        function.attributes["res_attrs"] = ir.ArrayAttr.get([known[place] for place in sorted(kept)])
    for op in [op for op in _walk(function) if op.name == "func.return"]:
        operands = [operand for place, operand in enumerate(op.operands) if place in kept]
        with op.location, ir.InsertionPoint(op):
            ir.Operation.create("func.return", operands=operands)
        op.erase()
    return True


def drop_unused_arguments(module: ir.Module, index: int) -> bool:
    """Removes the unused arguments of a function that has no callers; returns whether there were any."""
    function = ops_of(module)[index]
    if function.name != "func.func" or _is_called(function) or not len(function.regions[0].blocks):
        return False
    block = function.regions[0].blocks[0]
    idle = [place for place, value in enumerate(block.arguments) if not any(True for _ in value.uses)]
    for place in reversed(idle):
        block.erase_argument(place)
    old = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs = [kind for place, kind in enumerate(old.inputs) if place not in idle]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, list(old.results)))
    if "arg_attrs" in function.attributes:
        known = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
        left = [item for place, item in enumerate(known) if place not in idle]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(left)
    return bool(idle)


def unwrap(module: ir.Module, index: int, body: int) -> bool:
    """Replaces an op by the single block of one of its regions, whose arguments become operands or zeros."""
    op = ops_of(module)[index]
    if len(op.regions[body].blocks) != 1 or op.name in ("func.func", "llvm.func", "builtin.module"):
        return False
    block = op.regions[body].blocks[0]
    free = list(op.operands)
    for value in block.arguments:
        same = next((operand for operand in free if operand.type == value.type), None)
        value.replace_all_uses_with(same if same is not None else _constant(op, value.type))
    inner = [view.operation for view in block.operations]
    for each in inner[:-1]:
        each.move_before(op)
    gives = list(inner[-1].operands) if inner else []
    for result, value in zip(op.results, gives, strict=False):
        if result.type == value.type:
            result.replace_all_uses_with(value)
    for result in op.results:
        if any(True for _ in result.uses) and not _replace(op, result, "operand"):
            return False
    op.erase()
    return True


def follow(module: ir.Module, index: int, choice: int) -> bool:
    """Makes a branch unconditional, drops unreachable blocks, and joins chains of blocks.

    cf.cond_br %c, ^bb1(%x : f32), ^bb2(%x : f32)  -->  the ops of ^bb1, with %x for its argument
    """
    op = ops_of(module)[index]
    if op.name != "cf.cond_br" or op.parent is None:
        return False
    _, *counts = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    start = 1 + sum(counts[:choice])
    with op.location, ir.InsertionPoint(op):
        operands = list(op.operands)[start : start + counts[choice]]
        ir.Operation.create("cf.br", operands=operands, successors=[op.successors[choice]])
    parent = op.parent.operation
    op.erase()
    for number, region in enumerate(parent.regions):
        if any(_last(block).name == "cf.br" for block in region.blocks if len(block.operations)):
            _keep_reachable(parent, number)
            return True
    return False


def _last(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def _keep_reachable(parent: ir.Operation, number: int) -> None:
    """Replaces an op by a copy with only the reachable blocks of a region; chains of blocks are joined."""
    entry = parent.regions[number].blocks[0]
    while True:
        reached = _reachable(entry)
        line = next((block for block in reached if _is_chained(block, reached)), None)
        if line is None:
            break
        end = _last(line)
        (following,) = end.successors
        for argument, value in zip(following.arguments, end.operands, strict=True):
            argument.replace_all_uses_with(value)
        for view in list(following.operations):
            view.operation.move_before(end)
        end.erase()
    attributes = {key: parent.attributes[key] for key in parent.attributes}
    results = [result.type for result in parent.results]
    with parent.location, ir.InsertionPoint(parent):
        new = ir.Operation.create(parent.name, results, list(parent.operands), attributes, regions=len(parent.regions))
    for place, region in enumerate(parent.regions):
        for block in reached if place == number else list(region.blocks):
            block.append_to(new.regions[place])
    for old, result in zip(parent.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    parent.erase()


def _reachable(entry: ir.Block) -> list[ir.Block]:
    """Returns the blocks that are reachable from `entry`, which comes first."""
    found = [entry]
    for block in found:
        found += [each for each in dict.fromkeys(_last(block).successors) if each not in found]
    return found


def _is_chained(block: ir.Block, reached: list[ir.Block]) -> bool:
    """Returns whether the block always branches to a block without other predecessors."""
    end = _last(block)
    if end.name != "cf.br":
        return False
    (following,) = end.successors
    sources = [each for each in reached for target in _last(each).successors if target == following]
    return len(sources) == 1 and following != reached[0]


def drop_attribute(module: ir.Module, index: int | None, name: str) -> bool:
    """Drops an attribute of an op, or of the module if `index` is None."""
    op = module.operation if index is None else ops_of(module)[index]
    if name not in op.attributes:
        return False
    del op.attributes[name]
    return True


def splat(module: ir.Module, index: int, name: str) -> bool:
    """Replaces a constant by zeros."""
    op = ops_of(module)[index]
    kind = str(op.attributes[name]).rpartition(" : ")[2]
    zero = _parsed(*(f"{text} : {kind}" for text in _ZEROS))
    if zero is None:
        return False
    op.attributes[name] = zero
    return True
