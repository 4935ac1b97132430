"""Emission of the code of single elements, which the kernels of all schedules share."""
