"""Predicted time of each product in each of its forms, by the machine's description."""

from __future__ import annotations

import math

import numpy as np

from ..lowering.target import Target
from ..machines.costs import Work, cost_of, level_of
from ..machines.machine import Machine
from .forms import Width
from .observation import CalibrationModel, Sample
from .plan import Plan, ProductPlan


def predicted_times(plan: Plan, sample: Sample) -> list[dict[str, float]]:
    """Returns the nanoseconds of each product in a call, by form: on one thread of this machine, at its peaks.

    A roofline: the operations, in the rate of the type that is multiplied, or the bytes of weights, activation and
    result, whichever takes longer. Kernels do not reach peaks; the ratio of two forms is more certain than each.

    Args:
        plan: the products and their forms.
        sample: the inputs of a typical call, which give the sizes of activations.
    """
    machine = Target.host().machine
    outputs = [item.product.node.output[0] for item in plan.products]
    found = CalibrationModel(plan.model, outputs).values(sample)
    return [
        {width.name: _nanoseconds(machine, item, width, found.get(output)) for width in item.widths}
        for item, output in zip(plan.products, outputs, strict=True)
    ]


def _nanoseconds(machine: Machine, item: ProductPlan, width: Width, output: np.ndarray | None) -> float:
    if output is None:  # in a branch that the sample does not take
        return 0.0
    product = item.product
    depth, columns = product.matrix.shape
    is_narrow = width.activation is not None
    # A convolution reads an element of its input once for each position of its window, but from the nearest cache.
    window = math.prod(product.weight.shape[2:]) if product.node.op_type == "Conv" else 1
    elements = output.size / columns * depth / window * product.attribute("group", 1)
    moved = width.nbytes + elements * (1 if is_narrow else 4) + output.nbytes
    work = Work(2.0 * output.size * depth, "i8" if is_narrow else "f32", moved={level_of(machine, moved): moved})
    return cost_of(machine, work).nanoseconds
