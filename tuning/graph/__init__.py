"""Search over decisions of passes on a model's graph: methods of convolutions, layouts, fusion, precision."""
