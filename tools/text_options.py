"""Options that the tools for language models share: the model's, and those of the choice of tokens."""

from __future__ import annotations

import argparse
from typing import Any

from ..lm.sampling import SamplingOptions
from . import arguments


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Adds the model and the options of loading it."""
    parser.add_argument("model", help="a .gguf file, a Hugging Face folder, or an ONNX decoder with its settings")
    parser.add_argument(
        "--context", type=arguments.positive, metavar="N", help="maximum number of tokens of a text with its prompt"
    )
    parser.add_argument(
        "--threads", type=arguments.positive, metavar="N", help="number of threads (default: one for each core)"
    )
    add_cache(parser)
    group = parser.add_argument_group("proposed tokens, which the model checks together")
    group.add_argument(
        "--lookup",
        type=arguments.natural,
        default=0,
        metavar="N",
        help="maximum number of tokens that the text so far proposes in a step (default: 0, none)",
    )
    group.add_argument("--draft", metavar="MODEL", help="a smaller model with the same tokens, which proposes the next")
    group.add_argument(
        "--drafted",
        type=arguments.positive,
        default=8,
        metavar="N",
        help="maximum number of tokens that it proposes in a step (default: %(default)s)",
    )
    arguments.add_plugins(parser)


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the elements of keys and values."""
    parser.add_argument(
        "--cache",
        choices=("float", "int8", "int4"),
        default="float",
        help="elements of keys and values; int8 takes a quarter of the memory, int4 an eighth (default: %(default)s)",
    )


def loading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `stepwell.lm.load` that the options of `add_model_options` choose."""
    proposers = {"lookup": options.lookup, "draft": options.draft, "drafted": options.drafted}
    return {"context": options.context, "threads": options.threads, "cache": options.cache, **proposers}


def add_sampling_options(parser: argparse.ArgumentParser, temperature: float) -> None:
    """Adds the options of the choice of tokens."""
    known, group = SamplingOptions(), parser.add_argument_group("choice of tokens")
    group.add_argument(
        "--temperature", type=arguments.amount, default=temperature, help="0: the most probable (default: %(default)s)"
    )
    group.add_argument("--top-k", type=arguments.natural, default=known.top_k, help="number of tokens kept; 0: all")
    group.add_argument("--top-p", type=arguments.amount, default=known.top_p, help="sum of the probabilities kept")
    group.add_argument("--min-p", type=arguments.amount, default=known.min_p, help="fraction of the greatest one")


def sampling_of(options: argparse.Namespace, seed: int | None = None) -> SamplingOptions:
    """Returns how tokens are chosen."""
    return SamplingOptions(options.temperature, options.top_k, options.top_p, options.min_p, seed=seed)
