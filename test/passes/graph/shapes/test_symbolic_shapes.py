"""Shapes of whole models are deduced as expressions, which agree with the shapes at concrete sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from mlir import ir
from stepwell.bench import models
from stepwell.dialects.types import shape_of_type
from stepwell.driver.context import compiler_context
from stepwell.driver.sources.reading import read_source
from stepwell.driver.sources.source import ModelSource
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.ir.functions import main_function
from stepwell.passes.ir.rewriting import walk
from stepwell.sizes.expressions import evaluate, parse_expression

NAMES = ("ppocr-det", "ppocr-rec", "ppocr-cls", "minilm-1x16")
SIZES: Mapping[str, list[dict[str, tuple[int, ...]]]] = {
    "ppocr-det": [{"x": (1, 3, 64, 96)}, {"x": (2, 3, 32, 224)}],
    "ppocr-rec": [{"x": (1, 3, 48, 100)}, {"x": (3, 3, 48, 321)}],
    "ppocr-cls": [{"x": (1, 3, 48, 192)}, {"x": (5, 3, 48, 192)}],
    "minilm-1x16": [
        dict.fromkeys(("input_ids", "token_type_ids", "attention_mask"), shape) for shape in ((1, 16), (3, 41))
    ],
}


def _shapes(source: ModelSource, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list]:
    """Returns the dimensions of the results of each op, by its place in the model."""
    shapes_of: dict[str, list] = {}
    with compiler_context() as context, ir.Location.unknown():
        imported = source.import_into(context, shapes, {})
        Pipeline(("stepwell-infer-shapes",)).run(imported.module)
        seen: dict[str, int] = {}
        for op in walk(main_function(imported.module.operation)):
            if op.name in ("stepwell.constant", "stepwell.parameter") or not op.name.startswith("stepwell."):
                continue
            place = f"{op.name} {op.location}"
            seen[place] = number = seen.get(place, 0) + 1
            shapes_of[f"{place} {number}"] = [
                [dim if isinstance(dim, int) else str(dim) for dim in shape_of_type(value.type)] for value in op.results
            ]
    return shapes_of


def _value(dim: int | str, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else evaluate(parse_expression(dim), sizes)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_deduced_shapes_are_those_of_concrete_sizes(name: str, tmp_path: Path) -> None:
    model = next(item for item in models.known() if item.name == name)
    source = read_source(model.file(tmp_path))
    deduced = _shapes(source, {})
    dims = [dim for shapes in deduced.values() for shape in shapes for dim in shape]
    assert not [dim for dim in dims if isinstance(dim, str) and "?" in dim]
    assert any(isinstance(dim, str) for dim in dims)
    for given in SIZES[name]:
        sizes = {
            dim: size
            for info in source.interface()[0]
            for dim, size in zip(info.shape, given[info.name], strict=True)
            if isinstance(dim, str)
        }
        concrete = _shapes(source, given)
        shared = deduced.keys() & concrete.keys()
        assert len(shared) > len(deduced) / 2
        for place in shared:
            assert [[_value(dim, sizes) for dim in shape] for shape in deduced[place]] == concrete[place], place
