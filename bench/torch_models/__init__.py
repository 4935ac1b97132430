"""Models in torch, with the weights of the ONNX file of the other systems: `load(path)` of each module."""
