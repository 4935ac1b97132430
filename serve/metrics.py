"""Figures of a server in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from .text_stream import TextStream

if TYPE_CHECKING:
    from ..lm.engine import Engine

_GAUGES = {
    "running": "Number of texts that grow.",
    "waiting": "Number of requests that wait for room.",
    "pages": "Number of pages for keys and values.",
    "free_pages": "Number of pages that no text has, running or ended.",
    "memory_bytes": "Bytes that keys and values may take at most.",
}
_COUNTERS = {
    "requests": "Number of requests that started.",
    "prompt_tokens": "Number of tokens of their prompts.",
    "cached_tokens": "Number of tokens of prompts that were not computed again.",
    "tokens": "Number of generated tokens.",
    "steps": "Number of calls that added a token to each text.",
    "step_seconds": "Time of these calls.",
    "prompt_seconds": "Time of calls for prompts.",
    "proposed": "Number of tokens that were proposed while one text grew alone.",
    "accepted": "Number of those that the model chose too.",
    "interrupted": "How often a text gave up its pages to others, and was read again later.",
}
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
"""Upper ends of buckets in seconds, about half a power of ten apart: from a prompt in the cache to long texts."""


class Metrics:
    """The metrics of a server."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._registry = engine, CollectorRegistry()
        self._registry.register(self)
        first = "Time from a request to its first token."
        self._first = Histogram("stepwell_first_token_seconds", first, buckets=_SECONDS, registry=self._registry)
        self._whole = Histogram(
            "stepwell_request_seconds", "Time from a request to its end.", buckets=_SECONDS, registry=self._registry
        )
        self._errors = Counter("stepwell_errors", "Number of errors.", ["status"], registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yields the figures of the engine, as prometheus_client's registry asks for them."""
        figures = self._engine.figures
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"stepwell_{name}", text, getattr(figures, name))
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"stepwell_{name}", text, getattr(figures, name))

    def ended(self, text: TextStream) -> None:
        """Counts a text that ended."""
        self._first.observe(text.first_seconds or 0)
        self._whole.observe(text.seconds or 0)

    def failed(self, status: int) -> None:
        """Counts an error."""
        self._errors.labels(str(status)).inc()

    def text(self) -> bytes:
        """Returns all metrics."""
        return generate_latest(self._registry)
