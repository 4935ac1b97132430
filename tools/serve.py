"""`stepwell-serve`: answers requests of OpenAI's API with a language model, and shows a page to chat."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.packages import require_package
from . import arguments, model_options, running, text_options
from .console import progress
from .flags import UsageError

if TYPE_CHECKING:
    from ..lm.text_model import TextModel

NAME = "stepwell-serve"
_DESCRIPTION = """Serves a language model by HTTP, with the interface of OpenAI's API.

    stepwell-serve model.gguf                          at http://127.0.0.1:8000, with a page to chat
    stepwell-serve model.gguf --sequences 16           sixteen texts grow together
    stepwell-serve model.gguf --host 0.0.0.0 --api-key KEY    for other machines, without encryption

Clients of OpenAI's API take the address http://127.0.0.1:8000/v1. Ctrl-C ends the server."""
_MEBIBYTE = 1 << 20
"""Bytes of a MiB."""
_MOST_PORT = 0xFFFF
"""Greatest port of TCP, a number of 16 bits (RFC 9293)."""
_KEY_VARIABLE = "STEPWELL_API_KEY"


def main(argv: list[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 after an error."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    text_options.add_model_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument(
        "--port", type=arguments.natural, default=8000, help="0: any that is free (default: %(default)s)"
    )
    parser.add_argument("--name", help="name of the model for clients (default: that of the file)")
    parser.add_argument(
        "--sequences", type=arguments.positive, default=8, help="number of texts that grow together (default: 8)"
    )
    parser.add_argument(
        "--most-requests",
        type=arguments.positive,
        default=64,
        help="texts in progress, with those that wait, above which more are refused (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        type=arguments.natural,
        metavar="MIB",
        help="memory for keys and values of all texts; ended ones keep theirs while there is room, for prompts that "
        "begin like them (default: as much as all texts need at their longest, and 256 MiB)",
    )
    parser.add_argument(
        "--batch-invariant",
        action="store_true",
        help="make each text the one that it is alone; those that wait for pages take further memory",
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        default=os.environ.get(_KEY_VARIABLE, ""),
        help=f"key that requests must have (default: the environment variable {_KEY_VARIABLE}; none if it is not set)",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="address of a page of another server that may ask this one, such as https://example.org; '*': all",
    )
    text_options.add_sampling_options(parser, temperature=1.0)
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    for package in ("gguf", "tokenizers", "jinja2", "msgspec", "starlette", "uvicorn", "prometheus_client"):
        require_package(package, "the server", "serve")
    from ..lm.engine import Engine
    from ..serve.listening import serve
    from ..serve.server import ServerOptions, TextServer

    path = Path(options.model)
    sampling = text_options.sampling_of(options)
    name = options.name or (path.resolve().name if path.is_dir() else path.stem)
    with _bound(options.host, options.port) as bound:
        with progress(options, f"loading {path.name}"):
            model = _loaded(path, options)
        with Engine(model) as engine:
            host, port = bound.getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            weights, values = model.weight_bytes, engine.figures.memory_bytes
            if options.json:
                record = {"schema": 1, "model": name, "address": address, "context": model.context}
                running.print_json({**record, "weight_bytes": weights, "key_value_bytes": values})
            else:
                print(f"model    {name}, {model.context} tokens of context, {options.sequences} texts together")
                print(f"memory   weights {_mebibytes(weights)}, keys and values at most {_mebibytes(values)}")
                print(f"API      {address}/v1")
                print(f"page     {address}/", flush=True)
            access = {"api_key": options.api_key, "origins": tuple(options.allow_origin)}
            server = TextServer(model, engine, ServerOptions(name, sampling, options.most_requests, **access))
            serve(server.app, bound, engine.close)
    print(f"{NAME}: ended", file=sys.stderr)
    return 0


def _loaded(path: Path, options: argparse.Namespace) -> TextModel:
    """Loads the model.

    Raises:
        UsageError: an option does not suit it.
    """
    from ..lm.encoder_decoder import is_encoder_decoder, load_encoder_decoder
    from ..lm.loading import load

    memory = None if options.memory is None else options.memory * _MEBIBYTE
    loading = {**text_options.loading_of(options), "batch_invariant": options.batch_invariant, "memory": memory}
    if not is_encoder_decoder(path):
        return load(path, **loading, sequences=options.sequences)
    unsuited = {"lookup": 0, "draft": None, "cache": "float", "batch_invariant": False, "memory": None}
    for name, usual in unsuited.items():
        if loading[name] != usual:
            raise UsageError(f"--{name.replace('_', '-')} does not apply to {path.name}, an encoder-decoder")
    model = load_encoder_decoder(path, options.context, threads=options.threads, sequences=options.sequences)
    if not model.reads_text:
        raise UsageError(f"{path.name} writes about spectra of speech, which requests cannot have")
    return model


def _bound(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address, before the model is loaded.

    Raises:
        UsageError: the address cannot be had.
    """
    if port > _MOST_PORT:
        raise UsageError(f"--port {port}: ports are from 0 to {_MOST_PORT}")
    try:
        # asyncio sends small parts at once only on sockets that name the protocol, as these do.
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host} --port {port}: {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UsageError(f"cannot listen at {host}, port {port}: {error.strerror}; choose another --port") from None
    return bound


def _mebibytes(count: int) -> str:
    return f"{count / _MEBIBYTE:,.0f} MiB"


if __name__ == "__main__":
    sys.exit(main())
