"""Kernels that a worker compiles before they are requested: those of a model's first part, under their final names."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.symbols import symbol_of
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.driver.workers.claims import Claims, Speculation
from stepwell.driver.workers.pool import KernelPool, kernel_pool
from stepwell.driver.workers.shares import module_bytecode
from stepwell.driver.workers.speculation import compile_speculatively, cut_after
from stepwell.lowering import invariants
from stepwell.passes.ir.functions import main_function

pytestmark = pytest.mark.workers

TARGET = "x86-64-v3"
SPECULATION = Speculation(TARGET, ((4, 8),), ())


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """A compiler's context for every test."""
    with compiler_context() as entered, ir.Location.name("node"):
        load_dialects(entered)
        yield


def model(length: int = 8) -> ir.Module:
    """Products of rows, each with a weight of a different width, with activations between them."""
    lines, width = [], 8
    for number in range(length):
        weight = f"tensor<{width}x{width + 1}xf32>"
        named = f'{{name = "w{number}", shape = array<i64: {width}, {width + 1}>, dtype = f32}}'
        lines.append(f'%w{number} = "stepwell.parameter"() {named} : () -> {weight}')
        product = f"tensor<4x{width + 1}xf32>"
        taken = f"(tensor<4x{width}xf32>, {weight}) -> {product}"
        lines.append(f'%m{number} = "stepwell.matmul"(%{f"t{number - 1}" if number else "x"}, %w{number}) : {taken}')
        lines.append(f'%t{number} = "stepwell.tanh"(%m{number}) : ({product}) -> {product}')
        width += 1
    kind = f"tensor<4x{width}xf32>"
    lines.append(f"return %t{length - 1} : {kind}")
    return ir.Module.parse(f"func.func @main(%x: tensor<4x8xf32>) -> {kind} {{\n" + "\n".join(lines) + "\n}")


def formed(module: ir.Module) -> ir.Module:
    """A model that calls kernels under their final names."""
    route.run(module, state_for(TARGET), "import", "graph")
    route.form_kernels_pipeline(TARGET).run(module)
    return module


def claims_of(module: ir.Module) -> Claims:
    """Claims that hold a model to compile ahead."""
    claims = Claims()
    claims.put(module_bytecode(module))
    return claims


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelPool]:
    """A pool of this process and another one."""
    monkeypatch.setattr("stepwell.driver.workers.worker_pool.available_cores", lambda: 2)
    with kernel_pool(2) as pool:
        yield pool


def test_the_first_part_returns_what_the_rest_reads() -> None:
    module = ir.Module.parse("""
        func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {stepwell.name = "y"}) {
          %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
          %c = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
          %a = "stepwell.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %b = "stepwell.relu"(%a) : (tensor<4xf32>) -> tensor<4xf32>
          %d = "stepwell.add"(%b, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          %e = "stepwell.add"(%d, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          return %e : tensor<4xf32>
        }""")
    main = main_function(module.operation)
    cut_after(main, 0.5)
    names = [op.operation.name for op in main.regions[0].blocks[0].operations]
    # Values computed from parameters alone are not part of the work, and not returned.
    assert names == [f"stepwell.{name}" for name in ("parameter", "exp", "tanh", "relu")] + ["func.return"]
    returned = main.regions[0].blocks[0].operations[4]
    assert [value.owner.name for value in returned.operands] == ["stepwell.tanh", "stepwell.relu"]
    module.operation.verify()


def test_kernels_compiled_ahead_are_those_requested() -> None:
    claims = claims_of(model())
    ahead = compile_speculatively(SPECULATION, claims)
    module = formed(model())
    kernels = list(invariants.kernels(module))
    alone = KernelPool().compile(kernels, state_for(TARGET))
    common = ahead.keys() & alone.keys()
    assert claims.settle() == ahead.keys()
    assert 0 < len(common) < len(alone)
    assert {name: ahead[name] for name in common} == {name: alone[name] for name in common}


def test_nothing_is_begun_when_all_is_shared_out() -> None:
    claims = claims_of(model())
    assert claims.settle() == set()
    assert not claims.claim(["kernel_0"])
    assert compile_speculatively(SPECULATION, claims) == {}


def test_a_model_that_cannot_be_cut_is_left_alone() -> None:
    claims = Claims()
    claims.put(b"no module")
    assert compile_speculatively(SPECULATION, claims) == {}
    assert claims.settle() == set()


def test_code_compiled_ahead_is_used(pool: KernelPool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool.claims is not None
    module = formed(model())
    kernels = list(invariants.kernels(module))
    alone = KernelPool().compile(kernels, state_for(TARGET))
    state = state_for(TARGET, shapes=SPECULATION.shapes)
    pool.start_speculation(model(), state)
    wait_for_claims(pool.claims)
    with monkeypatch.context() as patches:
        patches.setattr(KernelPool, "_compile_alone", None)
        assert pool.compile(kernels, state) == alone


@pytest.mark.sweep
def test_claimed_kernels_are_compiled_after_their_process_died(pool: KernelPool) -> None:
    assert pool.claims is not None
    module = formed(model())
    kernels = list(invariants.kernels(module))
    state = state_for(TARGET, shapes=SPECULATION.shapes)
    pool.start_speculation(model(), state)
    wait_for_claims(pool.claims)
    os.kill(pool.workers[0].process_id, signal.SIGKILL)
    assert pool.compile(kernels, state).keys() == {symbol_of(kernel) for kernel in kernels}


def wait_for_claims(claims: Claims) -> None:
    """Returns when the other process has started to compile."""
    header = 16
    while os.fstat(claims.descriptor).st_size <= header + len(claims.model()):
        time.sleep(0.01)
