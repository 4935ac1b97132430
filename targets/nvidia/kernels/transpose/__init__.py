"""Transposes through shared memory."""
