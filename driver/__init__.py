"""The compile driver: takes a model down the levels of the IR; options, phases, cache, workers, failures."""
