"""Models in several pieces: the plan of a model with nodes on the host, and the source of a subgraph."""
