"""Passes that pack weights and rows in the order in which kernels read them."""
