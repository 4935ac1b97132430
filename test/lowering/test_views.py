"""Random networks of convolutions, concatenations, padding and slices, compiled, give the interpreter's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import func
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell import constant, contraction, elementwise, movement, pooling, reduction
from stepwell.driver.compile.compilation import Compilation
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable

HEIGHT, WIDTH = 6, 5
F32 = np.dtype(np.float32)


class Network:
    """A random network over images of one size; its ops read recent values more often."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.parameters: dict[str, np.ndarray] = {}
        self.images: list[ir.Value] = []

    def image(self) -> ir.Value:
        return self.images[-1 - min(int(self.rng.exponential(1.5)), len(self.images) - 1)]

    def parameter(self, *shape: int) -> ir.Value:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = self.rng.uniform(-0.5, 0.5, shape).astype(np.float32)
        return constant.ParameterOp(name=name, shape=shape, dtype=F32).result

    def build(self, size: int) -> tuple[ir.Module, list[np.ndarray]]:
        module, batch = ir.Module.create(), int(self.rng.integers(1, 3))
        kind = ir.RankedTensorType.get([batch, int(self.rng.choice((3, 8))), HEIGHT, WIDTH], ir.F32Type.get())
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([kind], []))
        names = [ir.DictAttr.get({"stepwell.name": ir.StringAttr.get("x")})]
        main.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(names)
        with ir.InsertionPoint(main.add_entry_block()):
            self.images = [main.arguments[0]]
            for number in range(size):
                with ir.Location.name(f"op{number}"):
                    self.images.append(DRAWS[self.rng.integers(len(DRAWS))](self))
            results = [self.images[-1], self.image()]
            func.ReturnOp(results)
        attribute = ir.FunctionType.get([kind], [result.type for result in results])
        main.operation.attributes["function_type"] = ir.TypeAttr.get(attribute)
        return module, [self.rng.standard_normal(kind.shape).astype(np.float32)]


def channels(value: ir.Value) -> int:
    return ir.RankedTensorType(value.type).shape[1]


def convolved(image: ir.Value, weight: ir.Value, size: int, group: int = 1) -> Any:
    pads = (size // 2,) * 4
    return contraction.ConvOp(image, weight, None, strides=(1, 1), pads=pads, dilations=(1, 1), group=group)


def conv(network: Network) -> ir.Value:
    image, size = network.image(), int(network.rng.choice((1, 3)))
    outputs = int(network.rng.choice((4, 16, 24)))
    return convolved(image, network.parameter(outputs, channels(image), size, size), size).result


def depthwise(network: Network) -> ir.Value:
    image, size = network.image(), int(network.rng.choice((3, 5)))
    count = channels(image)
    return convolved(image, network.parameter(count, 1, size, size), size, group=count).result


def activated(network: Network) -> ir.Value:
    kind = (elementwise.ReluOp, elementwise.SigmoidOp)[network.rng.integers(2)]
    return kind(network.image()).result


def added(network: Network) -> ir.Value:
    image = network.image()
    others = [other for other in network.images if other.type == image.type]
    return elementwise.AddOp(image, others[network.rng.integers(len(others))]).result


def scaled(network: Network) -> ir.Value:
    image = network.image()
    means = reduction.ReduceMeanOp(image, axes=(2, 3), keepdims=True)
    return elementwise.MulOp(image, means).result


def joined(network: Network) -> ir.Value:
    image = network.image()
    for _ in range(int(network.rng.integers(1, 3))):
        image = movement.ConcatOp(image, network.image(), axis=1).result
    return image


def padded_pool(network: Network) -> ir.Value:
    low, high = (0, 0, 1, 0), (0, 0, 0, 1)
    padded = movement.PadOp(network.image(), low=low, high=high, value=float(network.rng.integers(2)))
    kind = (pooling.MaxPoolOp, pooling.AveragePoolOp)[network.rng.integers(2)]
    return kind(padded, kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)).result


def part(network: Network) -> ir.Value:
    image = network.image()
    count = channels(image)
    start = int(network.rng.integers(0, count // 2 + 1))
    batch, stop = ir.RankedTensorType(image.type).shape[0], int(network.rng.integers(start + 1, count + 1))
    bounds = {"starts": (0, start, 0, 0), "stops": (batch, stop, HEIGHT, WIDTH)}
    return movement.SliceOp(image, **bounds, steps=(1, 1, 1, 1)).result


def enlarged(network: Network) -> ir.Value:
    image = network.image()
    batch, count = list(ir.RankedTensorType(image.type).shape)[:2]
    bounds = {"starts": (0, 0, 0, 0), "stops": (batch, count, HEIGHT // 2, WIDTH)}
    half = movement.SliceOp(image, **bounds, steps=(1, 1, 1, 1))
    scales = np.array([1, 1, 2, 1], np.float32)
    whole = movement.ResizeOp(half, sizes=(batch, count, HEIGHT, WIDTH), scales=scales, coordinates="asymmetric")
    return elementwise.AddOp(image, whole).result


def shuffled(network: Network) -> ir.Value:
    """Permutes channels, followed by an op on them."""
    image = conv(network)
    batch, count = list(ir.RankedTensorType(image.type).shape)[:2]
    apart = movement.ReshapeOp(image, shape=(batch, 2, count // 2, HEIGHT, WIDTH))
    turned = movement.TransposeOp(apart, permutation=(0, 2, 1, 3, 4))
    joined = movement.ReshapeOp(turned, shape=(batch, count, HEIGHT, WIDTH))
    return elementwise.ReluOp(elementwise.AddOp(joined, network.parameter(count, 1, 1))).result


DRAWS: tuple[Callable[[Network], ir.Value], ...] = (
    *(conv, conv, conv, depthwise, depthwise, activated, added, scaled),
    *(joined, joined, joined, padded_pool, part, enlarged, shuffled),
)


# With seed 224, a transpose that moves nothing was once sunk without end.
@pytest.mark.few(6)
@pytest.mark.parametrize("seed", [*range(12), 224])
def test_random_networks(seed: int) -> None:
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        network = Network(seed)
        module, inputs = network.build(size=12)
        text = str(module)
        wanted = evaluate(module, "main", inputs, network.parameters)
        compilation = Compilation()
        state = compilation.state(parameters=dict(network.parameters), shapes=[inputs[0].shape])
        compilation.graph(module, state)
        program = compilation._finish(module, state, "graph")
    got = Executable(CompiledModel(program.inputs, program.outputs, [program]), threads=1)(*inputs)
    for want, result in zip(wanted, got, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(want).max()), err_msg=text)
