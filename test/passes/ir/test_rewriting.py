"""The driver of rewrite patterns: fixed points, types, dead ops, refusals."""

from __future__ import annotations

import pytest
from mlir import ir
from stepwell.dialects.registry import OPS, load_dialects
from stepwell.dialects.stepwell.elementwise import AbsOp, NegOp, ReluOp, TanhOp
from stepwell.dialects.stepwell.movement import ReshapeOp
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.rewriting import Pattern, Refusal, apply_patterns, walk
from stepwell.runtime.remarks import Remark

_TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = "stepwell.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  return %1 : tensor<4xf32>
}
"""


@pytest.fixture
def module():
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        yield ir.Module.parse(_TEXT)


def _names(module: ir.Module) -> list[str]:
    return [op.name for op in walk(module.operation) if op.name in OPS]


class _Replace(Pattern):
    """root(x) --> made(x)"""

    def __init__(self, root, made) -> None:
        self.root, self.made = root, made

    def rewrite(self, op):
        """Always matches."""
        return self.made(op.input).result


def test_dead_ops_go_and_locations_stay(module):
    class AbsOfNeg(Pattern[AbsOp]):
        """abs(neg(x)) --> relu(x)"""

        root = AbsOp

        def rewrite(self, op):
            """Matches once."""
            return ReluOp(op.input.owner.operands[0]).result

    apply_patterns(module.operation, [AbsOfNeg()], CompileState())
    assert _names(module) == ["stepwell.relu"]
    relu = next(op for op in walk(module.operation) if op.name == "stepwell.relu")
    assert str(relu.location) == 'loc(fused["second", "first"])'


def test_a_new_op_is_looked_at_in_its_turn(module):
    apply_patterns(module.operation, [_Replace(NegOp, AbsOp), _Replace(AbsOp, TanhOp)], CompileState())
    assert _names(module) == ["stepwell.tanh", "stepwell.tanh"]


def test_patterns_without_end_are_an_error_that_names_them(module):
    with pytest.raises(RuntimeError, match=r"the patterns reach no fixed point; .*_Replace"):
        apply_patterns(module.operation, [_Replace(NegOp, TanhOp), _Replace(TanhOp, NegOp)], CompileState())


def test_another_type_is_refused(module):
    class Widen(Pattern[NegOp]):
        """neg(x) --> a tensor of another shape"""

        root = NegOp

        def rewrite(self, op):
            """Never returns the right type."""
            return ReshapeOp(op.input, shape=(1, 4)).result

    state = CompileState()
    apply_patterns(module.operation, [Widen()], state)
    assert _names(module) == ["stepwell.neg", "stepwell.abs"]
    (remark,) = [item for item in state.remarks if item.kind == "missed"]
    assert (remark.kind, remark.rule, remark.nodes) == ("missed", "Widen", ("first",))
    assert "tensor<4xf32> to tensor<1x4xf32>" in remark.message


def test_refusals_are_collected(module):
    class Reluctant(Pattern[AbsOp]):
        """abs(x) stays"""

        root = AbsOp

        def rewrite(self, op):
            """Refuses, with a reason."""
            return Refusal("not today")

    state = CompileState()
    apply_patterns(module.operation, [Reluctant()], state)
    assert state.remarks == [Remark("missed", "", "Reluctant", ("second",), "not today")]
