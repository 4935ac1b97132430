"""Passes that form kernels out of the graph and work on the list of them."""
