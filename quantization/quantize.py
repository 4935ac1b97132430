"""`stepwell.quantize`: converts a float model to a quantised ONNX model, and reports the error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from ..driver.api import compile
from ..driver.onnx_export import export_onnx
from ..driver.options import Options
from ..driver.sources.onnx import OnnxSource
from ..driver.sources.reading import read_source
from ..runtime.executable import Executable
from ..support.errors import StepwellWarning
from ..support.warning import warn
from .budget import contributions_of, search
from .cures import Cure, candidates, patients, usable_levels, with_cures
from .float_model import FloatModel, QuantizationError
from .observation import Activation, Sample, observe
from .onnx_writer import write
from .options import QuantizationOptions
from .plan import FOR_BLOCKS, Plan, make_plan
from .preparation import by_activation, fold_batch_norms, smooth
from .reasons import faults
from .report import QuantizationReport, make_report
from .switches import SwitchModel

_MOST_ROWS = 4096
"""Largest reduction of a product for which x^T x is collected to try GPTQ: the time grows with its cube."""


@dataclass(frozen=True, repr=False)
class QuantizedModel:
    """A quantised model.

    Attributes:
        model: the model, in ONNX.
        report: the form of each product, and the error.
    """

    model: onnx.ModelProto
    report: QuantizationReport

    def __repr__(self) -> str:
        return f"QuantizedModel({self.report.summary})"

    def save(self, path: str | Path) -> None:
        """Writes the ONNX file."""
        onnx.save(self.model, str(path))

    def compile(self, target: str = "cpu", options: Options | None = None, **more: Any) -> Executable:
        """Compiles the model; see `stepwell.compile`."""
        return compile(self.model, target, options=options or Options(), **more)


def quantize(
    model: Any,
    calibration: Iterable[Sample],
    options: QuantizationOptions | None = None,
    *,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    **more: Any,
) -> QuantizedModel:
    """Quantises the products of a model with constant weights: Conv, Gemm, MatMul.

    Args:
        model: a float32 model, as `stepwell.compile` takes it: a path, bytes, or an object. A model of another format
            than ONNX is written as ONNX first, as `stepwell.export_onnx` does.
        calibration: inputs of typical calls, each a dictionary by name. They give the ranges of activations, and the
            error of the outputs is measured on the first `options.samples` of them.
        options: how to quantise.
        args: example arguments with which a module of torch is exported.
        kwargs: example keyword arguments of it.
        dynamic_shapes: the dimensions of these arguments that may vary, as `torch.export.export` takes them.
        more: fields of `options`, instead of these.

    Raises:
        SourceError, ModelError: the model cannot be read.
        NoOnnxFormError: an op of a model of another format has no form in ONNX.
        QuantizationError: there is nothing to quantise, there are no samples, or an excluded node does not exist.
        OptionError: an option has a value that is not allowed.
        InputError: a sample does not fit the model.
    """
    chosen = dataclasses.replace(options or QuantizationOptions(), **more)
    samples = list(calibration)
    if not samples:
        raise QuantizationError("calibration: there are no samples; give the inputs of at least one typical call")
    source = read_source(model, args, kwargs, dynamic_shapes)
    read = FloatModel.read(
        model if isinstance(source, OnnxSource) else export_onnx(source),
        FOR_BLOCKS if chosen.method == "weights" else 0,
    )
    fold_batch_norms(read)
    _check_excluded(read, chosen)
    seen = _observed(read, samples, chosen)
    if chosen.smooth:
        largest = {name: item.largest for name, item in seen.items() if item.largest is not None}
        smooth(read, largest, chosen.smooth)
        seen = _observed(read, samples, chosen)
    plan = make_plan(read, chosen, seen)
    if not plan.products:
        raise QuantizationError("no product is left to quantise: all are excluded, or method 'weights' finds no matrix")
    measured = SwitchModel(plan, samples[: chosen.samples])
    base, parts = contributions_of(plan, measured.errors)
    tried = _candidates(plan, [part.share for part in parts], seen, samples) if chosen.cures else {}
    if tried:
        plan = with_cures(plan, tried)
        measured = SwitchModel(plan, samples[: chosen.samples])
    found = search(plan, measured.errors, base, parts, usable_levels(plan, tried))
    plan.levels = found.levels
    report = make_report(plan, found, seen, tried, samples[0])
    if not found.is_met:
        warn(f"{report.summary}", StepwellWarning)
    recipe = {"options": chosen.record(), "products": {item.node: item.form for item in report.products}}
    return QuantizedModel(write(plan, recipe), report)


def _candidates(
    plan: Plan, shares: list[float], seen: Mapping[str, Activation], samples: list[Sample]
) -> dict[int, list[Cure]]:
    """Returns the cures to try, by product; the statistics that they need are collected first."""
    sick = [index for index in patients(shares) if faults(plan, plan.products[index], seen)]
    if not sick:
        return {}
    products = [plan.products[index].product for index in sick]
    if plan.options.method == "weights":
        products = [item for item in products if item.is_matrix and len(item.matrix) <= _MOST_ROWS]
    channels = {item.data: item.channel_axis for item in products}
    known, method = {**seen}, plan.options.method
    if channels and method != "dynamic":
        known |= observe(plan.model, samples, channels, method == "static", wants_gram=method == "weights")
    found = {index: candidates(plan, plan.products[index], known) for index in sick}
    return {index: forms for index, forms in found.items() if forms}


def _check_excluded(model: FloatModel, options: QuantizationOptions) -> None:
    known = {product.name for product in model.products}
    missing = [name for name in options.exclude if name not in known]
    if missing:
        raise QuantizationError(f"exclude: no product is called '{missing[0]}'; they are {', '.join(sorted(known))}")


def _observed(
    model: FloatModel, samples: list[Mapping[str, Any]], options: QuantizationOptions
) -> dict[str, Activation]:
    """Observes the activations of all products that the method needs statistics of."""
    products = [item for item in model.products if item.name not in options.exclude]
    if options.method == "weights":
        if options.algorithm == "rtn":
            return {}
        products = [item for item in products if item.is_matrix]
    if options.method == "dynamic" and not (options.smooth or options.cures):
        return {}
    channels = {name: users[0].channel_axis for name, users in by_activation(products).items()}
    wants_histogram = options.method == "static" and options.ranges != "minmax"
    return observe(model, samples, channels, wants_histogram, wants_gram=options.algorithm != "rtn")
