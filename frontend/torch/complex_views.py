"""Complex inputs and outputs of pieces, passed as views: real tensors whose last dimension holds both parts."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import torch

_REAL, _COMPLEX = torch.ops.aten.view_as_real.default, torch.ops.aten.view_as_complex.default
_PLAIN = torch.ops.aten.resolve_conj.default


def with_real_interface(call: torch.fx.Node, module: torch.fx.GraphModule, weights: Collection[str]) -> None:
    """Changes a piece and its call so that complex tensors are passed as real tensors.

    Args:
        call: the call in the graph of pieces; its users read single results.
        module: the piece, which returns a tuple.
        weights: placeholders of the graph whose tensors become constants of the piece, which stay complex.
    """
    for given, inner in zip(call.args, module.graph.find_nodes(op="placeholder"), strict=True):
        given = cast(torch.fx.Node, given)
        value = inner.meta.get("val")
        is_constant = given.op == "get_attr" or (given.op == "placeholder" and given.name in weights)
        if not _is_complex(value) or is_constant:
            continue
        with call.graph.inserting_before(call):
            plain = _made(call.graph, _PLAIN, given, value)
            call.replace_input_with(given, _made(call.graph, _REAL, plain, plain.meta["val"]))
        users = list(inner.users)
        with module.graph.inserting_after(inner):
            whole = module.graph.call_function(_COMPLEX, (inner,))
        whole.meta = {**inner.meta, "val": plain.meta["val"]}
        inner.meta = {**inner.meta, "val": _viewed(_REAL, plain.meta["val"])}
        for user in users:
            user.replace_input_with(inner, whole)
    end = module.graph.output_node()
    results: list[Any] = list(cast(Any, end.args[0]))
    for place, node in enumerate(results):
        if isinstance(node, torch.fx.Node) and _is_complex(node.meta.get("val")):
            with module.graph.inserting_before(end):
                results[place] = _made(module.graph, _REAL, node, node.meta["val"].resolve_conj())
            for item in [user for user in call.users if user.args[1] == place]:
                users = list(item.users)
                with call.graph.inserting_after(item):
                    whole = call.graph.call_function(_COMPLEX, (item,))
                whole.meta, item.meta = dict(item.meta), dict(results[place].meta)
                for user in users:
                    user.replace_input_with(item, whole)
    end.args = (tuple(results),)


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def _made(graph: torch.fx.Graph, op: Any, node: torch.fx.Node, value: Any) -> torch.fx.Node:
    made = graph.call_function(op, (node,))
    made.meta = {**node.meta, "val": _viewed(op, value)}
    return made


def _viewed(op: Any, value: Any) -> Any:
    with value.fake_mode:
        return op(value)
