"""Rewrites of a float model before it is quantised; each keeps what the model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .float_model import FloatModel, FloatProduct
from .subgraphs import graphs_in, replace_nodes

_BATCH_NORM_INPUTS = 5
"""Inputs of BatchNormalization (ONNX): data, scale, bias, mean and variance."""


def fold_batch_norms(model: FloatModel) -> int:
    """Folds batch norms into the convolutions before them, so that weights are quantised with their effective range.

    BatchNormalization(Conv(x, W, b))  -->  Conv(x, W * f, (b - mean) * f + shift),  f = scale / sqrt(variance + eps)

    Returns:
        The number of batch norms that were folded.
    """
    consumers, outputs = model.consumers, model.results
    folded: dict[str, onnx.NodeProto] = {}
    for product in model.products:
        result = product.node.output[0]
        users = consumers.get(result, [])
        if product.node.op_type != "Conv" or result in outputs or len(users) != 1:
            continue
        norm = users[0]
        if norm.op_type == "BatchNormalization" and _fold(model, product, norm, f"{norm.name}_folded"):
            folded[norm.name] = norm
    if folded:
        for graph in graphs_in(model.graph):
            replace_nodes(graph, [node for node in graph.node if node.name not in folded])
        model.find_products()
    return len(folded)


def _fold(model: FloatModel, product: FloatProduct, norm: onnx.NodeProto, name: str) -> bool:
    parameters = [model.arrays.get(item) for item in norm.input[1:_BATCH_NORM_INPUTS]]
    bias = product.node.input[2] if len(product.node.input) > 2 else ""
    known = [item for item in parameters if item is not None]
    if len(known) != len(parameters) or (bias and bias not in model.arrays):
        return False
    scale, shift, mean, variance = (item.astype(np.float64) for item in known)
    epsilon = next((item.f for item in norm.attribute if item.name == "epsilon"), 1e-5)
    factor = scale / np.sqrt(variance + epsilon)
    before = model.arrays[bias].astype(np.float64) if bias else np.zeros_like(mean)
    weight = product.weight * factor.reshape(-1, *[1] * (product.weight.ndim - 1))
    add_initializer(model.graph, f"{name}_weight", weight.astype(np.float32))
    add_initializer(model.graph, f"{name}_bias", ((before - mean) * factor + shift).astype(np.float32))
    inputs = [product.data, f"{name}_weight", f"{name}_bias"]
    del product.node.input[:]
    product.node.input.extend(inputs)
    product.node.output[0] = norm.output[0]
    return True


def smooth(model: FloatModel, largest: Mapping[str, np.ndarray], exponent: float) -> dict[str, np.ndarray]:
    """Moves outliers of activations into the weights of products of matrices (SmoothQuant).

    MatMul(x, W)  -->  MatMul(x * (1 / f), f * W),  f = largest(|x|) ** exponent / largest(|W|) ** (1 - exponent)

    Args:
        model: the model; changed in place.
        largest: the largest absolute value of each channel of an activation.
        exponent: 0 to 1.

    Returns:
        The factors of each activation.
    """
    factors: dict[str, np.ndarray] = {}
    for data, products in by_activation(model.products).items():
        if not all(product.is_matrix for product in products) or data not in largest:
            continue
        factors[data] = smoothing_factors(products, largest[data], exponent)
    scale_activations(model, factors)
    return factors


def smoothing_factors(products: Sequence[FloatProduct], largest: np.ndarray, exponent: float) -> np.ndarray:
    """Returns the factor of each channel by which an activation is divided before its products (SmoothQuant)."""
    weights = np.max([_channel_magnitudes(product) for product in products], axis=0)
    most = np.maximum(largest.astype(np.float64), 1e-5)
    factor = most**exponent / np.maximum(weights, 1e-5) ** (1.0 - exponent)
    return np.clip(factor / np.exp(np.log(factor).mean()), 1e-3, 1e3).astype(np.float32)


def _channel_magnitudes(product: FloatProduct) -> np.ndarray:
    return np.abs(product.matrix).reshape(product.channels, -1).max(axis=1)


def scale_activations(model: FloatModel, factors: Mapping[str, np.ndarray]) -> None:
    """Divides activations by a factor for each channel, and multiplies the weights of the products that take them."""
    products = {product.name: product for product in model.products}
    for data, factor in factors.items():
        add_initializer(model.graph, f"{data}_inverse", 1.0 / factor)
    for index, graph in enumerate(graphs_in(model.graph)):
        _scale_in(model, graph, products, factors, f"_{index}" if index else "")
    model.find_products()


def _scale_in(
    model: FloatModel,
    graph: onnx.GraphProto,
    products: Mapping[str, FloatProduct],
    factors: Mapping[str, np.ndarray],
    suffix: str,
) -> None:
    nodes: list[onnx.NodeProto] = []
    scaled: dict[str, str] = {}
    for node in graph.node:
        product = products.get(node.name)
        factor = factors.get(product.data) if product is not None else None
        if product is not None and factor is not None:
            data = product.data
            if data not in scaled:
                scaled[data] = f"{data}_scaled{suffix}"
                inputs = [data, f"{data}_inverse"]
                nodes.append(helper.make_node("Mul", inputs, [scaled[data]], name=f"{data}_scale{suffix}"))
            name = f"{node.name}_scaled_weight"
            add_initializer(model.graph, name, product.weight_of(product.matrix * factor[:, None]))
            node.input[0], node.input[1] = scaled[data], name
        nodes.append(node)
    replace_nodes(graph, nodes)


def by_activation(products: Sequence[FloatProduct]) -> dict[str, list[FloatProduct]]:
    """Returns the products that take each activation."""
    found: dict[str, list[FloatProduct]] = {}
    for product in products:
        found.setdefault(product.data, []).append(product)
    return found


def add_initializer(graph: onnx.GraphProto, name: str, array: np.ndarray | np.generic) -> str:
    """Adds a constant tensor to a graph, and returns its name."""
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
    return name
