"""Shapes that are deduced for ranges of sizes are those of the same model imported at sizes in the ranges."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from mlir import ir
from stepwell.dialects.types import shape_of_type
from stepwell.driver.compile.ranges import RangedModel
from stepwell.driver.context import compiler_context
from stepwell.driver.sources.reading import read_source
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.ir.functions import main_function
from stepwell.passes.ir.rewriting import walk
from stepwell.sizes.expressions import evaluate, parse_expression
from stepwell.sizes.ranges import Range

from .extent_graphs import GRAPHS as OF_EXTENTS
from .graphs import GRAPHS
from .model_graphs import GRAPHS as OF_MODELS
from .text_graphs import GRAPHS as OF_TEXT
from .wide_graphs import GRAPHS as MORE


def _shapes(module: ir.Module) -> dict[str, list[list[int | str]]]:
    """The shapes of the results of the ops of each name and node, and of what the model returns."""
    Pipeline(("stepwell-infer-shapes",)).run(module)
    found: dict[str, list[list[int | str]]] = {}
    for op in walk(main_function(module.operation)):
        if op.name.startswith("stepwell.") and op.name not in ("stepwell.constant", "stepwell.sizes"):
            found.setdefault(f"{op.name} {op.location}", []).extend(map(_dims, op.results))
        elif op.name == "func.return":
            found["outputs"] = [_dims(value) for value in op.operands]
    return found


def _dims(value: ir.Value) -> list[int | str]:
    return [dim if isinstance(dim, int) else str(dim) for dim in shape_of_type(value.type)]


def _at(dim: int | str, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else evaluate(parse_expression(dim), sizes)


@pytest.mark.few(20)
@pytest.mark.parametrize("make", [*GRAPHS, *MORE, *OF_MODELS, *OF_TEXT, *OF_EXTENTS], ids=lambda make: make.__name__)
def test_deduced_shapes_are_those_of_concrete_sizes(make) -> None:
    proto, given = make()
    source = read_source(proto)
    ranges = {name: Range(*values) for name, values in given.items()}
    ranged = RangedModel(source, source.interface()[0], {})
    with compiler_context() as context, ir.Location.unknown(), ranged.assumed(ranges):
        deduced = _shapes(ranged.imported(context, ranges).module)
    dims = [dim for shapes in deduced.values() for shape in shapes for dim in shape]
    assert any(isinstance(dim, str) for dim in dims)
    assert not [dim for dim in dims if isinstance(dim, str) and "?" in dim]
    middle = tuple((values.low + values.high) // 2 for values in ranges.values())
    for sizes in {*itertools.product(*((values.low, values.high) for values in ranges.values())), middle}:
        named = dict(zip(ranges, sizes, strict=True))
        with compiler_context() as context, ir.Location.unknown():
            concrete = _shapes(source.import_into(context, ranged.shapes(named), {}).module)
        for place, shapes in deduced.items():
            # An import at given sizes computes more ahead, so that a node may have other ops.
            if len(concrete.get(place, ())) == len(shapes):
                values = [[_at(dim, named) for dim in shape] for shape in shapes]
                assert values == concrete[place], (place, shapes, named)
        assert len(deduced["outputs"]) == len(concrete["outputs"])
