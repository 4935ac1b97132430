"""The levels `kernel` and `program`: native code beside the ops that it was made of, and the passes that make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from ...dialects import interpreter
from ...lowering.llvm_to_object.codegen import CodegenError
from ...lowering.target import Target
from ...passes.base import PassError
from ...passes.kernel.form_kernels import model_ops
from ...passes.pipeline import Pipeline
from ...passes.runner import PassFailure
from ...runtime.program import Program
from .comparison import Difference, Tolerance, compare, noise_of, worst
from .graph import Stage
from .isolation import IsolatedCall, isolate
from .native import NEEDED, SUBSTITUTES, compile_by, name_of, partly_simple, run, way_down
from .result import Fault, Level

_CANNOT = (PassFailure, PassError, CodegenError)


class _Found(Exception):
    def __init__(self, call: IsolatedCall, operation: ir.Operation, operands: Sequence[Any], fault: Fault) -> None:
        super().__init__()
        self.call, self.operation, self.operands, self.fault = call, operation, operands, fault


def check_kernels(
    stage: Stage,
    inputs: Sequence[np.ndarray],
    target: str,
    tolerance: Tolerance,
    level: Level,
    step: Callable[[str], None] = lambda text: None,
) -> Fault | None:
    """The first kernel whose code gives other results than its ops do, on what it gets in the model, if one does.

    Args:
        stage: the model as kernels of stepwell ops.
        inputs: what goes into it.
        target: the target's name.
        tolerance: what counts as rounding.
        level: counts the comparisons.
        step: told which kernel is compared.
    """
    symbols = ir.SymbolTable(stage.module)
    way = Pipeline(way_down(target))
    programs: dict[str, Program] = {}
    seen: set[ir.Value] = set()

    def around(operation: ir.Operation, operands: Sequence[Any], compute: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        results = compute()
        if operation.name != "func.call" or operation.results[0] in seen:
            return results
        seen.add(operation.results[0])
        name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
        step(name)
        call = isolate(operation, symbols[name].operation)
        text = str(call.module.operation.get_asm(enable_debug_info=False))
        if text not in programs:
            programs[text] = compile_by(call.module, way, target, {})
        want = np.asarray(results[0])
        difference = _difference(call, programs[text], operands, want, tolerance)
        nodes = tuple(model_ops(operation.location))
        level.see(difference, f"{name} ({', '.join(nodes)})")
        if difference.is_wrong:
            fault = Fault("kernel", difference, nodes=nodes, kernel=name)
            raise _Found(call, operation, list(operands), fault)
        return results

    try:
        interpreter.evaluate(stage.module, "main", inputs, stage.parameters, around=around)
    except _Found as found:
        want = interpreter.evaluate(found.call.module, "main", found.call.inputs(found.operands), {})
        fault = found.fault
        fault.before = _as_graph(found.call)
        fault.inputs = {f"input{index}": array for index, array in enumerate(found.call.inputs(found.operands))}
        fault.expected = {"output0": want[0]}
        _find_pass(fault, found.call, found.operands, target, tolerance, step)
        return fault
    return None


def _difference(
    call: IsolatedCall,
    program: Program,
    operands: Sequence[np.ndarray],
    want: np.ndarray,
    tolerance: Tolerance,
) -> Difference:
    (output,) = run(program, call.inputs(operands))
    got = call.result(output, want)
    found = compare(got, want, tolerance)
    if not found.is_wrong or found.reason:
        return found

    def evaluate(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        (whole,) = interpreter.evaluate(call.module, "main", call.inputs(arrays), {})
        return [call.result(whole)]

    return compare(got, want, tolerance, noise_of(evaluate, operands)[0])


def _find_pass(
    fault: Fault,
    call: IsolatedCall,
    operands: Sequence[np.ndarray],
    target: str,
    tolerance: Tolerance,
    step: Callable[[str], None],
) -> None:
    """Says of a wrong kernel which pass makes it wrong, and which of its ops."""
    (whole,) = interpreter.evaluate(call.module, "main", call.inputs(operands), {})
    want = call.result(whole)

    def difference(pipeline: Pipeline) -> Difference:
        return _difference(call, compile_by(call.module, pipeline, target, {}), operands, want, tolerance)

    fault.pass_name, fault.note, pipeline = first_wrong(target, difference, step)
    fault.difference = difference(pipeline)
    step("its ops")
    _find_op(fault, call, operands, target, pipeline, tolerance)


def first_wrong(
    target: str, difference: Callable[[Pipeline], Difference], step: Callable[[str], None]
) -> tuple[str, str, Pipeline]:
    """The first pass that makes a program wrong when all passes behind it are the simplest that do.

    Args:
        target: the passes on the way to it make, together, a wrong program.
        difference: compiles by a pipeline, runs that, and compares.
        step: told what is tried.

    Returns:
        The pass, what else is to be said of it, and the pipeline with it and the simplest passes behind it. On the way
        to a GPU few passes have a simpler form: where it is none of these, no pass is named.
    """
    elements = way_down(target)
    found: dict[int, tuple[bool, Pipeline, str]] = {}

    def look(count: int) -> bool | None:
        """Whether it is wrong with only so many passes as they are; None where it cannot be compiled so."""
        step(f"without what follows {name_of(elements[count - 1])}")
        for kept in ((), NEEDED):
            pipeline = partly_simple(elements, count, kept)
            try:
                found[count] = difference(pipeline).is_wrong, pipeline, ", ".join(kept)
            except _CANNOT:
                continue
            return found[count][0]
        return None

    simple = [index for index, item in enumerate(elements) if name_of(item) in SUBSTITUTES and index > 0]
    bad, good = len(elements), 0
    found[bad] = True, Pipeline(elements), ""
    # What is wrong with all of them simple is wrong in the first, which has no simpler form.
    counts = [simple[0], *(index + 1 for index in simple)]
    while counts:
        # The first one is likelier than others, and tells most.
        middle = counts[0] if good == 0 else counts[len(counts) // 2]
        verdict = look(middle)
        good, bad = (good, middle) if verdict else (middle if verdict is False else good, bad)
        counts = [count for count in counts if good < count < bad and count != middle]
    _, pipeline, kept = found[bad]
    between = [name_of(elements[index]) for index in simple if good <= index < bad]
    if not (good and between) and Target.parse(target).is_gpu:
        return "", "one of the passes on the way to a GPU, few of which have a simpler form", pipeline
    name = between[0] if good and between else name_of(elements[0])
    others = [*between[1:], *([kept] if kept and kept not in between else [])]
    note = f"or {', '.join(others)}: it cannot be compiled without" if good and others else ""
    return name, note, pipeline


def _find_op(
    fault: Fault,
    call: IsolatedCall,
    operands: Sequence[np.ndarray],
    target: str,
    pipeline: Pipeline,
    tolerance: Tolerance,
) -> None:
    """Says of a wrong kernel after which of its ops it is wrong, by leaving out those behind."""
    kernel = next(op.operation for op in call.module.body.operations if "stepwell.kernel" in op.attributes)
    if "res_attrs" in kernel.attributes:
        return  # what it makes is a part of something, and what leads there is not
    block = kernel.regions[0].blocks[0]
    ops = [op.operation for op in block.operations][:-1]
    for index, op in enumerate(ops[:-1]):
        if op.name == "stepwell.constant":
            continue
        short = _shortened(call, kernel, index)
        try:
            program = compile_by(short.module, pipeline, target, {})
            (want,) = interpreter.evaluate(short.module, "main", short.inputs(operands), {})
            difference = _difference(short, program, operands, want, tolerance)
        except _CANNOT:
            continue  # half a kernel, which need not be one
        if difference.is_wrong:
            _blame(fault, op)
            return
    _blame(fault, ops[-1])


def _blame(fault: Fault, op: ir.Operation) -> None:
    fault.op_type = op.name
    fault.nodes = tuple(model_ops(op.location)) or fault.nodes


def _shortened(call: IsolatedCall, kernel: ir.Operation, last: int) -> IsolatedCall:
    """The same call of a kernel that ends with its op number `last`."""
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    with kernel.location:
        copy = kernel.clone()
        block = copy.regions[0].blocks[0]
        ops = [op.operation for op in block.operations]
        ops[-1].operands[0] = ops[last].results[0]
        for op in reversed(ops[last + 1 : -1]):
            op.erase()
        result = ops[last].results[0].type
        kind = ir.FunctionType.get([argument.type for argument in block.arguments], [result])
        copy.attributes["function_type"] = ir.TypeAttr.get(kind)
        host = ir.Module.create()
        with ir.InsertionPoint(host.body):
            caller = func.FuncOp("caller", (kind.inputs, [result]))
        with ir.InsertionPoint(caller.add_entry_block()):
            made = func.CallOp([result], ir.FlatSymbolRefAttr.get(name), list(caller.arguments))
            func.ReturnOp([made.results[0]])
    return isolate(made.operation, copy)


def _as_graph(call: IsolatedCall) -> ir.Operation:
    """The kernel's ops as a model in the phase `graph`: of them, the compiler makes the kernel again."""
    copy = ir.Module.parse(str(call.module.operation.get_asm(enable_debug_info=True)))
    kernel = next(op.operation for op in copy.body.operations if "stepwell.kernel" in op.attributes)
    main = next(op.operation for op in copy.body.operations if "stepwell.kernel" not in op.attributes)
    if call.box is not None or any(root.parts for root in call.roots):
        return copy.operation
    main.erase()
    for name in ("stepwell.kernel", "sym_visibility", "arg_attrs", "res_attrs"):
        if name in kernel.attributes:
            del kernel.attributes[name]
    kernel.attributes["sym_name"] = ir.StringAttr.get("main")
    copy.operation.attributes["stepwell.phase"] = ir.StringAttr.get("graph")
    return copy.operation


