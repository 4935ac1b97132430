"""Command line flags in the syntax of LLVM's tools: `--flag`, `-flag`, `--flag=value`, `--flag value`; also passes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..support.errors import StepwellError

_TRUE, _FALSE = ("", "true", "TRUE", "True", "1"), ("false", "FALSE", "False", "0")
_WIDTHS = {"uint": (0, 2**32 - 1), "long": (-(2**63), 2**63 - 1)}
_RADIX = re.compile(r"(?P<sign>-?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0o?(?P<o>[0-7]+)|(?P<d>[0-9]+))")
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}
_MOST_DIGITS = 66
"""Maximum number of characters of a number: 64 binary digits after their prefix."""


class UsageError(StepwellError):
    """Raised for an invalid command line; the message says what is wrong."""


class Flag:
    """One flag.

    Args:
        name: the name without dashes.
        help: one line.
        value: name of the value in the help; empty for a switch.
        implied: the value if the flag is given without one; None if it must have one.
        kind: type of the value: `text`, `bool`, `uint`, `long`, `version`, or `none` if it takes no value.
        choices: the allowed values; empty if any is allowed.
        is_llvm: whether LLVM's own parser has the flag and passes it on to MLIR.
        alias_of: the flag that this is an alias of; empty if none.
    """

    def __init__(
        self,
        name: str,
        help: str,
        value: str = "",
        implied: str | None = None,
        kind: str = "text",
        choices: Sequence[str] = (),
        is_llvm: bool = False,
        alias_of: str = "",
    ) -> None:
        self.key = alias_of or name
        self.name, self.help, self.value, self.choices, self.is_llvm = name, help, value, choices, is_llvm
        self.implied = "true" if not value else implied
        self.kind = "bool" if not value and kind == "text" else kind

    @property
    def usage(self) -> str:
        """The flag's syntax in the help."""
        if not self.value:
            return f"--{self.name}"
        return f"--{self.name}=<{self.value}>" if self.implied is None else f"--{self.name}[=<{self.value}>]"

    def complaint(self, value: str) -> str:
        """Returns the error message for a value, in LLVM's words; "" if it is valid."""
        if self.kind == "none" and value != self.implied:
            return f"does not allow a value! '{value}' specified."
        if self.kind == "version" and _number(value) is None:
            return f"Invalid argument '{value}', only integer is supported."
        if self.choices and value not in self.choices:
            return f"Cannot find option named '{value}'!"
        if self.kind == "bool" and value not in (*_TRUE, *_FALSE):
            return f"'{value}' is invalid value for boolean argument! Try 0 or 1"
        if self.kind in _WIDTHS:
            number, (low, high) = _number(value), _WIDTHS[self.kind]
            if number is None or not low <= number <= high:
                return f"'{value}' value invalid for {self.kind} argument!"
        return ""


