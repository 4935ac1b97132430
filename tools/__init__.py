"""Command-line tools: argument parsing and printing, no compiler logic."""

from .streams import open_streams

open_streams()
