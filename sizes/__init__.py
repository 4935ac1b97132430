"""Sizes that vary from call to call: expressions, ranges, buckets and their textual syntax. Needs no MLIR."""
