"""Conditionals and functions: decided during the import or at run time."""

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import ModelError, NeedsShapes
from stepwell.frontend.onnx.importer import import_model

F32 = np.float32
ROW = np.array([[1, -2, 3]], F32)


def branch(name, nodes, output, constants=()):
    """A graph without inputs that returns one value."""
    return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(output)], list(constants))


def node(op_type, inputs, outputs, **attributes):
    """A named node."""
    return helper.make_node(op_type, inputs, outputs, name=f"{op_type}_{outputs[0]}", **attributes)


def conditional(then, other):
    """A conditional on the value c."""
    return node("If", ["c"], ["y"], then_branch=then, else_branch=other)


def result_count(imported):
    """Number of results of @main."""
    return len(imported.module.body.operations[0].type.results)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_condition_of_the_run(build, compare, flag, shape):
    then = branch("t", [node("Neg", ["x"], ["a"])], "a")
    other = branch("e", [node("Exp", ["x"], ["b"])], "b")
    feeds = {"c": np.full(shape, flag), "x": ROW}
    compare(build([conditional(then, other)], feeds, ["y"], {}, 16), feeds)


def test_branches_of_different_extents(build, compare):
    then = branch("t", [node("Concat", ["x", "x"], ["a"], axis=1)], "a")
    other = branch("e", [node("Identity", ["x"], ["b"])], "b")
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": ROW}
        compare(build([conditional(then, other)], feeds, ["y"], {}, 13), feeds)


def test_weights_and_names_of_branches_are_their_own(build, compare, rng):
    weights = [onnx.numpy_helper.from_array(rng.normal(size=(3, 8)).astype(F32), "w") for _ in range(2)]
    then = branch("t", [node("MatMul", ["x", "w"], ["a"])], "a", weights[:1])
    other = branch("e", [node("MatMul", ["x", "w"], ["a"])], "a", weights[1:])
    feeds = {"c": np.array(False), "x": ROW}
    model = build([conditional(then, other)], feeds, ["y"], {}, 16)
    compare(model, feeds)
    assert len(import_model(model, ir.Context()).parameters) == 2


def test_condition_on_a_shape_is_decided_by_the_shape(build, compare):
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Equal", ["n", "one"], ["c"]),
        conditional(
            branch("t", [node("Squeeze", ["x", "axis"], ["a"])], "a"),
            branch("e", [node("Identity", ["x"], ["b"])], "b"),
        ),
    ]
    constants = {"zero": np.array(0), "one": np.array(1), "axis": np.array([0])}
    for rows in (1, 2):
        feeds = {"x": np.repeat(ROW, rows, 0)}
        model = build(nodes, feeds, ["y"], constants, 16)
        compare(model, feeds)
        imported = import_model(model, ir.Context(), {"x": (rows, 3)})
        assert "scf.if" not in str(imported.module)
        with pytest.raises(NeedsShapes, match=r"node 'If_y' \(If\).*differ in rank"):
            import_model(model, ir.Context())


def guarded_model(build, negated):
    """A branch that multiplies by a matrix of 4 rows, though the input may have rows of 3."""
    fits = branch("t", [node("Neg", ["x"], ["a"])], "a")
    matrix = onnx.numpy_helper.from_array(np.ones((4, 8), F32), "w")
    fails = branch("e", [node("MatMul", ["x", "w"], ["b"])], "b", [matrix])
    feeds = {"c": np.array(True), "x": ROW}
    model = build([conditional(fails, fits) if negated else conditional(fits, fails)], feeds, ["y"], {}, 16)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    return model


@pytest.mark.parametrize("negated", [False, True])
def test_branch_that_cannot_run_on_the_shapes_is_guarded(build, negated):
    imported = import_model(guarded_model(build, negated), ir.Context(), {"x": (1, 3)})
    main = imported.module.body.operations[0]
    assert "scf.if" not in str(main)
    assert not imported.parameters
    guard = main.attributes["res_attrs"][1]["stepwell.guard"].value
    assert f"the {'then' if negated else 'else'} branch of 'If_y' cannot run" in guard
    assert "node 'MatMul_b' (MatMul)" in guard
    for flag in (True, False):
        output, holds = evaluate(imported.module, "main", [np.array(flag), ROW], {})
        np.testing.assert_array_equal(output, -ROW)
        assert holds == (flag != negated)


