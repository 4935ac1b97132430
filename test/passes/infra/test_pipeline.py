"""The textual form of pipelines, and errors about wrong text."""

from __future__ import annotations

import pytest
from mlir import ir
from stepwell.passes.graph.constants.fold_constants import FoldConstantsPass
from stepwell.passes.infra.discovery import all_passes, find_pass
from stepwell.passes.infra.elements import Nested, Upstream
from stepwell.passes.infra.options import PipelineError
from stepwell.passes.infra.pipeline import Pipeline

MIXED = "builtin.module(stepwell-dce,func.func(linalg-generalize-named-ops,cse),canonicalize{max-iterations=3})"


@pytest.mark.parametrize(
    "text",
    [
        MIXED,
        "builtin.module()",
        "func.func(cse)",
        "builtin.module(stepwell-fold-constants{max-elements=7},gpu.module(cse,func.func(cse)))",
        "builtin.module(pass-with{nested={a=1 b={c,d}} quoted='x, (y' last=)})".replace(" last=", ""),
    ],
)
def test_prints_what_it_parsed(text: str) -> None:
    assert str(Pipeline.parse(text)) == text


def test_python_form_is_the_textual_form() -> None:
    pipeline = Pipeline(
        ("stepwell-dce", Nested("func.func", ("linalg-generalize-named-ops", "cse")), "canonicalize{max-iterations=3}")
    )
    assert pipeline == Pipeline.parse(MIXED)


def test_a_string_may_hold_several_elements() -> None:
    assert Pipeline(("cse,canonicalize",)).elements == (Upstream("cse"), Upstream("canonicalize"))


def test_pipelines_add_up() -> None:
    assert str(Pipeline(("cse",)) + Pipeline(("stepwell-dce",))) == "builtin.module(cse,stepwell-dce)"


def test_passes_can_be_left_out() -> None:
    pipeline = Pipeline(("stepwell-cse", "canonicalize", "stepwell-dce"))
    assert str(pipeline.without(("stepwell-dce",))) == "builtin.module(stepwell-cse,canonicalize)"


def test_defaults_are_not_printed() -> None:
    assert str(Pipeline((FoldConstantsPass(),))) == "builtin.module(stepwell-fold-constants)"
    assert "{max-elements=2}" in str(Pipeline((FoldConstantsPass(max_elements=2),)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse", "wrapped with the anchor operation type"),
        ("builtin.module(cse", "wrapped with the anchor operation type"),
        ("builtin.module(cse{a)", "missing }"),
        ("builtin.module(cse{a='x})", "missing '"),
        ("builtin.module(cse cse)", "after 'cse'"),
        ("builtin.module(%)", "expected a pass name"),
        ("builtin.module(stepwell-fold-constants{max-element=3})", "did you mean 'max-elements'"),
        ("builtin.module(stepwell-fold-constants{max-elements=three})", "must be int, but is 'three'"),
        ("builtin.module(stepwell-fold-constants{max-elements})", "needs a value: max-elements=<int>"),
    ],
)
def test_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("builtin.module(csee)", "'csee' does not refer to a registered pass or pass pipeline; did you mean 'cse'"),
        ("builtin.module(stepwell-dcee)", "did you mean 'stepwell-dce'"),
        ("builtin.module(cse{x=1})", r"pass 'cse' has no option 'x' \(it has none\)"),
        ("builtin.module(canonicalize{max-iteration=1})", "did you mean 'max-iterations'"),
        ("builtin.module(affine-loop-coalescing)", "did you intend to nest"),
        ("builtin.module(func.func(stepwell-dce))", "restricted to 'builtin.module'.* did you intend to nest"),
        ("func.func(cse)", "can't run 'func.func' pass manager on 'builtin.module' op"),
    ],
)
def test_pipelines_that_cannot_run_are_refused_before_anything_runs(text: str, message: str) -> None:
    with ir.Context():
        module = ir.Module.parse("func.func private @f()")
        with pytest.raises(PipelineError, match=message):
            Pipeline.parse(text).run(module)


def test_every_pass_lies_in_a_file_of_its_name() -> None:
    found = {name: kind for name, kind in all_passes().items() if kind.__module__.startswith("stepwell.")}
    assert "stepwell-convert-to-linalg" in found
    for name, kind in found.items():
        assert kind.__module__.rpartition(".")[2] == name.removeprefix("stepwell-").replace("-", "_")
        assert find_pass(name) is kind
