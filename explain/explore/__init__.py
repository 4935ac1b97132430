"""Writes one HTML file with every step of a compile: the graph, the IR after every pass, machine code."""
