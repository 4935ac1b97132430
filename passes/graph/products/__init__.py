"""Passes on matrix products and attention: shared operands, columns, precision, bands of masks."""
