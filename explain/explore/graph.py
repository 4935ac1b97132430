"""The graph of a model: its ops as they were imported, and the kernels that they became part of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir import ir

from ...dialects import discardable
from ...dialects.symbols import symbol_of
from ...passes.ir.rewriting import walk
from .texts import Texts, places_in

_WEIGHTS = ("parameter", "constant")


def graph_of(module: ir.Operation, texts: Texts) -> dict[str, Any]:
    """Returns the ops of @main or the largest function, one node per location, and the edges between nodes."""
    nodes: list[dict[str, Any]] = []
    by_place: dict[tuple[int, ...], int] = {}
    maker: dict[ir.Value, int] = {}
    edges: set[tuple[int, int]] = set()
    for op in _ops(module):
        if not len(op.operands) and op.name.rpartition(".")[2] in _WEIGHTS:
            continue
        places = tuple(texts.place(name) for name in places_in(str(op.location)))
        index = by_place.setdefault(places or (-1 - len(nodes),), len(nodes))
        if index == len(nodes):
            name = texts.places[places[0]] if places else op.name
            nodes.append({"name": name, "op": op.name, "places": sorted(set(places)), "types": []})
        nodes[index]["types"] = [str(result.type) for result in op.results]
        edges |= {(maker[value], index) for value in _read(op) if value in maker and maker[value] != index}
        maker.update(dict.fromkeys(op.results, index))
    return {"nodes": nodes, "edges": sorted(edges)}


def calls_of(module: ir.Operation, texts: Texts) -> list[dict[str, Any]]:
    """Returns the calls of kernels in @main, each with facts about the kernel and the nodes that it computes."""
    functions = {symbol_of(op): op.operation for op in module.regions[0].blocks[0] if "sym_name" in op.attributes}
    if "main" not in functions:
        return []
    calls: list[dict[str, Any]] = []
    for op in walk(functions["main"]):
        if op.name != "func.call":
            continue
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        kernel = functions.get(name)
        facts = None if kernel is None else discardable.KERNEL.read(kernel)
        if facts is None:
            continue
        calls.append(
            {
                "kernel": name,
                "class": facts.kind,
                "flops": facts.flops,
                "bytes": facts.bytes,
                "places": list(dict.fromkeys(texts.place(place) for place in places_in(str(op.location)))),
            }
        )
    return calls


def _ops(module: ir.Operation) -> Iterator[ir.Operation]:
    """Yields the ops directly inside the function @main, or else the one with the most ops, or else the module."""
    bodies: dict[str, list[ir.Operation]] = {}
    top = [op.operation for op in module.regions[0].blocks[0]] if len(module.regions) else []
    for index, function in enumerate(top):
        inner = [op.operation for region in function.regions for block in region for op in block]
        name = str(function.attributes["sym_name"]).strip('"') if "sym_name" in function.attributes else f"#{index}"
        bodies[name] = inner
    chosen = bodies.get("main") or max(bodies.values(), key=len, default=[]) or top
    return (op for op in chosen if not op.name.endswith((".return", ".yield")))


def _read(op: ir.Operation) -> Iterator[ir.Value]:
    """Yields the operands of an op, including those of ops in its regions."""
    for inner in walk(op):
        yield from inner.operands
    yield from op.operands
