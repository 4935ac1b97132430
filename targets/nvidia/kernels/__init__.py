"""Kernels: a room for each schedule of a launch."""
