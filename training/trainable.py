"""A model as the subject of training: its parameters, and its module in the form that is differentiated."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir

from ..dialects.registry import view_of
from ..dialects.stepwell.constant import ParameterOp
from ..dialects.stepwell.normalization import BatchNormOp
from ..dialects.types import is_float
from ..driver.api import interface_of
from ..driver.sources.reading import read_source
from ..driver.sources.source import ModelSource, SourceError
from ..driver.sources.torch import TorchSource
from ..driver.state import state_for
from ..passes.differentiation.pipelines import differentiable_pipeline
from ..passes.ir.functions import main_function, value_names
from ..passes.ir.rewriting import defining_op, walk
from ..runtime.program import Shape, TensorInfo
from ..support.errors import OptionError


@dataclass(frozen=True)
class Trainable:
    """A model whose parameters can be trained.

    Attributes:
        source: the model.
        name: its name in messages.
        inputs: the inputs of a batch.
        carried: the inputs that the model returns changed, such as the running means of batch norms, by name.
    """

    source: ModelSource
    name: str
    inputs: tuple[TensorInfo, ...]
    carried: Mapping[str, np.ndarray]

    @staticmethod
    def read(
        model: Any, args: tuple[Any, ...] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
    ) -> Trainable:
        """Reads a model as `stepwell.compile` does.

        Raises:
            SourceError: it is not a model, or a model that is already compiled.
            ModelError: it is damaged.
            OptionError: example arguments are given for a model that is not of torch.
        """
        source = replace(read_source(model, args, kwargs, dynamic_shapes), keeps_weights=True)
        name, inputs, outputs = interface_of(source)
        returned = {info.name for info in outputs}
        carried = {info.name: _state(source, info) for info in inputs if info.name in returned}
        return Trainable(source, name, tuple(info for info in inputs if info.name not in returned), carried)

    def shapes_of(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of all inputs of the model, from those of a batch."""
        return {**shapes, **{name: array.shape for name, array in self.carried.items()}}

    def prepared(self, context: ir.Context, shapes: Mapping[str, Shape], target: str) -> Prepared:
        """Imports the model for the shapes of a batch, and brings it to the form that is differentiated.

        Raises:
            ModelError: the model cannot be imported.
            PassFailure: a pass failed.
        """
        all_shapes = self.shapes_of(shapes)
        imported = self.source.import_into(context, all_shapes, {})
        names = [info.name for info in imported.info.inputs]
        state = state_for(target, parameters=dict(imported.parameters))
        frozen = _statistics(imported.module) | set(imported.continued.values())
        differentiable_pipeline([all_shapes[name] for name in names]).run(imported.module, state=state)
        read = value_names(main_function(imported.module.operation), "arg_attrs", "input")
        found = {item: array for item, array in (state.parameters or {}).items() if item in read}
        return Prepared(imported.module, found, frozen, dict(imported.continued))

    def trainable_names(self, prepared: Prepared) -> list[str]:
        """The names of the parameters that are trained if none are chosen."""
        program = self.source.program if isinstance(self.source, TorchSource) else None
        chosen = None if program is None else _required(program)
        return [
            name
            for name, array in prepared.parameters.items()
            if is_float(array.dtype)
            and (name in chosen if chosen is not None else array.ndim > 0 and name not in prepared.statistics)
        ]


@dataclass(frozen=True)
class Prepared:
    """A module in the form that is differentiated.

    Attributes:
        module: @main takes the model's inputs, then the parameters.
        parameters: the contents of the parameters by name, in the order of the inputs.
        statistics: names of the parameters that hold means and variances of data.
        continued: names of those that outputs of other names continue, by the names of these.
    """

    module: ir.Module
    parameters: dict[str, np.ndarray]
    statistics: frozenset[str]
    continued: Mapping[str, str]

    def chosen(self, wanted: Sequence[str] | None, default: Sequence[str], inputs: Sequence[str] = ()) -> list[str]:
        """The names of parameters that match one of some patterns, such as "head.*", and of inputs that are named.

        Raises:
            OptionError: a pattern matches none, or there are no parameters.
        """
        if wanted is None:
            if not default:
                advice = f": name some of the inputs {', '.join(inputs)} in `wrt`" if inputs else ""
                raise OptionError(f"the model has no parameters of floating point{advice}")
            return list(default)
        found: dict[str, None] = {}
        own = [name for name in self.parameters if name not in self.continued.values()]
        for pattern in [wanted] if isinstance(wanted, str) else wanted:
            matched = [name for name in own if name == pattern or fnmatch.fnmatchcase(name, pattern)]
            matched += [name for name in inputs if name == pattern]
            if not matched:
                names = ", ".join(own) or "none"
                raise OptionError(f"wrt: no parameter matches '{pattern}'; there are {names}")
            found.update(dict.fromkeys(matched))
        return list(found)


def _statistics(module: ir.Module) -> frozenset[str]:
    """The names of the parameters that are means and variances of batch norms."""
    found = set()
    for operation in walk(main_function(module.operation)):
        view = view_of(operation)
        if isinstance(view, BatchNormOp):
            parameters = (defining_op(value, ParameterOp) for value in (view.mean, view.variance))
            found.update(parameter.name for parameter in parameters if parameter is not None)
    return frozenset(found)


def _required(program: Any) -> set[str]:
    """The names of the parameters of a program of torch that require gradients."""
    exported = program.exported
    names = exported.graph_signature.parameters
    return {name for name in names if exported.state_dict[name].requires_grad}


def _state(source: ModelSource, info: TensorInfo) -> np.ndarray:
    """The first contents of an input that the model returns changed.

    Raises:
        SourceError: the model does not have them.
    """
    if not isinstance(source, TorchSource):
        raise SourceError(
            f"{source.name}: input and output are both called '{info.name}': it would be state, but the model has no "
            "first contents for it"
        )
    from ..frontend.torch.tensors import as_array

    return np.array(as_array(source.exported.tensor(info.name)))
