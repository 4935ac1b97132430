"""Passes that transform IR without changing its level, their infrastructure, and tools for IR."""
