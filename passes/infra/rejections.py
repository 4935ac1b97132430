"""Explanations why MLIR's pass manager rejects a pass or its options."""

from __future__ import annotations

import re

from .discovery import pass_names
from .options import suggestion
from .upstream import upstream_passes


def explain_rejection(name: str, error: str) -> str:
    """A one-line explanation why the pass manager rejected the pass `name`, with a suggested correction."""
    if "does not refer to a registered pass" in error:
        known = [*upstream_passes(), *pass_names()]
        return f"'{name}' does not refer to a registered pass or pass pipeline{suggestion(name, known)}"
    if found := re.search(r"no such option (\S+)", error):
        options = upstream_passes().get(name, [])
        has = f" (it has: {', '.join(options)})" if options else " (it has none)"
        return f"pass '{name}' has no option '{found[1]}'{suggestion(found[1], options)}{has}"
    return " ".join(line.strip() for line in error.splitlines() if line.strip())
