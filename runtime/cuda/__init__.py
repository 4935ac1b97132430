"""Execution of programs compiled for NVIDIA GPUs, on a device or on a simulator."""
