"""The levels `kernel` and `program`: compares native code with the ops that it was compiled from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from ...dialects import discardable, interpreter
from ...dialects.core import Rounding
from ...dialects.registry import OPS
from ...dialects.types import is_float
from ...passes.infra.pipeline import Pipeline
from ...passes.ir.locations import names_in
from ...passes.ir.rewriting import walk
from ...runtime.program import Program
from ...support.errors import StepwellError
from .blame import CANNOT, Probe, first_wrong
from .comparison import Tolerance, noise_of, rounding_of
from .graph import Stage
from .isolation import IsolatedCall, isolate
from .native import NativeCompiler, lowering_passes, run
from .result import Fault, Level

_LARGER = 64
"""Factor of the larger operands: typical softmax scores then exceed the range of exp in f32 (88)."""


class _Found(StepwellError):
    def __init__(self, call: IsolatedCall, operation: ir.Operation, operands: Sequence[Any], fault: Fault) -> None:
        super().__init__()
        self.call, self.operation, self.operands, self.fault = call, operation, operands, fault


def check_kernels(
    stage: Stage,
    inputs: Sequence[np.ndarray],
    native: NativeCompiler,
    tolerance: Tolerance,
    level: Level,
    step: Callable[[str], None] = lambda text: None,
) -> Fault | None:
    """Finds the first kernel whose code gives other results than its ops, for its operands in the model.

    Args:
        stage: the model as kernels of stepwell ops.
        inputs: the model's inputs.
        native: compiles for the target.
        tolerance: the error that counts as rounding.
        level: counts the comparisons.
        step: called with the name of each kernel that is compared.
    """
    symbols = ir.SymbolTable(stage.module)
    pipeline = Pipeline(lowering_passes(native.state.target))
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
            programs[text] = native.compile(call.module, pipeline, {})
        nodes = tuple(names_in(operation.location))
        for arrays in (operands, *_larger(call, operands)):
            want = np.asarray(results[0]) if arrays is operands else call.expected(arrays)
            difference = _probe(call, programs[text], arrays, want, tolerance).difference
            level.see(difference, f"{name} ({', '.join(nodes)})")
            if difference.is_wrong:
                note = "" if arrays is operands else f"with operands {_LARGER} times as large as the model's"
                fault = Fault("kernel", difference, nodes=nodes, kernel=name, note=note)
                raise _Found(call, operation, list(arrays), fault)
        return results

    try:
        interpreter.evaluate(stage.module, "main", stage.inputs(inputs), stage.parameters, around=around)
    except _Found as found:
        fault = found.fault
        (want,) = interpreter.evaluate(found.call.module, "main", found.call.inputs(found.operands), {})
        fault.before = _as_graph(found.call)
        fault.inputs = {f"input{index}": array for index, array in enumerate(found.call.inputs(found.operands))}
        fault.expected = {"output0": want}
        _find_pass(fault, found.call, found.operands, native, tolerance, step)
        return fault
    return None


def _larger(call: IsolatedCall, operands: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Returns a call's operands with larger floats, if its ops are not linear; empty otherwise."""
    names = _ops_of(call)
    roundings = set(map(rounding_of, names))
    if (
        all(OPS[name].is_linear() for name in names)
        or roundings == {Rounding.EXACT}
        or not any(is_float(array.dtype) for array in operands)
    ):
        return []
    with np.errstate(all="ignore"):
        return [[array * array.dtype.type(_LARGER) if is_float(array.dtype) else array for array in operands]]


def _ops_of(call: IsolatedCall) -> set[str]:
    """Returns the names of the ops of a kernel."""
    return {op.name for op in walk(call.kernel) if op.name in OPS}


def _probe(
    call: IsolatedCall,
    program: Program,
    operands: Sequence[np.ndarray],
    want: np.ndarray,
    tolerance: Tolerance,
) -> Probe:
    """Runs a kernel's code and compares its results with those expected."""
    live, defined = call.live(operands), call.defined(operands)
    runs = [call.result(output) for (output,) in run(program, call.inputs(operands))]
    results = [(made if defined is True else np.where(defined, made, want))[live] for made in runs]
    tolerance = replace(tolerance, is_strict=Rounding.SUM not in map(rounding_of, _ops_of(call)))

    def noise() -> list[np.ndarray]:
        def evaluate(arrays: Sequence[np.ndarray], around: interpreter.Around | None) -> Sequence[np.ndarray]:
            return [call.expected(arrays, around)[live]]

        return noise_of(evaluate, operands)

    return Probe.of([[result] for result in results], [want[live]], tolerance, noise)


