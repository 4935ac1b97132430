"""Parts that importers of several operators share: windows, products of bytes, activations, loops over time."""
