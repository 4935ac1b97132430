"""Searchers: they propose schedules of a kernel, and learn from what was measured."""
