"""Programs and model interfaces in the cache: one record each; objects and parameters once, by content."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ...sizes.bounds import Bounds, decode_bounds, encode_bounds
from ...support.large_file import LargeFile
from ..cache.cache import Cache
from ..cache.keys import key_of
from ..host.fallback import read_fallback
from ..hybrid.plan import ExecutionPlan, HostStep, NativeStep, PlanStep, read_control_step
from ..program import Program, TensorInfo
from ..specialization.interfaces import ByContents
from .codec import decode_program, decode_tensors, encode_program, encode_tensors


def fingerprint_of_file(cache: Cache, file: LargeFile, make: Callable[[], str]) -> str:
    """Returns the result of `make` for a file in this state, from the cache if it is there."""
    key = key_of(file.identity)
    known = cache.get("files", key)
    if known is not None:
        return bytes(known).decode()
    made = make()
    if file.is_settled:
        cache.put("files", key, made.encode())
    return made


def put_interface(
    cache: Cache, key: str, name: str, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> None:
    """Stores a model's name, inputs and outputs."""
    record = {"name": name, "inputs": encode_tensors(inputs), "outputs": encode_tensors(outputs)}
    cache.put("models", key, json.dumps(record).encode())


def get_interface(cache: Cache, key: str) -> tuple[str, tuple[TensorInfo, ...], tuple[TensorInfo, ...]] | None:
    """Returns a model's name, inputs and outputs; None if they are not in the cache."""
    data = cache.get("models", key)
    if data is None:
        return None
    record = json.loads(bytes(data))
    return record["name"], decode_tensors(record["inputs"]), decode_tensors(record["outputs"])


def put_program(cache: Cache, key: str, program: Program) -> None:
    """Stores a program."""
    parameters = _put_arrays(cache, program.parameters)
    objects = {name: _put_object(cache, data) for name, data in program.objects.items()}
    record = {
        **encode_program(program),
        "parameters": parameters,
        "objects": objects,
        "contents": _put_arrays(cache, program.contents),
        "facts": _put_object(cache, program.facts),
    }
    cache.put("programs", key, json.dumps(record).encode())


def put_by_contents(cache: Cache, key: str, contents: ByContents) -> None:
    """Stores that the requested program depends on the contents of some inputs."""
    cache.put("programs", key, json.dumps({"by_contents": contents.positions, "reason": contents.reason}).encode())


def put_ranges(cache: Cache, key: str, ranges: Mapping[str, Bounds]) -> None:
    """Stores the inferred ranges of a model, by the text in the keys of their programs."""
    cache.put("ranges", key, json.dumps({sizes: encode_bounds(item) for sizes, item in ranges.items()}).encode())


def get_ranges(cache: Cache, key: str) -> dict[str, Bounds]:
    """Returns the inferred ranges of a model; empty if none are in the cache."""
    data = cache.get("ranges", key)
    record = {} if data is None else json.loads(bytes(data))
    found = {sizes: decode_bounds(item) for sizes, item in record.items()}
    return {sizes: bounds for sizes, bounds in found.items() if bounds is not None}


def put_refusal(cache: Cache, key: str, reason: str) -> None:
    """Stores why there is no program for a range."""
    cache.put("refusals", key, reason.encode())


def get_refusal(cache: Cache, key: str) -> str:
    """Returns why there is no program for a range; empty if that is not in the cache."""
    data = cache.get("refusals", key)
    return "" if data is None else bytes(data).decode()


def put_plan(cache: Cache, key: str, plan: ExecutionPlan) -> None:
    """Stores that the requested model runs in steps, without the code of the steps."""
    steps = [_step(cache, step) for step in plan.steps]
    record = {"plan": {"inputs": plan.inputs, "outputs": plan.outputs, "steps": steps}}
    cache.put("programs", key, json.dumps(record).encode())


def _step(cache: Cache, step: PlanStep) -> dict[str, Any]:
    if isinstance(step, HostStep):
        model, fallback = _put_object(cache, step.model), step.fallback.record()
        return {"inputs": step.inputs, "outputs": step.outputs, "model": model, "fallback": fallback}
    return asdict(step)


def _get_plan(cache: Cache, record: dict[str, Any]) -> ExecutionPlan | None:
    steps: list[PlanStep] = []
    for entry in record["steps"]:
        inputs, outputs = tuple(entry["inputs"]), tuple(entry["outputs"])
        if "nodes" in entry:
            steps.append(NativeStep(inputs, outputs, tuple(entry["nodes"])))
            continue
        if "bodies" in entry:
            bodies = [
                NativeStep(tuple(body["inputs"]), tuple(body["outputs"]), (), (), (body["body"][0], body["body"][1]))
                for body in entry["bodies"]
            ]
            steps.append(read_control_step(entry, bodies))
            continue
        model = cache.get("objects", entry["model"])
        if model is None:
            return None
        steps.append(HostStep(inputs, outputs, bytes(model), read_fallback(entry["fallback"])))
    return ExecutionPlan(tuple(record["inputs"]), tuple(record["outputs"]), tuple(steps))


def get_program(cache: Cache, key: str) -> Program | ByContents | ExecutionPlan | None:
    """Returns a program from the cache, or what replaced it; None if any part of it is missing."""
    data = cache.get("programs", key)
    if data is None:
        return None
    record = json.loads(bytes(data))
    if "by_contents" in record:
        return ByContents(tuple(record["by_contents"]), record["reason"])
    if "plan" in record:
        return _get_plan(cache, record["plan"])
    contents = {name: cache.get_array("parameters", part) for name, part in record["contents"].items()}
    parameters = {name: cache.get_array("parameters", part) for name, part in record["parameters"].items()}
    objects = {name: cache.get("objects", part) for name, part in record["objects"].items()}
    facts = cache.get("objects", record["facts"])
    if facts is None or any(part is None for part in [*parameters.values(), *objects.values(), *contents.values()]):
        return None
    return Program(
        **decode_program(record),
        parameters={name: array for name, array in parameters.items() if array is not None},
        objects={name: bytes(data) for name, data in objects.items() if data is not None},
        contents={name: array for name, array in contents.items() if array is not None},
        facts=bytes(facts),
    )


def _put_arrays(cache: Cache, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Stores arrays, two at a time: checksums take most of the time, and release Python's lock."""
    from concurrent.futures import ThreadPoolExecutor  # not needed for a start from the cache

    with ThreadPoolExecutor(2) as pool:
        return dict(
            zip(arrays, pool.map(lambda array: cache.put_array("parameters", array), arrays.values()), strict=True)
        )


def _put_object(cache: Cache, data: bytes) -> str:
    key = key_of(data)
    cache.put("objects", key, data)
    return key
