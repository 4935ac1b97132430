"""A frontend of another package: networks of dense layers, as JSON in `.layers` files.

{"input": [4, 8], "layers": [{"weight": [[..], ..], "bias": [..], "activation": "relu"}, ..]}
"""

import json
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from stepwell.dialects import discardable
from stepwell.dialects.stepwell.constant import ParameterOp
from stepwell.dialects.stepwell.contraction import MatmulOp
from stepwell.dialects.stepwell.elementwise import AddOp, ReluOp, SigmoidOp, TanhOp
from stepwell.dialects.types import TensorSpec, tensor_type
from stepwell.frontend.errors import ModelError
from stepwell.frontend.imported import ImportedModel
from stepwell.frontend.mlir_text import info_of
from stepwell.frontend.registry import register_frontend

ACTIVATIONS = {"relu": ReluOp, "sigmoid": SigmoidOp, "tanh": TanhOp}


class LayersFrontend:
    """Imports `.layers` files."""

    suffixes = (".layers",)

    def import_model(self, contents: bytes, name: str, context: ir.Context) -> ImportedModel:
        """Imports a network: one matmul, one addition and one activation for each layer."""
        try:
            network = json.loads(contents)
            shape = tuple(map(int, network["input"]))
            layers = list(network["layers"])
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"not a network of layers: {type(error).__name__}: {error}") from None
        parameters: dict[str, np.ndarray] = {}
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([tensor_type(TensorSpec(shape, np.dtype(np.float32)))], []))
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(discardable.NAME.entry("x"))])
        with ir.InsertionPoint(main.add_entry_block()):
            value: ir.Value = main.arguments[0]
            for index, layer in enumerate(layers):
                with ir.Location.name(f"layer_{index}"):
                    value = _layer(value, layer, f"layer_{index}", parameters)
            func.ReturnOp([value])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([main.arguments[0].type], [value.type]))
        main.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(discardable.NAME.entry("y"))])
        return ImportedModel(module, parameters, name, info_of(module, name))


def _layer(value: ir.Value, layer: dict[str, Any], name: str, parameters: dict[str, np.ndarray]) -> ir.Value:
    made = MatmulOp(value, _parameter(layer, "weight", name, parameters)).result
    made = AddOp(made, _parameter(layer, "bias", name, parameters)).result
    activation = layer.get("activation")
    if activation is None:
        return made
    if activation not in ACTIVATIONS:
        raise ModelError(f"{name}: the activation '{activation}' is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[activation](made).result


def _parameter(layer: dict[str, Any], key: str, name: str, parameters: dict[str, np.ndarray]) -> ir.Value:
    """Adds a weight to the parameters, which lie beside the module, and returns the op that names it."""
    try:
        array = np.asarray(layer[key], np.float32)
    except (KeyError, ValueError) as error:
        raise ModelError(f"{name}: '{key}' is missing or not an array of numbers") from error
    parameters[f"{name}.{key}"] = array
    return ParameterOp(name=f"{name}.{key}", shape=array.shape, dtype=array.dtype).result


register_frontend("layers", LayersFrontend())
