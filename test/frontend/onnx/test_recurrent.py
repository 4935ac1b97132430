"""Recurrent layers, compared with ONNX Runtime."""

import numpy as np
import pytest
from mlir import ir
from onnx import helper
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import ModelError
from stepwell.frontend.onnx.importer import import_model

STEPS, BATCH, INPUT, STATE = 5, 2, 3, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(rng, op_type, direction="forward", *, lengths=None, states=True, peepholes=False, steps=STEPS):
    """Returns the inputs of a layer, and by position those of them that are weights."""
    count, gates = 2 if direction == "bidirectional" else 1, GATES[op_type]

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    weights = {
        1: normal(count, gates * STATE, INPUT),
        2: normal(count, gates * STATE, STATE),
        3: normal(count, 2 * gates * STATE),
    }
    carried = 2 if op_type == "LSTM" else 1
    inputs = [normal(steps, BATCH, INPUT), None, None, None, lengths and np.array(lengths, np.int32)]
    inputs += [normal(count, BATCH, STATE) for _ in range(carried)] if states else []
    if peepholes:
        weights[7] = normal(count, 3 * STATE)
    return inputs, {"constants": weights, "outputs": carried + 1, "hidden_size": STATE, "direction": direction}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_directions_and_lengths(check, rng, op_type, direction):
    for lengths in (None, [3, 5]):
        inputs, options = layer(rng, op_type, direction, lengths=lengths, states=lengths is not None)
        check(op_type, 14, inputs, **options)


@pytest.mark.parametrize("op_type", GATES)
def test_one_step_needs_no_loop(check, rng, op_type, build):
    inputs, options = layer(rng, op_type, "bidirectional", lengths=[1, 1], steps=1)
    check(op_type, 14, inputs, **options)
    node = helper.make_node(op_type, ["x", "w", "r"], ["y"], hidden_size=STATE)
    weights = {"w": options["constants"][1][:1], "r": options["constants"][2][:1]}
    model = build([node], {"x": inputs[0]}, ["y"], weights, 14)
    model.graph.output[0].type.tensor_type.elem_type = 1
    for steps, wanted in ((1, False), (2, True)):
        module = import_model(model, ir.Context(), {"x": (steps, BATCH, INPUT)}).module
        assert ("scf.for" in str(module)) == wanted


def test_variants(check, rng):
    inputs, options = layer(rng, "GRU", "bidirectional", lengths=[2, 4])
    check("GRU", 14, inputs, linear_before_reset=1, clip=0.5, **options)
    inputs, options = layer(rng, "LSTM", "bidirectional", peepholes=True)
    check("LSTM", 14, inputs, clip=0.3, **options)
    inputs, options = layer(rng, "LSTM", "reverse")
    check("LSTM", 7, inputs, input_forget=1, clip=0.5, **options)


@pytest.mark.parametrize(
    "name",
    ["Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Softplus", "Softsign", "ThresholdedRelu"],
)
def test_activations(check, rng, name):
    inputs, options = layer(rng, "RNN")
    check("RNN", 14, inputs, activations=[name], activation_alpha=[0.3], activation_beta=[0.7], **options)


def test_parameters_of_activations_are_taken_in_turns(check, rng):
    inputs, options = layer(rng, "LSTM")
    names = ["HardSigmoid", "leakyrelu", "Elu"]
    check("LSTM", 14, inputs, activations=names, activation_alpha=[0.3, 0.2], activation_beta=[0.6], **options)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activations": ["Cosh"]}, "has the unknown activation 'Cosh': expected one of affine, elu"),
        ({"direction": "bidirectional", "activations": ["Tanh"]}, "has 1 activation, but 1 in each direction"),
        (
            {"direction": "sideways"},
            "has the unknown direction 'sideways': expected one of forward, reverse, bidirectional",
        ),
    ],
)
def test_negative_attributes(build, rng, attributes, message):
    inputs, options = layer(rng, "RNN", "bidirectional")
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=STATE, **attributes)
    weights = {"w": options["constants"][1], "r": options["constants"][2]}
    with pytest.raises(ModelError, match=message):
        import_model(build([node], {"x": inputs[0]}, ["y"], weights, 14), ir.Context())


def test_lstm_with_the_batch_first_is_the_transpose(build, rng):
    """ONNX Runtime does not implement this layout of LSTM."""

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    x, state = normal(5, 2, 3), [normal(1, 2, 4) for _ in range(2)]
    weights = {"w": normal(1, 16, 3), "r": normal(1, 16, 4)}
    results = []
    for layout in (0, 1):
        arrays = [x, *state] if layout == 0 else [array.swapaxes(0, 1) for array in (x, *state)]
        node = helper.make_node(
            "LSTM", ["x", "w", "r", "", "", "h", "c"], ["y", "yh", "yc"], hidden_size=4, layout=layout
        )
        model = build([node], dict(zip("xhc", arrays, strict=True)), ["y", "yh", "yc"], weights, 14)
        for output in model.graph.output:
            output.type.tensor_type.elem_type = 1
        imported = import_model(model, ir.Context())
        results.append(evaluate(imported.module, "main", arrays, imported.parameters))
    orders = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
    for plain, batch_first, order in zip(*results, orders, strict=True):
        np.testing.assert_array_equal(plain.transpose(order), batch_first)
