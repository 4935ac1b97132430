"""Passes on bufferised code."""
