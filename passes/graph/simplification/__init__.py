"""Passes that bring a graph into canonical form, and recognise composites in it."""