class CommandLine:
    """A parsed command line.

    Attributes:
        values: all values of each given flag, in order.
        passes: the passes in the given order, each with its options as text.
        positionals: the arguments that are not flags.
        for_llvm: the arguments for LLVM's own parser.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.passes: list[tuple[str, str]] = []
        self.positionals: list[str] = []
        self.for_llvm: list[str] = []

    def has(self, name: str, default: bool = False) -> bool:
        """Returns whether a switch is on."""
        return self.values[name][-1] in _TRUE if name in self.values else default

    def get(self, name: str, default: str | None = None) -> str | None:
        """Returns the last value of a flag."""
        return self.values[name][-1] if name in self.values else default

    def number(self, name: str) -> int | None:
        """Returns the value of a numeric flag, or None if it was not given."""
        return _number(self.values[name][-1]) if name in self.values else None


def parse(
    program: str,
    arguments: Sequence[str],
    flags: Iterable[Flag],
    is_pass: Callable[[str], bool],
    llvm_flags: Callable[[], Mapping[str, bool]],
    nearest: Callable[[str], str],
) -> CommandLine:
    """Parses a command line.

    Args:
        program: the name of the tool, for messages.
        arguments: the command line.
        flags: the known flags.
        is_pass: returns whether there is a pass of a name.
        llvm_flags: returns further flags of LLVM's libraries, and whether each needs a value; slow.
        nearest: returns the known name nearest to an unknown one.

    Raises:
        UsageError: the command line is invalid; the message has one line for each error.
    """
    known = {flag.name: flag for flag in flags}
    line, wrong = CommandLine(), []
    rest = list(_expanded(arguments))
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            line.positionals += rest
            break
        if argument == "-" or not argument.startswith("-"):
            line.positionals.append(argument)
            continue
        name, equals, value = argument[2 if argument.startswith("--") else 1 :].partition("=")
        flag = known.get(name)
        if flag is None and name and is_pass(name):
            line.passes.append((name, value))
            continue
        if flag is None and name in llvm_flags():
            line.for_llvm.append(argument)
            if llvm_flags()[name] and not equals and rest:
                line.for_llvm.append(rest.pop(0))
            continue
        if flag is None:
            # LLVM reads every word that starts with the name of a flag of one letter as a group of such flags.
            first = known.get(name[:1])
            if first is not None and first.implied is not None:
                line.values.setdefault(first.key, []).append(first.implied)
                return line
            if first is not None:
                wrong.append(f"{program}: for the -{first.name} option: may not occur within a group!")
            near = nearest(name) if first is None else first.name
            wrong.append(f"{program}: Unknown command line argument '{argument}'.  Try: '{program} --help'")
            wrong.append(f"{program}: Did you mean '{_dashed(near)}{equals}{value}'?")
            continue
        if not equals:
            if flag.implied is None and not rest:
                wrong.append(f"{program}: for the {_dashed(name)} option: requires a value!")
                continue
            value = rest.pop(0) if flag.implied is None else flag.implied
        if complaint := flag.complaint(value):
            wrong.append(f"{program}: for the {_dashed(name)} option: {complaint}")
        line.values.setdefault(flag.key, []).append(value)
        if flag.is_llvm:
            line.for_llvm.append(f"--{name}={value}")
    if len(line.positionals) > 1:
        wrong.append(f"{program}: Too many positional arguments specified!")
        wrong.append(f"Can specify at most 1 positional arguments: See: {program} --help")
    if wrong:
        raise UsageError("\n".join(wrong))
    return line


def _expanded(arguments: Sequence[str]) -> Iterable[str]:
    """Yields the arguments; `@file` is replaced by the words in that response file if it exists."""
    for argument in arguments:
        text = _contents(argument[1:]) if argument.startswith("@") else None
        if text is None:
            yield argument
        else:
            yield from shlex.split(text)


def _contents(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _dashed(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _number(text: str) -> int | None:
    """A whole number in the notation that LLVM reads: 12, 0x1f, 0b11, 017, 0o17."""
    match = _RADIX.fullmatch(text) if len(text) <= _MOST_DIGITS else None
    if match is None:
        return None
    base = next(group for group in _BASES if match[group] is not None)
    return int(match["sign"] + match[base], _BASES[base])


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Returns the name at the smallest edit distance; the first of several."""
    best, fewest = "", len(name) + 1000
    for candidate in names:
        if abs(len(candidate) - len(name)) < fewest:
            distance = _distance(name, candidate, fewest)
            if distance < fewest:
                best, fewest = candidate, distance
    return best


def _distance(one: str, other: str, enough: int) -> int:
    """Returns the edit distance of two words, or a number of at least `enough` if it is larger."""
    row = list(range(len(other) + 1))
    for number, left in enumerate(one, start=1):
        above, row[0] = row[0], number
        for column, right in enumerate(other, start=1):
            above, row[column] = (
                row[column],
                above if left == right else 1 + min(above, row[column], row[column - 1]),
            )
        if min(row) >= enough:
            return enough
    return row[-1]
