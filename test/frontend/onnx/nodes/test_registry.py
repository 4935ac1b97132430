"""The table of importers agrees with ONNX's own declarations."""

import onnx
import pytest
from stepwell.frontend.onnx import importer  # noqa: F401  (registers the handlers)
from stepwell.frontend.onnx.nodes import registry
from stepwell.frontend.onnx.nodes.registry import handler_for, imports
from stepwell.frontend.onnx.reading.model import NEWEST_OPSET


def test_every_importer_is_for_a_declared_operator():
    declared = {schema.name for schema in onnx.defs.get_all_schemas()}
    standard = {op_type for domain, op_type in registry._HANDLERS if not domain}
    assert len(standard) > 100
    assert standard <= declared


def test_versions_select_the_newest_that_is_not_too_new():
    assert handler_for("", "Clip", 10) is not handler_for("", "Clip", 11)
    assert handler_for("", "Clip", 11) is handler_for("", "Clip", NEWEST_OPSET)


@pytest.mark.parametrize(("op_type", "opset"), [("Gelu", 19), ("Resize", 9), ("Det", 17)])
def test_negative_operators_that_an_opset_does_not_have(op_type, opset):
    assert handler_for("", op_type, opset) is None


def test_negative_two_importers_for_one_version():
    with pytest.raises(ValueError, match="two importers for Relu since opset 1"):
        imports("Relu")(lambda node, input: input)
