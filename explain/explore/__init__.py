"""One HTML file with everything that a compile did: the graph, the IR after every pass, machine code."""
