"""Instructions of GPUs: memory, 32-bit integers, loops, the copy engine and warp groups."""
