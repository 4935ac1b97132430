"""Attention in one kernel: scores and weights of a block of queries stay in registers."""
