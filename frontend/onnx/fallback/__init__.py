"""Models that cannot be compiled as a whole: subgraphs that are compiled, and nodes that run on the host."""
