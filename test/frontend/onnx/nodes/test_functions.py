"""Functions that a model defines: calls between them, overloads, and graphs and attributes passed on."""

import numpy as np
import onnx
from onnx import TensorProto, helper

F32 = np.float32
ROW = np.array([[1, -2, 3]], F32)
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
DOMAINS = {"local": 1}


def function(name, nodes, inputs="a", outputs="b", overload="", **options):
    """A function of the domain `local`."""
    made = helper.make_function("local", name, inputs.split(), outputs.split(), nodes, OPSETS, **options)
    made.overload = overload
    return made


def referring(node, name, attribute, kind):
    """Makes an attribute of a node refer to an attribute of the surrounding function."""
    reference = node.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = name, attribute, kind
    return node


def call(name, inputs, outputs, overload="", **attributes):
    node = helper.make_node(name, inputs.split(), outputs.split(), name=f"call_{outputs}", domain="local", **attributes)
    node.overload = overload
    return node


def test_attributes_are_passed_from_function_to_function(build, compare):
    leaky = referring(helper.make_node("LeakyRelu", ["a"], ["b"]), "alpha", "slope", onnx.AttributeProto.FLOAT)
    inner = function("Inner", [leaky], attributes=["slope"])
    outer_call = referring(call("Inner", "a", "b"), "slope", "factor", onnx.AttributeProto.FLOAT)
    outer = function("Outer", [outer_call], attribute_protos=[helper.make_attribute("factor", 0.25)])
    for attributes in ({}, {"factor": 0.5}):
        model = build([call("Outer", "x", "y", **attributes)], {"x": ROW}, ["y"], {}, 17, DOMAINS, [inner, outer])
        compare(model, {"x": ROW})


def test_names_inside_are_their_own(build, compare):
    twice = function("Twice", [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Neg", ["t"], ["b"])])
    nodes = [call("Twice", "x", "t"), call("Twice", "t", "a"), helper.make_node("Add", ["t", "a"], ["y"])]
    compare(build(nodes, {"x": ROW}, ["y"], {}, 17, DOMAINS, [twice]), {"x": ROW})


def test_attributes_reach_the_graphs_of_branches(build, compare):
    leaky = referring(helper.make_node("LeakyRelu", ["a"], ["u"]), "alpha", "slope", onnx.AttributeProto.FLOAT)
    branches = {
        "then_branch": helper.make_graph(
            [leaky], "t", [], [helper.make_tensor_value_info("u", TensorProto.FLOAT, None)]
        ),
        "else_branch": helper.make_graph(
            [helper.make_node("Neg", ["a"], ["v"])],
            "e",
            [],
            [helper.make_tensor_value_info("v", TensorProto.FLOAT, None)],
        ),
    }
    choose = function("Choose", [helper.make_node("If", ["c"], ["b"], **branches)], "a c", attributes=["slope"])
    for flag in (True, False):
        feeds = {"x": ROW, "c": np.array(flag)}
        compare(build([call("Choose", "x c", "y", slope=0.5)], feeds, ["y"], {}, 17, DOMAINS, [choose]), feeds)


def test_overloads_are_told_apart(build, compare):
    first = function("Act", [helper.make_node("Neg", ["a"], ["b"])], overload="one")
    second = function("Act", [helper.make_node("Exp", ["a"], ["b"])], overload="two")
    nodes = [call("Act", "x", "u", "one"), call("Act", "u", "y", "two")]
    compare(build(nodes, {"x": ROW}, ["y"], {}, 17, DOMAINS, [first, second]), {"x": ROW})


def test_inputs_that_are_left_out(build, compare):
    clip = function("Bounded", [helper.make_node("Clip", ["a", "low", "high"], ["b"])], "a low high")
    feeds = {"x": ROW, "h": np.array(2, F32)}
    compare(build([call("Bounded", "x h h", "y")], feeds, ["y"], {}, 17, DOMAINS, [clip]), feeds)
    node = helper.make_node("Bounded", ["x", "", "h"], ["y"], name="call", domain="local")
    compare(build([node], feeds, ["y"], {}, 17, DOMAINS, [clip]), feeds)
