"""Rewrite patterns by topic; the passes choose which of them to apply."""
