"""Command line flags as LLVM's tools take them: `--flag`, `-flag`, `--flag=value`, `--flag value`; so are passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_MOST_DIGITS = 19


class UsageError(Exception):
    """The command line is wrong; the message says how."""


@dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        name: without dashes.
        help: one line.
        value: what the value is called in the help; empty for a switch.
        implied: the value where the flag comes without one; None where it must have one.
    """

    name: str
    help: str
    value: str = ""
    implied: str | None = None

    @property
    def is_switch(self) -> bool:
        """Whether the flag is on or off, and nothing else."""
        return not self.value

    @property
    def usage(self) -> str:
        """How the flag is written."""
        if self.is_switch:
            return f"--{self.name}"
        return f"--{self.name}=<{self.value}>" if self.implied is None else f"--{self.name}[=<{self.value}>]"


@dataclass
class CommandLine:
    """What was asked for.

    Attributes:
        values: the values of the flags that were given.
        passes: the passes in the order in which they were given, each as a pipeline element.
        positionals: everything that is not a flag.
    """

    values: dict[str, str] = field(default_factory=dict)
    passes: list[str] = field(default_factory=list)
    positionals: list[str] = field(default_factory=list)

    def has(self, name: str, default: bool = False) -> bool:
        """Whether a switch is on.

        Raises:
            UsageError: it is neither on nor off.
        """
        text = self.values.get(name, str(default)).lower()
        if text not in ("true", "1", "false", "0"):
            raise UsageError(f"for the --{name} option: '{text}' is invalid value for boolean argument! Try 0 or 1")
        return text in ("true", "1")

    def number(self, name: str) -> int | None:
        """The value of a flag that takes a number, or None where it was not given.

        Raises:
            UsageError: the value is not a number.
        """
        text = self.values.get(name)
        if text is None:
            return None
        if not text.removeprefix("-").isdecimal() or len(text) > _MOST_DIGITS:
            raise UsageError(f"for the --{name} option: '{text}' value invalid for integer argument!")
        return int(text)


def parse(arguments: Sequence[str], flags: Sequence[Flag]) -> CommandLine:
    """Takes a command line apart; a flag that is not one of `flags` is a pass.

    Raises:
        UsageError: a flag lacks its value.
    """
    known = {flag.name: flag for flag in flags}
    result, rest = CommandLine(), iter(arguments)
    for argument in rest:
        if argument == "-" or not argument.startswith("-"):
            result.positionals.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        flag = known.get(name)
        if flag is None:
            result.passes.append(_pass_element(name, value))
        elif equals:
            result.values[name] = value
        elif flag.is_switch:
            result.values[name] = "true"
        elif flag.implied is not None:
            result.values[name] = flag.implied
        else:
            result.values[name] = _next_value(flag, rest)
    return result


def _next_value(flag: Flag, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise UsageError(f"for the --{flag.name} option: requires a value!")
    return value


def _pass_element(name: str, value: str) -> str:
    """`--pass{opt=v}` and `--pass="opt=v opt2=v"` as an element of a pipeline."""
    head, brace, _ = name.partition("{")
    if brace:
        return f"{name}={value}" if value else name
    return f"{head}{{{value}}}" if value else head
