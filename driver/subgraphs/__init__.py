"""Models that are divided: the plan of a model with nodes on the host, and the source of a subgraph."""
