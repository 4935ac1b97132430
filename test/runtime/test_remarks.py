"""Remarks: their record, and their YAML."""

from __future__ import annotations

import json

import pytest
from stepwell.runtime.remarks import ANALYSIS, MISSED, PASSED, Remark, to_yaml

FUSED = Remark(
    MISSED, "stepwell-form-kernels", "Fuse", ("relu", "second"), 'its "shape" differs', (("reads", ("mul",)),)
)
FOUND = Remark(ANALYSIS, "my-pass", "Count", (), "7 of 9", (("count", 7), ("share", 0.5)))


@pytest.mark.parametrize("remark", [FUSED, FOUND, Remark(PASSED, "p", "Rule", ("a",), "done")])
def test_a_remark_survives_json(remark: Remark) -> None:
    assert Remark.read(json.loads(json.dumps(remark.record()))) == remark


def test_arguments_are_found_by_name() -> None:
    assert FUSED.names("reads") == ("mul",)
    assert FUSED.names("into") == ()
    assert (FOUND.argument("count"), FOUND.names("count")) == (7, ("7",))


@pytest.mark.parametrize(
    "record",
    [
        ["wrong", "p", "r", [], "m", {}],
        ["passed", "p", "r", "names", "m", {}],
        ["passed", "p", "r", [], "m", []],
        ["passed", "p", "r", []],
    ],
)
def test_other_records_are_errors(record: list) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        Remark.read(record)


def test_the_yaml_is_that_of_llvm() -> None:
    assert to_yaml([FUSED, FOUND]).splitlines() == [
        "--- !Missed",
        'Pass:            "stepwell-form-kernels"',
        'Name:            "Fuse"',
        'Function:        "relu"',
        "Args:",
        '  - Nodes:           "relu, second"',
        '  - reads:           "mul"',
        '  - String:          "its \\"shape\\" differs"',
        "...",
        "--- !Analysis",
        'Pass:            "my-pass"',
        'Name:            "Count"',
        'Function:        ""',
        "Args:",
        '  - count:           "7"',
        '  - share:           "0.5"',
        '  - String:          "7 of 9"',
        "...",
    ]