def check_program(
    stage: Stage,
    inputs: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    noise: Callable[[], Sequence[np.ndarray]],
    target: str,
    tolerance: Tolerance,
    level: Level,
    step: Callable[[str], None] = lambda text: None,
) -> Fault | None:
    """What is wrong with the program, all kernels of which are right, if it is wrong.

    Args:
        stage: the model as kernels of stepwell ops.
        inputs: what goes into it.
        want: what should come out.
        noise: how much of that is rounding; asked for where it matters.
        target: the target's name.
        tolerance: what counts as rounding.
        level: counts the comparisons.
        step: told what is tried.
    """
    elements = way_down(target)

    def difference(pipeline: Pipeline, threads: int | None = None) -> Difference:
        program = compile_by(stage.module, pipeline, target, stage.parameters)
        got = run(program, inputs, threads)
        found = worst([compare(*pair, tolerance) for pair in zip(got, want, strict=False)])
        if not found.is_wrong or found.reason:
            return found
        sizes = noise()
        return worst([compare(*three[:2], tolerance, three[2]) for three in zip(got, want, sizes, strict=False)])

    step("the whole program")
    found = difference(Pipeline(elements))
    level.see(found, "the outputs")
    if not found.is_wrong:
        return None
    fault = Fault("program", found, before=stage.module, parameters=dict(stage.parameters))
    fault.inputs = {f"input{index}": array for index, array in enumerate(inputs)}
    fault.expected = {f"output{index}": array for index, array in enumerate(want)}
    if not difference(Pipeline(elements), threads=1).is_wrong:
        fault.pass_name, fault.note = "stepwell-share-out-calls", "right with one thread, wrong with several"
        return fault
    fault.pass_name, fault.note, pipeline = first_wrong(target, difference, step)
    fault.difference = difference(pipeline)
    return fault