def test_guard_of_an_inner_branch_holds_outside_it(build):
    inner = guarded_model(build, False).graph.node[0]
    inner.input[0] = "d"
    then = branch("t", [inner], "y")
    other = branch("e", [node("Exp", ["x"], ["z"])], "z")
    outer = node("If", ["c"], ["r"], then_branch=then, else_branch=other)
    feeds = {"c": np.array(True), "d": np.array(True), "x": ROW}
    model = build([outer], feeds, ["r"], {}, 16)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    imported = import_model(model, ir.Context(), {"x": (1, 3)})
    assert imported.module.operation.verify()
    for c, d in ((True, True), (True, False), (False, True), (False, False)):
        _, holds = evaluate(imported.module, "main", [np.array(c), np.array(d), ROW], {})
        assert holds == (d or not c)


def test_negative_branches_that_both_fail_or_do_not_match(build):
    failing = guarded_model(build, False).graph.node[0].attribute
    graphs = {attribute.name: attribute.g for attribute in failing}
    feeds = {"c": np.array(True), "x": ROW}
    both = build([conditional(graphs["else_branch"], graphs["else_branch"])], feeds, ["y"], {}, 16)
    integers = branch("i", [node("Cast", ["x"], ["k"], to=TensorProto.INT64)], "k")
    mixed = build([conditional(graphs["then_branch"], integers)], feeds, ["y"], {}, 16)
    for model, message in ((both, "MatMul_b"), (mixed, "differ in element type")):
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        with pytest.raises(ModelError, match=message):
            import_model(model, ir.Context(), {"x": (1, 3)})


def scaled_function(nodes=None):
    """local.Scaled(x) = LeakyRelu(x, alpha = slope), slope 0.5 by default."""
    relu = helper.make_node("LeakyRelu", ["a"], ["b"], name="inner")
    reference = relu.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    return helper.make_function(
        "local",
        "Scaled",
        ["a"],
        ["b"],
        nodes or [relu],
        [helper.make_opsetid("", 16), helper.make_opsetid("local", 1)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )


@pytest.mark.parametrize("attributes", [{}, {"slope": 0.25}])
def test_functions_are_inlined(build, compare, attributes):
    feeds = {"x": ROW}
    call = helper.make_node("Scaled", ["x"], ["y"], name="call", domain="local", **attributes)
    model = build([call], feeds, ["y"], {}, 16, {"local": 1}, [scaled_function()])
    compare(model, feeds)
    text = import_model(model, ir.Context()).module.operation.get_asm(enable_debug_info=True)
    assert 'loc("call/inner")' in text


def test_negative_function_that_uses_itself(build):
    again = helper.make_node("Scaled", ["a"], ["b"], domain="local", name="again")
    call = helper.make_node("Scaled", ["x"], ["y"], name="call", domain="local")
    model = build([call], {"x": ROW}, ["y"], {}, 16, {"local": 1}, [scaled_function([again])])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(ModelError, match="calls itself; recursion is not supported"):
        import_model(model, ir.Context())


def test_negative_functions_that_expand_without_end(build):
    imported = [helper.make_opsetid("", 16), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], imported)]
    for level in range(1, 40):
        calls = [
            helper.make_node(f"F{level - 1}", [source], [target], domain="local") for source, target in ("am", "mb")
        ]
        functions.append(helper.make_function("local", f"F{level}", ["a"], ["b"], calls, imported))
    call = helper.make_node("F39", ["x"], ["y"], domain="local")
    model = build([call], {"x": ROW}, ["y"], {}, 16, {"local": 1}, functions)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(ModelError, match="expand to more than 50000 nodes"):
        import_model(model, ir.Context())
    # ONNX reads the graph of an attribute whatever its declared type.
    hidden = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.TENSOR)
    hidden.g.node.append(call)
    model.graph.node[0].CopyFrom(onnx.NodeProto(op_type="If", input=["x"], output=["y"], attribute=[hidden]))
    with pytest.raises(ModelError, match="expand to more than 50000 nodes"):
        import_model(model, ir.Context())


def test_negative_functions_within_functions(build):
    """Each function calls the next, so the total is large although no function has many nodes."""
    imported = [helper.make_opsetid("", 16), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], imported)]
    for level in range(1, 5000):
        call = helper.make_node(f"F{level - 1}", ["a"], ["b"], domain="local")
        functions.append(helper.make_function("local", f"F{level}", ["a"], ["b"], [call], imported))
    for last, refused in ((5, False), (63, False), (64, True), (4999, True)):
        call = helper.make_node(f"F{last}", ["x"], ["y"], domain="local")
        model = build([call], {"x": ROW}, ["y"], {}, 16, {"local": 1}, functions)
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        if not refused:
            import_model(model, ir.Context())
            continue
        with pytest.raises(ModelError, match="nests graphs or functions more than 64 levels deep"):
            import_model(model, ir.Context())
