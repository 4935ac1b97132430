"""The cache on disk, and the programs in it."""
