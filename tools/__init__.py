"""Command-line tools: argument parsing and printing, no compiler logic."""

from .streams import open_streams, show_all_names

open_streams()
show_all_names()
