"""Runs what was compiled for NVIDIA GPUs: on a device, or on a simulator of one."""
