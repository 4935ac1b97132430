"""The reference page of the discardable attributes, generated from their declarations."""

from __future__ import annotations

from . import discardable
from .discardable_attribute import DiscardableAttribute


def reference_page() -> str:
    """The text of `docs/reference/attributes.md`: every discardable attribute `stepwell.*`, by place."""
    head = (
        "# Attributes of the stepwell dialect\n\n"
        "<!-- Made by `python -m stepwell.dialects.attribute_help`; edit dialects/discardable.py instead. -->\n\n"
        "Discardable attributes, which passes leave on modules, functions, calls, loops and linalg ops; those of\n"
        "the dialect's own ops are in the [reference of ops](ops.md). The last column lists the phases whose\n"
        "modules may have the attribute. An unknown attribute with the prefix `stepwell.`, one of another form, or\n"
        "one in another place is an error when a module is verified.\n\n"
        "| attribute | form | on | meaning | phases |\n|---|---|---|---|---|\n"
    )
    declared = [item for item in vars(discardable).values() if isinstance(item, DiscardableAttribute)]
    return head + "".join(map(_row, declared))


def _row(item: DiscardableAttribute) -> str:
    places = ", ".join(place if " " in place else f"`{place}`" for place in item.places)
    return f"| `{item.name}` | {item.form.text} | {places} | {item.doc} | {', '.join(item.phases)} |\n"


if __name__ == "__main__":
    print(reference_page(), end="")
