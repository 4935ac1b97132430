"""Transformations from one level to the same level, the registry they are found in, and pipelines of them."""
