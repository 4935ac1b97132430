"""Passes that transform IR without changing its level, their registry, and pipelines of passes."""
