"""Runs an application until the process is interrupted, by uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool

_CLOSE_SECONDS = 5
"""Seconds that clients have to receive the rest of a response before their connections are closed."""


def serve(app: Starlette, bound: socket.socket, close: Callable[[], None]) -> None:
    """Answers requests until SIGINT or SIGTERM.

    Args:
        app: the application.
        bound: a socket that is bound to an address.
        close: ends all texts, after which their responses end.
    """
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=_CLOSE_SECONDS)
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has ended
        _Server(config, close).run(sockets=[bound])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, close: Callable[[], None]) -> None:
        super().__init__(config)
        self._close = close

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Texts in progress would keep their connections open.
        await run_in_threadpool(self._close)
        await super().shutdown(sockets)
