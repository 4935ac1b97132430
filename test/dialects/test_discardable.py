"""Discardable attributes: descriptors, verification, the phases in which they occur, and where names are spelt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np
import pytest
import stepwell
from mlir import ir
from stepwell.dialects import discardable, forms
from stepwell.dialects.core import OPS, OpError
from stepwell.dialects.discardable_attribute import DISCARDABLE, DiscardableAttribute
from stepwell.dialects.verifier import VerificationError, verify

from ..product_files import product_texts

# The key of a session's configuration, which is no attribute.
OTHER_MEANING = {("compat/onnxruntime/ranges.py", "stepwell.dims")}


VALUES = [
    (discardable.LIBRARY, True, "unit"),
    (discardable.STEP, 3, "3 : i64"),
    (discardable.NAME, "x", '"x"'),
    (discardable.SHARED_KERNEL, "k", "@k"),
    (discardable.PHASES, (1, 2), "array<i64: 1, 2>"),
    (discardable.OPS, ("a", "b"), '["a", "b"]'),
    (discardable.VERSIONS, ("k", "l"), "[@k, @l]"),
    (discardable.DIMS, ("n", 8), '["n", 8]'),
    (discardable.TYPICAL, ((1, 2), (3, 4)), "[array<i64: 1, 2>, array<i64: 3, 4>]"),
    (discardable.RANGES, {"n": (1, 8, 1), "x 0": (2, 4, 2)}, '{n = [1, 8, 1], "x 0" = [2, 4, 2]}'),
    (discardable.TABLE, (["*", "n", 2], "n"), '["[\\22*\\22, \\22n\\22, 2]", "\\22n\\22"]'),
    (discardable.KERNEL, discardable.KernelFacts("reduction", 8), '{class = "reduction", flops = 8 : i64}'),
    (discardable.SCHEDULE, "mine", "@mine"),
]


@pytest.mark.parametrize(("attribute", "value", "text"), VALUES, ids=[item.name for item, _, _ in VALUES])
def test_values_are_read_as_they_were_written(context, attribute, value, text):
    op, other = ir.Module.create().operation, ir.Module.create().operation
    assert not attribute.is_on(op)
    assert attribute.read(op) is None
    assert attribute.read(op, "default") == "default"
    with pytest.raises(OpError, match=f"has no attribute '{attribute.name}'"):
        attribute.required(op)
    attribute.copy(op, other)
    attribute.remove(op)
    assert not attribute.is_on(other)
    attribute.write(op, value)
    assert op.attributes[attribute.name] == ir.Attribute.parse(text)
    assert attribute.required(op) == attribute.read(op) == value
    attribute.copy(op, other)
    attribute.remove(op)
    assert not attribute.is_on(op)
    assert attribute.read(ir.DictAttr.get(attribute.entry(value))) == attribute.read(other) == value


def test_types_of_arguments_are_read(context):
    entry = ir.DictAttr.get(discardable.DTYPE.entry(ir.F32Type.get()))
    assert discardable.DTYPE.read(entry) == ir.F32Type.get()


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (discardable.STEP, "3 : i32"),
        (discardable.STEP, '"3"'),
        (discardable.OPS, "[1]"),
        (discardable.RANGES, '"{"'),
        (discardable.RANGES, "{n = [1, 8]}"),
        (discardable.RANGES, "{n = [1 : i32, 8 : i32, 1 : i32]}"),
        (discardable.RANGES, "{n = [1, 8, 0]}"),
        (discardable.RANGES, "{n = array<i64: 1, 8, 1>}"),
        (discardable.TABLE, '["{"]'),
        (discardable.KERNEL, "{class = 3}"),
        (discardable.KERNEL, "unit"),
        (discardable.SCHEDULE, "3"),
    ],
)
def test_other_forms_are_errors(context, attribute, text):
    op = ir.Module.create().operation
    op.attributes[attribute.name] = ir.Attribute.parse(text)
    with pytest.raises(OpError, match=re.escape(f"'{attribute.name}' must be {attribute.form.text}")):
        attribute.read(op)


def test_names_are_unique():
    with pytest.raises(ValueError, match=r"two discardable attributes are called 'stepwell\.name'"):
        DiscardableAttribute("stepwell.name", forms.I64, "", places=(), phases=())


def test_no_attribute_is_called_like_an_op():
    assert DISCARDABLE.keys() & OPS.keys() == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module attributes {stepwell.nam = 1} {}", "'builtin.module' op unknown attribute 'stepwell.nam'"),
        (
            "module attributes {stepwell.library = 1} {}",
            "'builtin.module' op attribute 'stepwell.library' must be a unit attribute, but is 1",
        ),
        (
            "module attributes {stepwell.step = 1} {}",
            "op attribute 'stepwell.step' belongs on func.call or llvm.call, but is on builtin.module",
        ),
        (
            "func.func private @f(tensor<4xf32> {stepwell.name = 1})",
            "'func.func' op attribute 'stepwell.name' must be a string, but is 1",
        ),
        (
            "func.func private @f(tensor<4xf32> {stepwell.phase = 1})",
            "'func.func' op attribute 'stepwell.phase' belongs on builtin.module, but is on an argument",
        ),
        (
            "func.func private @f() -> (tensor<4xf32> {stepwell.x})",
            "'func.func' op unknown attribute 'stepwell.x'",
        ),
        (
            'func.func @f(%x: tensor<4xf32>) { %0 = "stepwell.exp"(%x) {stepwell.role = "r"} : (tensor<4xf32>) -> '
            "tensor<4xf32> return }",
            "'stepwell.exp' op attribute 'stepwell.role' belongs on linalg.generic or linalg.fill",
        ),
        (
            "module attributes {stepwell.step = [1 : ui8]} {}",
            "op attribute 'stepwell.step' belongs on",
        ),
    ],
)
def test_wrong_attributes_are_found(context, text, message):
    with pytest.raises(VerificationError, match=re.escape(message)):
        verify(ir.Module.parse(text))


def test_attributes_of_other_dialects_pass(context):
    verify(ir.Module.parse("module attributes {dlti.dl_spec = #dlti.dl_spec<>, gpu.container_module} {}"))


MODEL = b"""
func.func @main(%x: tensor<1x4x12x12xf32> {stepwell.name = "x", stepwell.dims = [1, 4, 12, 12]})
    -> (tensor<1x8x12x12xf32> {stepwell.name = "y"}, tensor<1x4x12x12xf32> {stepwell.name = "z"}) {
  %w = "stepwell.constant"() {value = dense<0.5> : tensor<8x4x3x3xf32>} : () -> tensor<8x4x3x3xf32> loc("w")
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<1x4x12x12xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x12x12xf32> loc("conv")
  %1 = "stepwell.relu"(%0) : (tensor<1x8x12x12xf32>) -> tensor<1x8x12x12xf32> loc("relu")
  %2 = "stepwell.attention"(%x, %x, %x) {scale = 0.5} : (tensor<1x4x12x12xf32>, tensor<1x4x12x12xf32>,
      tensor<1x4x12x12xf32>) -> tensor<1x4x12x12xf32> loc("attention")
  return %1, %2 : tensor<1x8x12x12xf32>, tensor<1x4x12x12xf32>
}
"""
ROWS = b"""
func.func @main(%x: tensor<?x64xf32> {stepwell.name = "x", stepwell.dims = ["n", 64]})
    -> (tensor<?x128xf32> {stepwell.name = "y"}) {
  %w = "stepwell.constant"() {value = dense<0.5> : tensor<64x128xf32>} : () -> tensor<64x128xf32> loc("w")
  %0 = "stepwell.matmul"(%x, %w) : (tensor<?x64xf32>, tensor<64x128xf32>) -> tensor<?x128xf32> loc("product")
  %1 = "stepwell.softmax"(%0) : (tensor<?x128xf32>) -> tensor<?x128xf32> loc("softmax")
  return %1 : tensor<?x128xf32>
}
"""


@pytest.mark.parametrize(
    ("model", "target", "dims"),
    [(MODEL, "cpu", {}), (ROWS, "cpu", {"n": (1, 512)}), (MODEL, "cuda:sm_80", {})],
    ids=["cpu", "ranges", "cuda"],
)
def test_modules_of_each_phase_have_only_attributes_declared_for_it(model, target, dims):
    found: dict[str, set[str]] = {}

    def reached(phase: str, module: ir.Module, parameters: dict[str, np.ndarray]) -> None:
        verify(module)
        names = found.setdefault(phase, set())
        for op in _ops(module.operation):
            names |= {name for name in op.attributes if name.startswith(discardable.PREFIX)}
            for key in ("arg_attrs", "res_attrs"):
                for entry in ir.ArrayAttr(op.attributes[key]) if key in op.attributes else ():
                    names |= {item.name for item in ir.DictAttr(entry) if item.name.startswith(discardable.PREFIX)}

    options = stepwell.Options(cache=False, dims=dims, fallback="error", reached=reached)
    stepwell.compile(model, target=target, options=options)
    assert len(found) >= 6
    wrong = {(phase, name) for phase, names in found.items() for name in names if phase not in DISCARDABLE[name].phases}
    assert wrong == set()


def _ops(op: ir.Operation) -> Iterator[ir.Operation]:
    yield op
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                yield from _ops(inner.operation)


def test_names_are_spelt_in_one_module():
    spelt = set()
    for path, text in product_texts().items():
        if path == "dialects/discardable.py" or not _names_in(text):
            continue
        tree = ast.parse(text)
        documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node not in documentation and isinstance(node.value, str | bytes):
                value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                spelt |= {(path, name) for name in _names_in(value)}
    assert spelt - OTHER_MEANING == set(), "use the descriptors in dialects/discardable.py"


def _names_in(text: str) -> set[str]:
    return {name for name in re.findall(r"stepwell\.\w+", text) if name in DISCARDABLE}
