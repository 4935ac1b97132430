"""Splits the text of an LLVM module by its functions, each of which becomes a separate object.

Translating the module as a whole and splitting its text is cheaper than translating each function alone.

    @0 = private constant ...
    define void @f() { call void @g() }
    define internal void @g() { ... @0 ... }
    define void @h() { ... }
    --> {"f": "@part.1 = ...; define void @f() ...; define internal void @part.0() ...", "h": "define void @h() ..."}

Symbols private to a part are renamed, so that its text does not depend on the rest of the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_DEFINITION = re.compile(r"^define .*?^\}\n", re.MULTILINE | re.DOTALL)
_SYMBOL = re.compile(r'@("[^"]*"|[\w.$-]+)')
_DECLARED = re.compile(r"^(?:declare |@).*\n", re.MULTILINE)
_DEBUG_INFO = re.compile(r" !dbg !\d+")
_PRIVATE = re.compile(r"define (?:internal|private) |@\S+ = (?:internal|private) ")


def split(text: str) -> dict[str, str]:
    """Returns the text of a module for each function that is visible from outside, with the symbols that it uses."""
    definitions = {_name(found[0]): found[0] for found in _DEFINITION.finditer(text)}
    rest = _DEFINITION.sub("", text)
    entities = {_name(found[0]): found[0] for found in _DECLARED.finditer(rest)} | definitions
    # Types, attributes and metadata have separate namespaces; every part gets all of them.
    common = _DECLARED.sub("", rest)
    return {
        name: common + "".join(_part(name, entities))
        for name, definition in definitions.items()
        if not _PRIVATE.match(definition)
    }


def _part(root: str, entities: dict[str, str]) -> Iterator[str]:
    names, pending = {root: root}, [root]
    while pending:
        text = entities[pending.pop()]
        for name in dict.fromkeys(_SYMBOL.findall(text)):
            if name in entities and name not in names:
                is_private = _PRIVATE.match(entities[name])
                names[name] = f"part.{len(names)}" if is_private else name
                if is_private or not entities[name].startswith("define "):
                    pending.append(name)
    for name, new in names.items():
        text = entities[name]
        if new == name != root and text.startswith("define "):
            yield _declaration(text)
        else:
            yield _SYMBOL.sub(lambda found: f"@{names.get(found[1], found[1])}", text)


def _name(entity: str) -> str:
    found = _SYMBOL.search(entity)
    assert found is not None
    return found[1]


def _declaration(definition: str) -> str:
    """Returns a declaration: define void @f(ptr %0) #0 !dbg !4 { ... } --> declare void @f(ptr %0) #0"""
    head = _DEBUG_INFO.sub("", definition.split("{\n", 1)[0])
    return head.replace("define", "declare", 1).rstrip() + "\n"
