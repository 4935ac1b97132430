"""Launch plans: the JSON round trip, and refusal of plans that cannot be trusted."""

import json
from dataclasses import replace

import pytest
from stepwell.runtime.cuda.launch_checks import check_plan
from stepwell.runtime.launch_plan import BufferSlice, DeviceCopy, Fill, Launch, LaunchPlan, Scalar, TensorMap

INPUT = BufferSlice("input", 0, 0, 4096)
OUTPUT = BufferSlice("output", 0, 64, 1024)
ARENA = BufferSlice("arena", 0, 256, 256)
MAP = TensorMap("float16", (64, 32), (128,), (64, 8), swizzle=128, buffer=INPUT)
LAUNCH = Launch(
    (4, 2, 1),
    (128, 1, 1),
    (2, 1, 1),
    1024,
    module="softmax",
    entry="softmax_rows",
    arguments=(INPUT, MAP, Scalar("int64", -3)),
)
PLAN = LaunchPlan((Fill(ARENA, 255), LAUNCH, DeviceCopy(ARENA, replace(OUTPUT, bytes=256))), 512)
SIZES = ((4096,), (2048,), (16,))


def launching(**changes: object) -> LaunchPlan:
    return LaunchPlan((replace(LAUNCH, **changes),), 512)


def test_a_plan_goes_through_json_and_back() -> None:
    again = LaunchPlan.read(json.loads(json.dumps(PLAN.record())))
    assert again == PLAN
    check_plan(again, *SIZES)
    assert again.modules == ("softmax",)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (launching(grid=(3, 2, 1)), "not a multiple of the cluster"),
        (launching(block=(1024, 2, 1)), "too many threads"),
        (launching(block=(0, 1, 1)), "invalid block"),
        (launching(shared_bytes=2**20), "more than a block can have"),
        (launching(cluster=(32, 1, 1), grid=(32, 1, 1)), "too many blocks"),
        (launching(entry="a b"), "not a valid name of a PTX entry"),
        (launching(module=""), "names no module"),
        (launching(arguments=(INPUT,) * 600), "too many bytes"),
        (launching(arguments=(replace(INPUT, offset=1),)), "not inside"),
        (launching(arguments=(replace(INPUT, index=1),)), "there is no input 1"),
        (launching(arguments=(replace(MAP, strides=(8,)),)), "multiples of 16"),
        (launching(arguments=(replace(MAP, box=(65, 8)),)), "multiple of 16"),
        (launching(arguments=(replace(MAP, swizzle=64),)), "exceed swizzle"),
        (launching(arguments=(replace(MAP, sizes=(64, 33)),)), "tensor map of .* exceeds"),
        (launching(arguments=(replace(MAP, box=(64, 8, 1)),)), "lacks strides, box or steps"),
        (launching(arguments=(replace(MAP, element="int4"),)), "not an element type"),
        (launching(arguments=(replace(MAP, fill="one"),)), "invalid fill"),
        (launching(arguments=(Scalar("int32", 2**31),)), "is not a valid int32"),
        (LaunchPlan((Fill(INPUT),), 0), "read-only"),
        (LaunchPlan((Fill(ARENA, 256),), 512), "not a byte"),
        (LaunchPlan((Fill(ARENA),), 511), "not inside"),
        (LaunchPlan((DeviceCopy(INPUT, OUTPUT),), 0), "differ in size"),
        (LaunchPlan((DeviceCopy(ARENA, replace(ARENA, offset=255)),), 512), "overlap"),
    ],
)
def test_plans_beyond_the_device_s_limits_are_refused(plan: LaunchPlan, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_plan(plan, *SIZES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("arena_bytes",), -1),
        (("arena_bytes",), True),
        (("steps", 1, "grid"), [1, 1, -1]),
        (("steps", 1, "block"), "abc"),
        (("steps", 1, "kind"), "jump"),
        (("steps", 1, "module"), 3),
        (("steps", 1, "arguments", 0, "space"), "host"),
        (("steps", 1, "arguments", 0, "offset"), 1.5),
        (("steps", 1, "arguments", 1, "kind"), "file"),
        (("steps", 1, "arguments", 1, "box"), [64, -1]),
        (("steps", 1, "arguments", 2, "value"), "7"),
        (("steps", 1, "arguments", 2, "type"), "int128"),
    ],
)
def test_a_record_that_is_not_a_plan_is_refused(path: tuple, value: object) -> None:
    record = json.loads(json.dumps(PLAN.record()))
    *way, last = path
    inner = record
    for step in way:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(ValueError, match="is not a"):
        LaunchPlan.read(record)
