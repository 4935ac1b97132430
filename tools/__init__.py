"""Command-line tools: argument parsing and printing, no compiler logic."""
