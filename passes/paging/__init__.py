"""Keeps the keys and values of texts in pools of pages."""
