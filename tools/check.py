"""`stepwell-compile --check`: a table of the nodes that have no native code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .console import print_table
from .model_options import Given

if TYPE_CHECKING:
    from ..runtime.host.fallback import Fallback


def check(model: str, given: Given, as_json: bool) -> int:
    """Prints the findings of `stepwell.check`; returns 0 if all of the model has native code, else 1."""
    from .. import check
    from ..driver.sources.reading import read_source

    shapes = given.shapes
    if given.dims or shapes:
        infos, _ = read_source(model).interface()
        given.check_names(infos)
        shapes = {**given.shapes_of_sizes(infos), **shapes}
    report = check(model, shapes)
    if as_json:
        print(json.dumps({"schema": 1, **report.record()}, indent=2))
    else:
        print(report.summary)
        if report.findings:
            print_table(("node", "operator", "takes", "reason", "work-around"), list(map(_row, report.findings)))
        if report.unseen:
            print(f"not checked: {', '.join(report.unseen)}")
    return 0 if report.is_native else 1


def _row(found: Fallback) -> tuple[str, ...]:
    takes = ", ".join(f"{kind or '?'}{_text(shape)}" for kind, shape in zip(found.dtypes, found.shapes, strict=True))
    return found.node, found.operator, takes, found.reason, found.suggestion


def _text(shape: tuple[int | str, ...] | None) -> str:
    return "[...]" if shape is None else f"[{', '.join(map(str, shape))}]"
