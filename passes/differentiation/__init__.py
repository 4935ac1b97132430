"""Derivatives of programs: the op interface that differentiates an op, its rules, and the passes that apply them."""
