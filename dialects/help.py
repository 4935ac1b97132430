"""The reference page of the stepwell dialect, generated from the op classes."""

from __future__ import annotations

import inspect
import re
import sys

from .core import AttributeField, Op, OperandField, ResultField
from .registry import STEPWELL

_ATTRIBUTES = re.compile(r"^Attributes:\n((?:    .*\n?|\n)+)", re.MULTILINE)


def reference_page() -> str:
    """The text of `docs/reference/ops.md`: every op with its documentation, family by family."""
    head = (
        "# Ops of the stepwell dialect\n\n"
        "<!-- Made by `python -m stepwell.dialects.help`; edit the docstrings instead. -->\n\n"
        "Operands of elementwise ops broadcast as in numpy. Every op is pure, and has its meaning in numpy beside its\n"
        "definition: `stepwell.dialects.interpreter` runs whole programs by it.\n"
    )
    families: dict[str, list[type[Op]]] = {}
    for op in STEPWELL.ops.values():
        families.setdefault(op.__module__, []).append(op)
    return head + "".join(_family(module, ops) for module, ops in families.items())


def _family(module: str, ops: list[type[Op]]) -> str:
    title = module.rpartition(".")[2].capitalize()
    text = (inspect.getdoc(sys.modules[module]) or "").strip()
    return f"\n## {title}\n\n{text}\n" + "".join(map(_section, ops))


def _section(op: type[Op]) -> str:
    text = _ATTRIBUTES.sub("", inspect.getdoc(op) or "").strip()
    meanings = attribute_helps(op)
    rows = [
        *(_operand_row(field) for field in op.operand_fields()),
        *(_attribute_row(field, meanings.get(field.name, field.doc)) for field in op.attribute_fields()),
        *(_result_row(field) for field in op.result_fields()),
    ]
    table = "| | name | type | default | meaning |\n|---|---|---|---|---|\n" + "".join(rows)
    return f"\n### `{op.OPERATION_NAME}`\n\n{text}\n\n{table}"


def attribute_helps(op: type[Op]) -> dict[str, str]:
    """The descriptions of the attributes in the `Attributes:` sections of an op's docstring and of its bases'."""
    helps: dict[str, str] = {}
    for cls in reversed(op.__mro__):
        section = _ATTRIBUTES.search(inspect.cleandoc(cls.__doc__ or "")) if issubclass(cls, Op) else None
        if section is not None:
            items = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section[1], re.MULTILINE)
            helps |= {name: re.sub(r"\s+", " ", text) for name, text in items}
    return helps


def _operand_row(field: OperandField) -> str:
    return f"| operand | `{field.name}` | tensor | {'absent' if field.is_optional else ''} | {field.doc} |\n"


def _attribute_row(field: AttributeField, meaning: str) -> str:
    kind = ", ".join(f"`{choice}`" for choice in field.choices or (field.kind_name.partition(" ")[2],))
    default = "required" if field.is_required else f"`{_spelt(field.default)}`"
    return f"| attribute | `{field.name}` | {kind} | {default} | {meaning} |\n"


def _result_row(field: ResultField) -> str:
    return f"| result | `{field.name}` | tensor | | {field.doc} |\n"


def _spelt(value: object) -> str:
    """A default value as MLIR spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    return str(value)


if __name__ == "__main__":
    print(reference_page(), end="")
