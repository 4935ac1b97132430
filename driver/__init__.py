"""Drives a model down the levels of the IR: options, steps, cache, workers, failures."""
