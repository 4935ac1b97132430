"""Schedules, one per class of kernel: the loops and vectors of a kernel, as a transform-dialect script."""
