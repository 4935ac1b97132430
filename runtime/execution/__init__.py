"""Calls of loaded programs: their state, their results, and recordings of them."""
