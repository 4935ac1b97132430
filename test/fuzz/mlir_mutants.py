"""Broken MLIR: the project's own IR tests, with tokens and lines changed. The same number gives the same text."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

TESTS = Path(__file__).parent.parent
SPLIT = "// -----"
_TOKEN = re.compile(
    r"%[\w#.$-]+|@[\w.$-]+|\"[^\"\n]*\"|-?\d+\.\d+(?:e[+-]?\d+)?|[A-Za-z_][\w.]*|-?\d+|->|\s+|.", re.DOTALL
)
_SHAPE = re.compile(r"(?<=<)(?:[\d?]+x)+(?=[a-z!])")

NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "16",
    "1000000",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
)
TYPES = ("f32", "f64", "f16", "bf16", "i1", "i8", "i32", "i64", "ui8", "index", "none", "complex<f32>")
WORDS = ("true", "false", "unit", '"x"', "dense<0>", "[]", "{}", "array<i64>", "-", "(", ")", "<", "}", "?", "\0", "é")


def mutant(number: int) -> bytes:
    """Returns the mutant with this number; its first line is a RUN line with the flags of `stepwell-opt`."""
    rng = random.Random(number)
    seeds = _seeds()
    command, text = seeds[rng.randrange(len(seeds))]
    for _ in range(rng.choice((1, 1, 2, 5))):
        text = rng.choice(_CHANGES)(rng, text)
    return f"{command}\n{text}".encode()


@functools.cache
def _seeds() -> Sequence[tuple[str, str]]:
    """Every module of every IR test, with its first RUN line."""
    found = []
    for path in sorted(TESTS.rglob("*.mlir")):
        source = path.read_text(errors="replace")
        runs = [line for line in source.splitlines() if line.startswith("// RUN:") and "stepwell-opt" in line]
        plain = "\n".join(line for line in source.splitlines() if not re.match(r"\s*// (RUN|[A-Z-]+[:-])", line))
        found += [(runs[0], part) for part in plain.split(SPLIT) if runs and len(part) < 20_000 and part.strip()]
    return found


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text) or [" "]


def _replace_number(rng: random.Random, text: str) -> str:
    return _replace(rng, text, lambda token: token.lstrip("-").isdigit(), NUMBERS)


def _replace_type(rng: random.Random, text: str) -> str:
    return _replace(rng, text, lambda token: token in TYPES, TYPES)


def _replace_word(rng: random.Random, text: str) -> str:
    return _replace(rng, text, lambda token: not token.isspace(), WORDS)


def _replace(rng: random.Random, text: str, fits: Callable[[str], bool], values: Sequence[str]) -> str:
    tokens = _tokens(text)
    places = [index for index, token in enumerate(tokens) if fits(token)]
    if places:
        tokens[rng.choice(places)] = rng.choice(values)
    return "".join(tokens)


def _swap_tokens(rng: random.Random, text: str) -> str:
    """Swaps two values, two symbols or two words."""
    tokens = _tokens(text)
    first = tokens[rng.randrange(len(tokens))][0]
    places = [index for index, token in enumerate(tokens) if token[0] == first]
    one, two = rng.choice(places), rng.choice(places)
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return "".join(tokens)


def _drop_token(rng: random.Random, text: str) -> str:
    tokens = _tokens(text)
    del tokens[rng.randrange(len(tokens))]
    return "".join(tokens) or " "


def _borrow_op(rng: random.Random, text: str) -> str:
    """Replaces an op's name by that of an op of another test."""
    other = _tokens(rng.choice(_seeds())[1])
    names = [token for token in other if re.match(r"\"?[a-z_]+\.[a-z_.]+\"?$", token)]
    return _replace(rng, text, lambda token: bool(re.match(r"\"?[a-z_]+\.[a-z_.]+\"?$", token)), names or ["x.y"])


def _change_shape(rng: random.Random, text: str) -> str:
    shapes = list(_SHAPE.finditer(text))
    if not shapes:
        return text
    match = rng.choice(shapes)
    dims = match.group()[:-1].split("x")
    kind = rng.randrange(3)
    if kind == 0:
        dims[rng.randrange(len(dims))] = rng.choice(("?", "0", "1", "17", "1048576", "4611686018427387904"))
    elif kind == 1:
        dims.insert(rng.randrange(len(dims) + 1), rng.choice(("?", "1", "5")))
    else:
        del dims[rng.randrange(len(dims))]
    return text[: match.start()] + "".join(f"{dim}x" for dim in dims) + text[match.end() :]


def _change_lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(one, lines[two])
    elif kind == 2:
        lines[one], lines[two] = lines[two], lines[one]
    else:
        other = rng.choice(_seeds())[1].split("\n")
        lines.insert(one, rng.choice(other))
    return "\n".join(lines)


def _nest(rng: random.Random, text: str) -> str:
    """Nests a type, attribute or region in itself, many times."""
    depth = rng.choice((10, 1000, 100_000))
    kind = rng.choice((("tuple<", ">"), ("[", "]"), ("{a = ", "}"), ("(", ")")))
    return _replace(rng, text, lambda token: not token.isspace(), [kind[0] * depth + "f32" + kind[1] * depth])


_CHANGES: tuple[Callable[[random.Random, str], str], ...] = (
    _replace_number,
    _replace_number,
    _replace_number,
    _replace_type,
    _replace_type,
    _replace_word,
    _swap_tokens,
    _swap_tokens,
    _drop_token,
    _borrow_op,
    _change_shape,
    _change_shape,
    _change_shape,
    _change_lines,
    _change_lines,
    _nest,
)
