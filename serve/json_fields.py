"""Fields of JSON objects from clients: untrusted, so each is checked as it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..support.errors import StepwellError

_KINDS = {str: "a string", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


class RequestError(StepwellError):
    """A request that is not answered, with the status of the response and what OpenAI's error objects have.

    Attributes:
        status: the HTTP status.
        param: the field that is wrong, if one is.
        code: the kind of error for programs.
        retry_after: seconds after which the client may try again.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str = "", retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after


class JsonFields:
    """The fields of a JSON object; null counts as absent."""

    def __init__(self, values: Any, where: str = "") -> None:
        """Takes an object.

        Args:
            values: the object.
            where: its place in the request, for messages; empty for the request itself.

        Raises:
            RequestError: it is not an object.
        """
        if not isinstance(values, dict):
            raise RequestError(f"{where or 'the request'} must be an object", param=where or None)
        self._values: Mapping[str, Any] = values
        self._prefix = f"{where}." if where else ""

    @staticmethod
    def read(body: bytes) -> JsonFields:
        """Reads the body of a request.

        Raises:
            RequestError: it is not JSON, or not an object.
        """
        try:
            values = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the request is not JSON: {error}", code="invalid_json") from None
        return JsonFields(values)

    def get(self, name: str) -> Any:
        """Returns a field that the caller checks; None if it is absent."""
        return self._values.get(name)

    def wrong(self, name: str, rule: str) -> RequestError:
        """Returns the error of a field that breaks a rule."""
        name = f"{self._prefix}{name}"
        return RequestError(f"{name} {rule}", param=name, code="invalid_value")

    def text(self, name: str, most: int | None = None) -> str | None:
        """Returns a string that can be encoded, at most `most` characters long."""
        value = self._value(name, str)
        if value is not None and not _is_text(value):
            raise self.wrong(name, "has a part of a character (an unpaired surrogate)")
        if value is not None and most is not None and len(value) > most:
            raise self.wrong(name, f"must have at most {most} characters")
        return value

    def texts(self, name: str, most: int, longest: int) -> tuple[str, ...]:
        """Returns a string or a list of strings as a tuple without empty strings."""
        value = self.get(name)
        items = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and len(item) <= longest and _is_text(item) for item in items):
            raise self.wrong(name, f"must be a string or a list of strings of at most {longest} characters")
        if len(items) > most:
            raise self.wrong(name, f"must have at most {most} strings")
        return tuple(filter(None, items))

    def prompts(self, name: str, most: int, longest: int) -> list[str | tuple[int, ...]]:
        """Returns prompts: a text or its tokens, or a list of texts or of lists of tokens."""
        value = self.get(name)
        is_list = isinstance(value, list) and bool(value)
        items = value if is_list and not isinstance(value[0], int) else [value]
        if len(items) > most:
            raise self.wrong(name, f"must have at most {most} prompts")
        if not all(_is_prompt(item, longest) for item in items):
            raise self.wrong(name, "must be a text, a list of tokens, or a list of texts or of lists of tokens")
        return [item if isinstance(item, str) else tuple(item) for item in items]

    def flag(self, name: str) -> bool:
        """Returns true or false; false if it is absent."""
        return bool(self._value(name, bool))

    def whole(self, name: str, low: int, high: int) -> int | None:
        """Returns a whole number within bounds."""
        return self._bounded(name, self._value(name, int), low, high)

    def number(self, name: str, low: float, high: float) -> float | None:
        """Returns a number within bounds."""
        value = self._bounded(name, self._value(name, float), low, high)
        return None if value is None else float(value)

    def _bounded(self, name: str, value: Any, low: float, high: float) -> Any:
        if value is not None and not low <= value <= high:
            raise self.wrong(name, f"must be from {low} to {high}")
        return value

    def _value(self, name: str, kind: type) -> Any:
        value = self._values.get(name)
        kinds = (int, float) if kind is float else kind
        if value is None or (isinstance(value, kinds) and (kind is bool or not isinstance(value, bool))):
            return value
        raise self.wrong(name, f"must be {_KINDS[kind]}")


def _is_prompt(value: Any, longest: int) -> bool:
    if isinstance(value, str):
        return len(value) <= longest and _is_text(value)
    is_list = isinstance(value, list) and 0 < len(value) <= longest
    return is_list and all(type(token) is int and token >= 0 for token in value)


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
