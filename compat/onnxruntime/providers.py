"""Execution providers, as programs specify them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any


def normalized(
    providers: Sequence[str | tuple[str, dict[Any, Any]]] | None,
    provider_options: Sequence[dict[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Returns the names of providers and the options of each; warns of unavailable or repeated ones.

    Raises:
        ValueError: they are neither names nor names with options, or the numbers of names and options differ.
    """
    if providers is None:
        return [], []
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    found: dict[str, dict[str, str]] = {}
    for name, options in _pairs(providers, provider_options):
        if name not in available_provider_names:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(available_provider_names)}'",
                stacklevel=4,
            )
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
            continue
        found[name] = {str(key): str(value) for key, value in options.items()}
    return list(found), list(found.values())


def _pairs(providers: Sequence[Any], options: Sequence[Any] | None) -> list[tuple[str, dict[Any, Any]]]:
    if options is None:
        pairs = [(item, {}) if isinstance(item, str) else item for item in providers]
        if not all(map(_is_pair, pairs)):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        return pairs
    if not isinstance(options, Sequence):
        raise ValueError("'provider_options' should be a sequence.")
    if len(providers) != len(options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    if not all(isinstance(provider, str) for provider in providers):
        raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
    if not all(isinstance(item, dict) for item in options):
        raise ValueError("'provider_options' values must be dicts.")
    return list(zip(providers, options, strict=True))


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], dict)
