"""One compile, from a source to a program: the route, its state, and the facts that it collects."""