def _find_pass(
    fault: Fault,
    call: IsolatedCall,
    operands: Sequence[np.ndarray],
    native: NativeCompiler,
    tolerance: Tolerance,
    step: Callable[[str], None],
) -> None:
    """Records in the fault of a wrong kernel which pass makes it wrong, and which of its ops."""
    want = call.expected(operands)

    def probe(pipeline: Pipeline) -> Probe:
        return _probe(call, native.compile(call.module, pipeline, {}), operands, want, tolerance)

    found = first_wrong(call.module.operation, native.state.target, probe, step)
    fault.pass_name, fault.note = found.pass_name, "; ".join(filter(None, (fault.note, found.note)))
    fault.difference = probe(found.pipeline).difference
    step("its ops")
    _find_op(fault, call, operands, native, found.pipeline, tolerance)


def _find_op(
    fault: Fault,
    call: IsolatedCall,
    operands: Sequence[np.ndarray],
    native: NativeCompiler,
    pipeline: Pipeline,
    tolerance: Tolerance,
) -> None:
    """Records in the fault of a wrong kernel the op after which it is wrong, by leaving out the ops after it."""
    kernel = next(op.operation for op in call.module.body.operations if discardable.KERNEL.is_on(op))
    if "res_attrs" in kernel.attributes:
        return  # its result is a part of a tensor, and the ops up to there are not
    block = kernel.regions[0].blocks[0]
    ops = [op.operation for op in block.operations][:-1]
    for index, op in enumerate(ops[:-1]):
        if op.name == "stepwell.constant":
            continue
        short = _shortened(kernel, index)
        try:
            program = native.compile(short.module, pipeline, {})
            difference = _probe(short, program, operands, short.expected(operands), tolerance).difference
        except CANNOT:
            continue  # a prefix of a kernel need not be a valid kernel
        if difference.is_wrong:
            _blame(fault, op)
            return
    _blame(fault, ops[-1])


def _blame(fault: Fault, op: ir.Operation) -> None:
    fault.op_type = op.name
    fault.nodes = tuple(names_in(op.location)) or fault.nodes


def _shortened(kernel: ir.Operation, last: int) -> IsolatedCall:
    """Returns the same call of a kernel that ends with its op number `last`."""
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
    """Returns the kernel's ops as a model in the phase `graph`, from which the compiler forms the kernel again."""
    copy = ir.Module.parse(str(call.module.operation.get_asm(enable_debug_info=True)))
    kernel = next(op.operation for op in copy.body.operations if discardable.KERNEL.is_on(op))
    main = next(op.operation for op in copy.body.operations if not discardable.KERNEL.is_on(op))
    if call.box is not None or any(root.parts for root in call.roots):
        return copy.operation
    main.erase()
    for name in (discardable.KERNEL.name, "sym_visibility", "arg_attrs", "res_attrs"):
        if name in kernel.attributes:
            del kernel.attributes[name]
    kernel.attributes["sym_name"] = ir.StringAttr.get("main")
    discardable.PHASE.write(copy.operation, "graph")
    return copy.operation


def check_program(
    stage: Stage,
    inputs: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    noise: Callable[[], Sequence[np.ndarray]],
    native: NativeCompiler,
    tolerance: Tolerance,
    level: Level,
    step: Callable[[str], None] = lambda text: None,
) -> Fault | None:
    """Finds the fault of a program whose kernels are all correct, if its outputs are wrong.

    Args:
        stage: the model as kernels of stepwell ops.
        inputs: the model's inputs.
        want: the expected outputs.
        noise: computes how much of a difference is rounding; called only if needed.
        native: compiles for the target.
        tolerance: the error that counts as rounding.
        level: counts the comparisons.
        step: called with a description of each attempt.
    """
    elements = lowering_passes(native.state.target)

    def probe(pipeline: Pipeline, threads: int | None = None) -> Probe:
        program = native.compile(stage.module, pipeline, stage.parameters)
        found = [stage.cropped(results) for results in run(program, stage.inputs(inputs), threads)]
        return Probe.of(found, want, tolerance, noise)

    step("the whole program")
    found = probe(Pipeline(elements)).difference
    level.see(found, "the outputs")
    if not found.is_wrong:
        return None
    fault = Fault("program", found, before=stage.module, parameters=dict(stage.parameters))
    fault.inputs = {f"input{index}": array for index, array in enumerate(stage.inputs(inputs))}
    fault.expected = {f"output{index}": array for index, array in enumerate(want)}
    if not probe(Pipeline(elements), threads=1).difference.is_wrong:
        fault.pass_name, fault.note = "stepwell-share-out-calls", "right with one thread, wrong with several"
        return fault
    blamed = first_wrong(stage.module, native.state.target, probe, step)
    fault.pass_name, fault.note = blamed.pass_name, blamed.note
    fault.difference = probe(blamed.pipeline).difference
    return fault
