"""Help on passes: text for the command line in MLIR's format, and a page of the reference."""

from __future__ import annotations

import dataclasses
import inspect
import re

from .infra.base import Pass
from .infra.discovery import all_passes
from .infra.options import option_types, print_value, type_name
from .infra.upstream import PIPELINES, listing

_WIDTH = 48
"""Number of characters of the column of names: the longest option with its type has 40."""
_PACKAGE = "stepwell."


def list_passes() -> str:
    """Every pass, upstream and Stepwell's, with options and summaries."""
    entries = _entries(listing())
    entries |= {name: _describe(cls) for name, cls in all_passes().items()}
    passes = "".join(entries[name] for name in sorted(entries))
    return f"Passes:\n{passes}Pass Pipelines:\n" + "".join(f"  --{name}\n" for name in PIPELINES)


def _entries(text: str) -> dict[str, str]:
    """MLIR's help text of each pass, by name."""
    pieces = re.split(r"^(?=  --)", text, flags=re.MULTILINE)
    return {match[1]: piece for piece in pieces if (match := re.match(r"  --([\w-]+)", piece))}


def _describe(cls: type[Pass]) -> str:
    lines = [f"  --{cls.name}".ljust(_WIDTH + 4) + f"-   {summary_of(cls)}\n"]
    helps = option_helps(cls)
    for name, kind in option_types(cls).items():
        head = f"    --{name}" + ("" if kind is bool else f"=<{type_name(kind)}>")
        lines.append(head.ljust(_WIDTH + 4) + f"- {helps.get(name, '')}".rstrip() + "\n")
    return "".join(lines)


def summary_of(cls: type[Pass]) -> str:
    """The first sentence of a pass's docstring, without the full stop."""
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ").rstrip(".")


def option_helps(cls: type[Pass]) -> dict[str, str]:
    """The descriptions in the `Attributes:` section of a pass's docstring, by the option's textual name."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", inspect.getdoc(cls) or "", re.MULTILINE)
    if section is None:
        return {}
    items = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section[1], re.MULTILINE)
    return {name.replace("_", "-"): re.sub(r"\s+", " ", text) for name, text in items}


def reference_page() -> str:
    """The text of `docs/reference/passes.md`: every Stepwell pass with its docstring."""
    head = (
        "# Passes\n\n"
        "<!-- Made by `python -m stepwell.passes.help`; edit the docstrings instead. -->\n\n"
        "Upstream passes: <https://mlir.llvm.org/docs/Passes/>. Both kinds: `stepwell-opt --list-passes`.\n"
    )
    return head + "".join(_section(cls) for cls in all_passes().values() if cls.__module__.startswith(_PACKAGE))


def _section(cls: type[Pass]) -> str:
    text = re.sub(r"^Attributes:\n(?:    .*\n?|\n)+", "", inspect.getdoc(cls) or "", flags=re.MULTILINE).strip()
    section = f"\n## `{cls.name}`\n\nRuns on `{cls.anchor}`.\n\n{text}\n"
    fields = {field.name.replace("_", "-"): field for field in dataclasses.fields(cls)}
    if not fields:
        return section
    helps, kinds = option_helps(cls), option_types(cls)
    rows = [
        f"| `{name}` | {type_name(kinds[name])} | {_default(fields[name])} | {helps.get(name, '')} |\n"
        for name in fields
    ]
    return section + "\n| option | type | default | meaning |\n|---|---|---|---|\n" + "".join(rows)


def _default(field: dataclasses.Field) -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    return f"`{print_value(field.default)}`" if field.default is not None else "none"


if __name__ == "__main__":
    print(reference_page(), end="")
