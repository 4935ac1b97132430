"""One schedule per class of kernel: how it is cut into loops and vectors, as a transform-dialect script."""
