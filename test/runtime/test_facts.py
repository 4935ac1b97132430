"""The compiler's facts about a program: their encoding."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from stepwell.runtime.facts import (
    CallFacts,
    CodeShape,
    CompileFacts,
    KernelDetails,
    NodeFacts,
    Operand,
    TensorFacts,
)
from stepwell.runtime.remarks import MISSED, Remark
from stepwell.support.errors import ArtefactError

FACTS = CompileFacts(
    (NodeFacts("a", "Relu", (TensorFacts("float32", (2, -1)),), "merged", "FuseRelu", ("b",)),),
    (CallFacts("kernel_0", ("b", "a"), ("kernel_0", "kernel_1"), 3),),
    {"kernel_0": (Operand("float32", (2, 3), "rows"), Operand("float32", (2,), "row-major", is_result=True))},
    (Remark(MISSED, "stepwell-cse", "Share", ("a",), "no"),),
    64,
    {
        "kernel_0": KernelDetails(CodeShape(512, 0.25, 1, {"expf": 3}), {"name": "rows", "tiles": [[4, 8]]}, (3, 1)),
        "kernel_1": KernelDetails(serial="too small", unbounded=("a mask",), entries=(0, 2), device={"registers": 40}),
    },
)


def test_facts_survive_their_encoding() -> None:
    assert CompileFacts.decoded(FACTS.encoded()) == FACTS


def test_no_facts_are_empty() -> None:
    empty = CompileFacts.decoded(b"")
    assert empty == CompileFacts()
    assert empty.details_of("kernel_0") == KernelDetails()
    assert empty.operands_of("kernel_0") == ()


@pytest.mark.parametrize("change", [{"schema": 0}, {"schema": None}, {"nodes": [{}]}, {"calls": 1}, {"details": []}])
def test_other_facts_are_errors(change: dict) -> None:
    record = {**json.loads(zlib.decompress(FACTS.encoded())), **change}
    with pytest.raises(ArtefactError, match="the facts for its report cannot be read"):
        CompileFacts.decoded(zlib.compress(json.dumps(record).encode()))


def test_an_unknown_fate_is_an_error() -> None:
    (node,) = FACTS.nodes
    with pytest.raises(ArtefactError, match="'lost' is not the fate of a node"):
        CompileFacts.decoded(replace(FACTS, nodes=[replace(node, fate="lost")]).encoded())
