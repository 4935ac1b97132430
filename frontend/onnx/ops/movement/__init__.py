"""Importers of operators that move elements: shapes, permutations, slices, gathers, scatters, padding."""
