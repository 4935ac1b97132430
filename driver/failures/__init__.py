"""Explains failures of a compile, with a reproducer."""
