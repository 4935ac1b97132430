"""Random programs of calls, branches and loops give the same results in planned memory as in Python."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.lowering.vector_to_llvm.pipelines import llvm_pipeline, memref_pipeline
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget, Program, TensorInfo

KERNEL = """
func.func private @mix(%x: tensor<16xi32>, %y: tensor<16xi32>, %out: tensor<16xi32>) -> tensor<16xi32> {
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %three = arith.constant dense<3> : vector<16xi32>
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : tensor<16xi32>, vector<16xi32>
  %b = vector.transfer_read %y[%c0], %zero {in_bounds = [true]} : tensor<16xi32>, vector<16xi32>
  %p = arith.muli %a, %three : vector<16xi32>
  %s = arith.addi %p, %b : vector<16xi32>
  %w = vector.transfer_write %s, %out[%c0] {in_bounds = [true]} : vector<16xi32>, tensor<16xi32>
  return %w : tensor<16xi32>
}
"""
T = "tensor<16xi32>"
Array = np.ndarray
State = dict[str, Array]


def mix(x: Array, y: Array) -> Array:
    return x * np.int32(3) + y


class Writer:
    """Writes a random program, and Python functions that compute the same."""

    def __init__(self, seed: int) -> None:
        self.rng, self.count = random.Random(seed), 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def block(self, known: list[str], depth: int) -> tuple[str, list[str], Callable[[State], None]]:
        """Returns a few ops, the values known after them, and a function that computes them."""
        lines, steps, known = [], [], list(known)
        for _ in range(self.rng.randrange(1, 6)):
            kind = self.rng.choice(["call"] * 4 + (["if", "for"] if depth < 2 else []))
            text, results, step = getattr(self, f"write_{kind}")(known, depth)
            lines.append(text)
            steps.append(step)
            known += results

        def run(state: State) -> None:
            for step in steps:
                step(state)

        return "\n".join(lines), known, run

    def write_call(self, known: list[str], depth: int):
        x, y, result = self.rng.choice(known), self.rng.choice(known), self.fresh()
        text = f"{result} = func.call @mix({x}, {y}, %d) : ({T}, {T}, {T}) -> {T}"
        return text, [result], lambda state: state.update({result: mix(state[x], state[y])})

    def write_if(self, known: list[str], depth: int):
        condition, first = self.rng.choice(["%p", "%q"]), self.fresh()
        bodies = [self.block(known, depth + 1) for _ in range(2)]
        yields = [[self.rng.choice(values), self.rng.choice(values)] for _, values, _ in bodies]
        branches = [
            f"{text}\nscf.yield {', '.join(out)} : {T}, {T}" for (text, _, _), out in zip(bodies, yields, strict=True)
        ]
        text = f"{first}_r:2 = scf.if {condition} -> ({T}, {T}) {{\n{branches[0]}\n}} else {{\n{branches[1]}\n}}"

        def run(state: State) -> None:
            chosen = 0 if state[condition] else 1
            inner = dict(state)
            bodies[chosen][2](inner)
            state[f"{first}_r#0"], state[f"{first}_r#1"] = (inner[name] for name in yields[chosen])

        return text, [f"{first}_r#0", f"{first}_r#1"], run

    def write_for(self, known: list[str], depth: int):
        name, start = self.fresh(), [self.rng.choice(known), self.rng.choice(known)]
        carried = [f"{name}_a", f"{name}_b"]
        text, values, body = self.block([*known, *carried], depth + 1)
        yields = [self.rng.choice(values), self.rng.choice(values)]
        header = f"{carried[0]} = {start[0]}, {carried[1]} = {start[1]}"
        text = (
            f"{name}_r:2 = scf.for {name}_i = %c0 to %n step %c1 iter_args({header}) -> ({T}, {T}) {{\n"
            f"{text}\nscf.yield {', '.join(yields)} : {T}, {T}\n}}"
        )

        def run(state: State) -> None:
            now = [state[value] for value in start]
            for _ in range(int(state["%n"])):
                inner = {**state, **dict(zip(carried, now, strict=True))}
                body(inner)
                now = [inner[value] for value in yields]
            state[f"{name}_r#0"], state[f"{name}_r#1"] = now

        return text, [f"{name}_r#0", f"{name}_r#1"], run

    def program(self) -> tuple[str, list[str], Callable[[State], None]]:
        text, known, run = self.block(["%x", "%y"], 0)
        outputs = [self.rng.choice(known) for _ in range(3)]
        main = f"""
        func.func @main(%x: {T}, %y: {T}, %pt: tensor<i1>, %qt: tensor<i1>, %nt: tensor<i64>) -> ({T}, {T}, {T}) {{
          %d = tensor.empty() : {T}
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %p = tensor.extract %pt[] : tensor<i1>
          %q = tensor.extract %qt[] : tensor<i1>
          %n64 = tensor.extract %nt[] : tensor<i64>
          %n = arith.index_cast %n64 : i64 to index
          {text}
          return {", ".join(outputs)} : {T}, {T}, {T}
        }}"""
        return KERNEL + main, outputs, run


@pytest.mark.parametrize("seed", range(25))
def test_planned_memory_keeps_the_meaning(seed: int) -> None:
    text, outputs, run = Writer(seed).program()
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.parse(text)
        memref_pipeline("cpu").run(module)
        llvm_pipeline("cpu").run(module)
        objects = emit_objects(module, Target.host())
        size = ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value
    kinds = [("x", np.int32, (16,)), ("y", np.int32, (16,)), ("p", bool, ()), ("q", bool, ()), ("n", np.int64, ())]
    inputs = tuple(TensorInfo(name, np.dtype(kind), shape) for name, kind, shape in kinds)
    program = Program(inputs, (inputs[0],) * len(outputs), {}, size, CodeTarget("", "cpu"), objects=objects)
    loaded = LoadedProgram(program, loader.load(program), [])
    for flags in range(4):
        p, q, n = (np.array(item, kind) for item, kind in ((flags & 1, bool), (flags & 2, bool), (flags, np.int64)))
        x, y = np.arange(16, dtype=np.int32), np.arange(16, dtype=np.int32)[::-1].copy()
        state: State = {"%x": x, "%y": y, "%p": p, "%q": q, "%n": n}
        run(state)
        results = loaded.run(Workspace(), [x, y, p, q, n], threads=1)
        for name, result in zip(outputs, results, strict=True):
            np.testing.assert_array_equal(result, state[name])
