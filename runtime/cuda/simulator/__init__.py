"""Runs PTX without a device: numpy computes every instruction for all threads of many blocks at once, and checks it."""
